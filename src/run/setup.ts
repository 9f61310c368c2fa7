// Runs a handler's `setup`. Each step of a list runs once, in order, and is remembered by the digest of its text. A
// single function runs at each start and reload.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { hash } from 'node:crypto';
import type { Handler } from '../kit.ts';
import { StoreError } from '../store/store.ts';
import { LONGEST_STEP_MS, type Tx, type WorkStore } from '../store/work.ts';
import { faultOf, type Loaded } from './load.ts';
import { Scope } from './stray.ts';

type Step = Extract<Required<Handler>['setup'], readonly unknown[]>[number];

/** White space does not count. Stores hold these digests, so this function must never change. */
export const digestOf = (step: Step): string => hash('sha256', String(step).replaceAll(/\s+/g, ' ').trim());

/** The fault, for people. Null: none. Throws StoreError. `longer` announces how long the process may be silent. */
export async function setUp(
  { name, file, setup = [] }: Loaded,
  store: Pick<WorkStore, 'steps' | 'setup'>,
  scopes: AsyncLocalStorage<Scope>,
  longer: (ms: number) => unknown = () => {},
): Promise<string | null> {
  const scope = new Scope(file, { handler: name });
  let where = '';

  async function run(step: Step, remember?: { number: number; digest: string }): Promise<void> {
    await longer(LONGEST_STEP_MS);
    const work = (tx: Tx): unknown => scopes.run(scope, () => (typeof step === 'string' ? tx.run(step) : step(tx)));
    await store.setup(name, work, remember);
    await scope.check();
  }

  try {
    if (typeof setup === 'function') await run(setup);
    else
      for (const { step, ...remember } of due(setup, await store.steps(name))) {
        where = ` in step ${remember.number}`;
        await run(step, remember);
      }
    return null;
  } catch (error) {
    if (error instanceof StoreError) throw error;
    return faultOf(
      quoting(error) ? new Error('a stored value does not fit') : error,
      file,
      `setup of handler ${name} failed${where}: `,
    );
  } finally {
    scope.close();
    await longer(0);
  }
}

/** PostgreSQL's errors of the class 22 quote stored values. The fault is logged and posted, so it must not. */
const quoting = (error: unknown): boolean => /^22/.test(String((error as { code?: unknown } | null)?.code));

/** The steps that have not run. Throws if a step that has run was changed since, or is missing. */
function due(steps: readonly Step[], ran: string[]): { step: Step; number: number; digest: string }[] {
  const listed = steps.map((step, i) => ({ step, number: i + 1, digest: digestOf(step) }));
  const odd = ran.findIndex((digest, i) => digest !== listed[i]?.digest);
  if (odd < 0) return listed.slice(ran.length);
  const how =
    odd < listed.length ? 'is no longer the one that has run: undo its change' : 'has run, and is missing: put it back';
  throw new Error(`step ${odd + 1} ${how}, and write what should change as a new last step`);
}
