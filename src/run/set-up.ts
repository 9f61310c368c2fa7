// The set-ups of handlers: each in a transaction of its own, so that one that fails takes back no other's work.
import type { AsyncLocalStorage } from 'node:async_hooks';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { StoreError } from '../store/store.ts';
import type { WorkStore, Tx } from '../store/work.ts';
import { faultOf, type Loaded, type LoadedFolder } from './load.ts';
import type { Course } from './trace.ts';

/** A store that is locked for so long is no handler's fault. */
const LOCKED_MS = 5_000;

export interface SetUpOptions {
  store: Pick<WorkStore, 'setup'>;
  courses: AsyncLocalStorage<Course>;
  /** Before a set-up is begun. */
  onFile: (file: string) => Promise<void>;
}

/** Adds to the folder's faults. Throws StoreError where the store cannot be written. */
export async function setUpHandlers(folder: LoadedFolder, options: SetUpOptions): Promise<void> {
  const { handlers, faults } = folder;
  for (const [file, { name, setup }] of handlers) {
    if (!setup || faults.has(file)) continue;
    const fail = (error: unknown): boolean => {
      if (folder.over) return false;
      if (!faults.has(file)) faults.set(file, faultOf(error, file, `setup of handler ${name} failed: `));
      return true;
    };
    await options.onFile(file);
    try {
      const work = (tx: Tx): void => options.courses.run({ file, fail }, () => call(setup, tx));
      await retryWhileBusy(() => options.store.setup(work), LOCKED_MS);
    } catch (error) {
      if (error instanceof StoreError) throw error;
      fail(error);
    }
  }
}

function call(setup: NonNullable<Loaded['setup']>, tx: Tx): void {
  const made: unknown = setup(tx);
  if (typeof (made as { then?: unknown } | undefined)?.then !== 'function') return;
  // Its own end is of no interest any more.
  void Promise.resolve(made).catch(() => {});
  throw new Error('it must not be async: write synchronously');
}
