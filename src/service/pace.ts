// Decides when a call is made and retried (contract 7.2, 8). A call waits until the rate limits allow it. A `safe` call
// is retried if that can help. If no time is left for a wait, the call fails with RATE_LIMITED, or with its last error.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { aborted, ServiceError } from './errors.ts';

export interface Pacing {
  what: string;
  /** The rate limit that counts the call. `rpc` counts quotes and media too, like a key's own limit (contract 5.6). */
  limit: 'rpc' | 'quotes' | 'media';
  /** True if the call may be retried after a failure. */
  safe: boolean;
  /** Milliseconds for waiting, calling and retrying together. */
  withinMs: number;
  signal: AbortSignal;
}

/** `attempt` is called with the milliseconds that are left of `withinMs`. */
export type Pace = <Result>(pacing: Pacing, attempt: (leftMs: number) => Promise<Result>) => Promise<Result>;
export type Pause = (ms: number, signal: AbortSignal) => Promise<unknown>;

const MINUTE_MS = 60_000;

/** Milliseconds before a retry: a random time up to 1 s, 2 s, 4 s … 60 s. */
export function retryWait(failures: number, random = Math.random()): number {
  return Math.round(Math.min(MINUTE_MS, 1_000 * 2 ** Math.min(failures, 10)) * random);
}

/** At most this many calls in any 60 seconds: a fifth at once, the rest evenly spaced. `within` counts them too. */
export function createBudget(callsPerMinute: number, clock: Clock, within?: { take: () => number }) {
  const atOnce = Math.max(1, Math.floor(callsPerMinute / 5));
  const apartMs = MINUTE_MS / Math.max(1, callsPerMinute - atOnce);
  /** When the calls so far would end if they ran one after another, each for `apartMs`. */
  let endAt = -Infinity;
  return {
    /** Milliseconds until the next call is allowed. 0: the call is counted and may be made now. */
    take(): number {
      const now = clock.monotonic();
      const earlyMs = Math.ceil(endAt - (atOnce - 1) * apartMs - now);
      const waitMs = earlyMs > 0 ? earlyMs : (within?.take() ?? 0);
      if (waitMs === 0) endAt = Math.max(endAt, now) + apartMs;
      return waitMs;
    },
  };
}

const sleeping: Pause = (ms, signal) => sleep(ms, undefined, { signal });

export function createPace(callsPerMinute: number, clock: Clock, pause = sleeping): Pace {
  const rpc = createBudget(callsPerMinute, clock);
  const budgets = { rpc, quotes: createBudget(60, clock, rpc), media: createBudget(60, clock, rpc) };

  return async ({ what, limit, safe, withinMs, signal }, attempt) => {
    const endsAt = clock.monotonic() + withinMs;

    async function wait(ms: number, otherwise: ServiceError): Promise<void> {
      if (clock.monotonic() + ms >= endsAt) throw otherwise;
      await pause(ms, signal).catch(() => {});
      if (signal.aborted) throw aborted(what);
    }

    if (signal.aborted) throw aborted(what);
    for (let failures = 0; ; failures++) {
      for (let ms = budgets[limit].take(); ms > 0; ms = budgets[limit].take()) {
        const message = `${what}: the kit has used its calls for now; the next one is possible in ${Math.ceil(ms / 1_000)} s`;
        await wait(ms, new ServiceError({ code: 'RATE_LIMITED', message }));
      }
      try {
        return await attempt(endsAt - clock.monotonic());
      } catch (error) {
        if (!safe || !(error instanceof ServiceError && error.retryable)) throw error;
        await wait(retryWait(failures), error);
      }
    }
  };
}
