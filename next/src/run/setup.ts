// Runs a handler's `setup`: each step of a list once, in order, remembered by the digest of its text; a function alone at
// each start.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { createHash } from 'node:crypto';
import type { Handler } from '../kit.ts';
import { StoreError } from '../store/store.ts';
import type { Tx, WorkStore } from '../store/work.ts';
import { faultOf, LineError, type Loaded } from './load.ts';
import { Scope } from './stray.ts';

type Step = Extract<Required<Handler>['setup'], readonly unknown[]>[number];

/** A change of large tables blocks the process, and is one statement. */
const LONGEST_STEP_MS = 600_000;
/** Quoted text, comments and white space of SQL. */
const SQL = /'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[^]*?\*\/|\s+/g;
/** Comments of code and of the SQL in it, and the characters that formatters add, remove and replace. */
const CODE = /(?<![^\s,;(){}])\/\/[^\n]*|\/\*[^]*?\*\/|(?<=\s)--\s[^\n]*|[\s,;()'"`\\]/g;

/** A formatter does not change it. Stores hold digests, so what is left out must stay the same. */
export function digestOf(step: Step): string {
  const sql = (text: string): string => text.replaceAll(SQL, (part) => (/^['"]/.test(part) ? part : ' '));
  const plain = typeof step === 'string' ? sql(step).replace(/;\s*$/, '') : String(step).replaceAll(CODE, ' ');
  // A space counts only if it divides two words.
  const text = plain.replaceAll(/\s+/g, ' ').replaceAll(/(?<!\w) | (?!\w)/g, '');
  return createHash('sha256').update(text).digest('hex');
}

/** Resolves with the fault, for people, or null. Throws StoreError. `longer` announces how long the process may be silent. */
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
        await run(step, remember).catch((error: unknown) => Promise.reject(placed(error, step)));
      }
    return null;
  } catch (error) {
    if (error instanceof StoreError) throw error;
    return faultOf(error, file, `setup of handler ${name} failed${where}: `);
  } finally {
    scope.close();
    await longer(0);
  }
}

/** The steps that have not run. Throws if one that has run was changed since, or is missing. */
function due(steps: readonly Step[], ran: string[]): { step: Step; number: number; digest: string }[] {
  const listed = steps.map((step, i) => ({ step, number: i + 1, digest: digestOf(step) }));
  const odd = ran.findIndex((digest, i) => digest !== listed[i]?.digest);
  if (odd < 0) return listed.slice(ran.length);
  const how =
    odd < listed.length ? 'is no longer the one that has run: undo its change' : 'has run, and is missing: put it back';
  throw new Error(`step ${odd + 1} ${how}, and write what should change as a new last step`);
}

/** SQL has no line of its own in a stack. */
function placed(error: unknown, step: Step): unknown {
  if (typeof step !== 'string' || error instanceof StoreError || !(error instanceof Error)) return error;
  const [first = ''] = step.trim().split('\n');
  return new LineError(error.message, new RegExp(RegExp.escape(first)));
}
