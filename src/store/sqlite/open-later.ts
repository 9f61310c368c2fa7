// Opens the store at the first call that succeeds, for a process that must start while the store is locked or its disk
// is full.
import { systemClock } from '../../base/clock.ts';
import { StoreError, type Roles, type Store } from '../store.ts';
import { guarded } from './fault.ts';

/** Minimum time between two tries. */
const PAUSE_MS = 200;

/** Until the store is open, each call tries to open it, and throws StoreError if that fails. */
export function openLater(path: string, open: () => Store): Store {
  let opened: Store | undefined;
  let failed: { error: StoreError; after: number } | undefined;
  type Method = (...args: unknown[]) => Promise<unknown>;
  function methodOf(role: keyof Roles, name: string): Method {
    return async (...args) => {
      opened ??= tryToOpen();
      const methods = opened[role] as unknown as Record<string, Method>;
      return methods[name]?.(...args);
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
    get(_, name) {
      if (name === 'close' || name === 'ring' || name === 'onRing')
        return () => (name === 'close' ? opened?.close() : undefined);
      if (name === 'now') return () => opened?.now() ?? systemClock.now();
      return new Proxy({}, { get: (__, method) => methodOf(name as keyof Roles, String(method)) });
    },
  });
}
