// Runs the setups of handlers: a function at each start, each step of a list once. Each is a transaction of its own, so
// that a failed one does not undo another.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { StoreError, type Store } from '../store/store.ts';
import type { Tx } from '../store/work.ts';
import { failOf, type LoadedFolder } from './load-handlers.ts';
import { countRan, digestOf, runStep, type Step } from './steps.ts';
import type { Scope } from './stray-errors.ts';

/** If the store stays locked for longer, the setup fails with StoreError, and no handler is to blame. */
const LOCKED_MS = 5_000;

export interface SetUpOptions {
  store: Pick<Store, 'work' | 'now'>;
  scopes: AsyncLocalStorage<Scope>;
  /** Awaited before each setup and step, which may block the process for long. */
  onFile: (file: string) => Promise<void>;
  /** Called if more steps of a handler have run than its list has. */
  onMore: (fields: { handler: string; ran: number; steps: number }) => void;
}

/** Adds faults to the folder. Throws StoreError if the store cannot be written. */
export async function setUpHandlers(folder: LoadedFolder, options: SetUpOptions): Promise<void> {
  const { store, scopes, onFile, onMore } = options;
  const loaded = [...folder.handlers.values()].map(({ name }) => name);
  for (const [file, { name, setup }] of folder.handlers) {
    if (folder.faults.has(file)) continue;
    const steps = typeof setup === 'function' ? [] : (setup ?? []);
    const failed = failOf(folder, file, `setup of handler ${name} failed: `);
    let fail = failed;
    const commit = async (step: Step, given?: Parameters<Store['work']['setup']>[1]): Promise<void> => {
      await onFile(file);
      const work = (tx: Tx): unknown => scopes.run({ file, fail }, () => runStep(step, tx));
      await retryWhileBusy(() => store.work.setup(work, given), LOCKED_MS);
    };
    try {
      if (typeof setup === 'function') await commit(setup);
      for (;;) {
        fail = failed;
        // Read again after each step, because another instance may run them too.
        const ran = countRan(name, steps, await retryWhileBusy(() => store.work.steps(), LOCKED_MS), loaded);
        if (ran > steps.length) onMore({ handler: name, ran, steps: steps.length });
        const due = steps[ran];
        if (due === undefined) break;
        fail = failOf(folder, file, `setup of handler ${name} failed in step ${ran + 1}: `);
        await commit(due, { handler: name, step: ran + 1, digest: digestOf(due), now: store.now() });
      }
    } catch (error) {
      if (error instanceof StoreError) throw error;
      fail(error);
    }
  }
}
