// A store that is opened by the first call that can: for a process that must come up although the store is locked or full.
import type { Store } from '../store.ts';
import { guarded } from './connection.ts';

/** Until it is open, every call tries to open it, and throws StoreError if it cannot. */
export function openLater(path: string, open: () => Store): Store {
  let opened: Store | undefined;
  type Method = (...args: unknown[]) => Promise<unknown>;
  function methodOf(name: keyof Store): Method {
    return async (...args) => {
      opened ??= guarded(open, path);
      return (opened[name] as Method)(...args);
    };
  }
  return new Proxy({} as Store, {
    get: (_, name) => (name === 'close' ? () => opened?.close() : methodOf(name as keyof Store)),
  });
}
