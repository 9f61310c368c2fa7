// When a call is made and retried (contract 7.2, 8). It first waits for its share of the account's calls, and one that only
// reads is retried if that can help. If its time is too short for the wait, it fails with RATE_LIMITED.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { aborted, ServiceError } from './errors.ts';

export interface Pacing {
  what: string;
  /** The rate limit that counts the call. `rpc` counts all calls, as the limit of a key does (contract 5.6). */
  limit: 'rpc' | 'quotes' | 'media' | 'sessions';
  /** True if the call may be retried after a failure. */
  safe: boolean;
  /** Milliseconds for waiting, calling and retrying together. */
  withinMs: number;
  signal?: AbortSignal | undefined;
}

/** `attempt` gets the milliseconds that are left. */
export type Pace = <Result>(pacing: Pacing, attempt: (leftMs: number) => Promise<Result>) => Promise<Result>;
export type Pause = (ms: number, signal: AbortSignal | undefined) => Promise<unknown>;

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** Until then, calls from before the last change may cause a 429: the service counts 60 s, and answers take time. */
const SETTLES_MS = 90_000;

/** Milliseconds before a retry: any time up to 1 s, 2 s, 4 s … 60 s. */
export function retryWait(failures: number, random = Math.random()): number {
  return Math.round(Math.min(MINUTE_MS, 1_000 * 2 ** Math.min(failures, 10)) * random);
}

/**
 * In any 60 seconds never more calls than allowed; unused calls are available for a burst. An answer 429 halves them,
 * because the key may have a limit of its own; each hour without one doubles them again. Calls also count in `within`.
 */
export function createBudget(callsPerMinute: number, clock: Clock, within?: { take: () => number }) {
  let calls: number[] = [];
  let lowered = { to: callsPerMinute, at: -Infinity };

  function most(now: number): number {
    return Math.max(1, Math.floor(Math.min(callsPerMinute, lowered.to * 2 ** ((now - lowered.at) / HOUR_MS))));
  }

  return {
    /** Milliseconds until the next call is allowed. 0: the call is counted and may be made now. */
    take(): number {
      const now = clock.monotonic();
      calls = calls.filter((at) => at > now - MINUTE_MS);
      const next = calls.at(-most(now));
      const waitMs = next === undefined ? (within?.take() ?? 0) : Math.ceil(next + MINUTE_MS - now);
      if (waitMs === 0) calls.push(now);
      return waitMs;
    },
    /** The service answered 429. */
    lower(): void {
      const now = clock.monotonic();
      if (now - lowered.at >= SETTLES_MS) lowered = { to: most(now) / 2, at: now };
    },
  };
}

const sleeping: Pause = (ms, signal) => sleep(ms, undefined, signal && { signal });

export function createPace(callsPerMinute: number, clock: Clock, pause = sleeping): Pace {
  const rpc = createBudget(callsPerMinute, clock);
  const limited = (most: number) => createBudget(most, clock, rpc);
  const budgets = { rpc, quotes: limited(60), media: limited(60), sessions: limited(10) };

  return async ({ what, limit, safe, withinMs, signal }, attempt) => {
    const endsAt = clock.monotonic() + withinMs;
    const left = (): number => endsAt - clock.monotonic();

    async function wait(ms: number, otherwise: ServiceError): Promise<void> {
      if (ms >= left()) throw otherwise;
      await pause(ms, signal).catch(() => {});
      if (signal?.aborted) throw aborted(what);
    }

    for (let failures = 0; ; failures++) {
      if (signal?.aborted) throw aborted(what);
      for (let ms = budgets[limit].take(); ms > 0; ms = budgets[limit].take()) {
        const message = `${what}: the kit has used its calls for this minute; the next one is possible in ${Math.ceil(ms / 1_000)} s`;
        await wait(ms, new ServiceError({ code: 'RATE_LIMITED', message }));
      }
      try {
        return await attempt(left());
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        if (error.code === 'RATE_LIMITED') rpc.lower();
        if (!safe || !error.retryable) throw error;
        await wait(retryWait(failures), error);
      }
    }
  };
}
