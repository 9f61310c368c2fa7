// Runs the setups of handlers, each in a transaction of its own, so that a failed setup does not undo another.
import type { Store } from '../store/store.ts';
import type { AsyncLocalStorage } from 'node:async_hooks';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { StoreError } from '../store/store.ts';
import { failOf, type LoadedFolder } from './load-handlers.ts';
import type { Scope } from './stray-errors.ts';

/** If the store stays locked for longer, the setup fails with StoreError, and no handler is to blame. */
const LOCKED_MS = 5_000;

export interface SetUpOptions {
  store: Pick<Store, 'work'>;
  scopes: AsyncLocalStorage<Scope>;
  onFile: (file: string) => Promise<void>;
}

/** Adds faults to the folder. Throws StoreError if the store cannot be written. */
export async function setUpHandlers(folder: LoadedFolder, { store, scopes, onFile }: SetUpOptions): Promise<void> {
  for (const [file, { name, setup }] of folder.handlers) {
    if (!setup || folder.faults.has(file)) continue;
    const fail = failOf(folder, file, `setup of handler ${name} failed: `);
    await onFile(file);
    try {
      await retryWhileBusy(() => store.work.setup((tx) => scopes.run({ file, fail }, () => setup(tx))), LOCKED_MS);
    } catch (error) {
      if (error instanceof StoreError) throw error;
      fail(error);
    }
  }
}
