// A store that is first one and then another. While it is held, every call waits in memory.
import type { Roles, Store } from '../../store.ts';

type Method = (...args: unknown[]) => Promise<unknown>;

export function createSwitch(first: Store) {
  let current = first;
  const gate: { shut?: Promise<void> | undefined } = {};
  const underWay = new Set<Promise<unknown>>();

  async function call(role: keyof Roles, name: string, args: unknown[]): Promise<unknown> {
    while (gate.shut) await gate.shut;
    const methods = current[role] as unknown as Record<string, Method>;
    const result = Promise.resolve(methods[name]?.(...args));
    underWay.add(result);
    return result.finally(() => underWay.delete(result));
  }

  const roles = new Map<string, object>();
  function roleOf(role: keyof Roles): object {
    const known =
      roles.get(role) ??
      new Proxy(
        {},
        {
          get:
            (_, name) =>
            (...args: unknown[]) =>
              call(role, String(name), args),
        },
      );
    roles.set(role, known);
    return known;
  }

  const store = new Proxy({} as Store, {
    get(_, name) {
      if (name === 'now') return () => current.now();
      if (name === 'ring') return () => current.ring();
      if (name === 'onRing') return (work: () => void) => current.onRing(work);
      if (name === 'close') return () => current.close();
      return roleOf(name as keyof Roles);
    },
  });

  return {
    store,
    /** Waits for the calls that are under way, and holds others until the work has ended. */
    async hold(work: () => Promise<void>): Promise<void> {
      const opened = Promise.withResolvers<void>();
      gate.shut = opened.promise;
      try {
        await Promise.allSettled(underWay);
        await work();
      } finally {
        gate.shut = undefined;
        opened.resolve();
      }
    },
    to(next: Store): void {
      current = next;
    },
  };
}
