// The time limits of attempts, on the clock of a test. If a handler hangs, the clock jumps to the limit of its attempt.
import { AsyncLocalStorage, createHook } from 'node:async_hooks';
import { Timeout } from '../../run/attempt.ts';
import type { TestClock } from './clock.ts';

/** A handler hangs if it waits for no timer and no I/O so many times in a row, or for any so many real milliseconds. */
const HANGS = { looks: 20, ms: 3_000 };
/** Resources that are done within the present turn of the event loop, or say nothing of what is awaited. */
const PASSING = /^(PROMISE|TickObject|Microtask|Immediate)$/;

interface Limit {
  at: number;
  /** The timers and the I/O that the handler has begun and that have not ended, by their asynchronous id. */
  waitsFor: Map<number, { hasRef?: () => boolean }>;
  expire: () => void;
}

export function createTimeLimits(clock: TestClock) {
  const open = new Set<Limit>();
  const scopes = new AsyncLocalStorage<Limit>();
  const hook = createHook({
    init(id, type, _, resource) {
      if (!PASSING.test(type)) scopes.getStore()?.waitsFor.set(id, resource);
    },
    destroy(id) {
      for (const { waitsFor } of open) waitsFor.delete(id);
    },
  });
  let idle = 0;
  let since = performance.now();

  function note(change: () => void): void {
    change();
    if (open.size > 0) hook.enable();
    else hook.disable();
    idle = 0;
    since = performance.now();
  }

  return {
    /** Rejects with Timeout if the work has not ended when the clock reaches the limit. */
    async within(limitMs: number, work: () => Promise<void> | void): Promise<void> {
      const { promise, reject } = Promise.withResolvers<never>();
      const timeout = new Timeout(limitMs);
      const limit = { at: clock.now() + limitMs, waitsFor: new Map(), expire: () => reject(timeout) };
      note(() => open.add(limit));
      try {
        await Promise.race([scopes.run(limit, work), promise]);
      } finally {
        note(() => open.delete(limit));
      }
    },
    /** Call it again and again while attempts run. `nextTime`: when another task is due. */
    async look(nextTime: () => Promise<number>): Promise<void> {
      const limits = [...open];
      idle = limits.some(isBusy) ? 0 : idle + 1;
      if (limits.length === 0 || (idle < HANGS.looks && performance.now() - since < HANGS.ms)) return;
      const next = Math.min(await nextTime(), ...limits.map(({ at }) => at));
      note(() => (clock.at = Math.max(clock.at, next)));
      for (const { at, expire } of limits) if (at <= clock.at) expire();
    },
  };
}

/** A timer that does not keep Node alive is a time limit of its own, as that of a call to the service. */
function isBusy({ waitsFor }: Limit): boolean {
  return waitsFor.values().some((resource) => resource.hasRef?.() !== false);
}
