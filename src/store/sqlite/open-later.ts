// A store that is opened by the first call that can: for a process that must come up although the store is locked or full.
import { StoreError, type Store } from '../store.ts';
import { guarded } from './fault.ts';

/** Between two tries. */
const PAUSE_MS = 200;

/** Until it is open, every call tries to open it, and throws StoreError if it cannot. */
export function openLater(path: string, open: () => Store): Store {
  let opened: Store | undefined;
  let failed: { error: StoreError; after: number } | undefined;
  type Method = (...args: unknown[]) => Promise<unknown>;
  function methodOf(name: keyof Store): Method {
    return async (...args) => {
      opened ??= tryToOpen();
      return (opened[name] as Method)(...args);
    };
  }
  function tryToOpen(): Store {
    if (failed && performance.now() - failed.after < PAUSE_MS) throw failed.error;
    try {
      return guarded(open, path);
    } catch (error) {
      if (error instanceof StoreError) failed = { error, after: performance.now() };
      throw error;
    }
  }
  return new Proxy({} as Store, {
    get: (_, name) => (name === 'close' ? () => opened?.close() : methodOf(name as keyof Store)),
  });
}
