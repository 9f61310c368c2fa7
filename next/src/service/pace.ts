// When a handler's call is made and retried (contract 7.2, 8). A call first waits for its share of the account's calls, and
// one that only reads is retried if that can help. If its time is too short for the wait, it fails with RATE_LIMITED.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { createBudget } from './budget.ts';
import { aborted, ServiceError } from './errors.ts';

export interface Pacing {
  what: string;
  /** The rate limit that counts the call. `rpc` counts all calls. */
  limit: 'rpc' | 'quotes' | 'media' | 'sessions';
  /** True if the call may be retried after a failure. */
  safe: boolean;
  /** Milliseconds for waiting, calling and retrying together. */
  withinMs: number;
  signal?: AbortSignal | undefined;
}

/** `attempt` gets the milliseconds that are left. */
export type Pace = <Result>(pacing: Pacing, attempt: (leftMs: number) => Promise<Result>) => Promise<Result>;

const LONGEST_WAIT_MS = 60_000;

/** Milliseconds before a retry: 1 s, 2 s, 4 s … up to 60 s, randomly shortened by up to half. */
export function repeatWait(failures: number, random = Math.random()): number {
  return Math.round(Math.min(LONGEST_WAIT_MS, 1_000 * 2 ** Math.min(failures, 10)) * (1 - random / 2));
}

export function createPace(callsPerMinute: number, clock: Clock): Pace {
  const rpc = createBudget(callsPerMinute, clock);
  const budgets = {
    rpc,
    quotes: createBudget(60, clock, rpc),
    media: createBudget(60, clock, rpc),
    sessions: createBudget(10, clock, rpc),
  };

  return async ({ what, limit, safe, withinMs, signal }, attempt) => {
    const endsAt = clock.monotonic() + withinMs;
    const left = (): number => endsAt - clock.monotonic();

    async function wait(ms: number, otherwise: ServiceError): Promise<void> {
      if (ms >= left()) throw otherwise;
      await sleep(ms, undefined, signal && { signal }).catch(() => {});
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
        if (error instanceof ServiceError && error.code === 'RATE_LIMITED') rpc.lower();
        if (!safe || !(error instanceof ServiceError) || !error.retryable) throw error;
        await wait(repeatWait(failures), error);
      }
    }
  };
}
