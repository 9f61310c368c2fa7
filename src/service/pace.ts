// Decides when a handler's call is made and retried (contract 7.2, 8). A call first waits for its share of the
// account's calls, and a call that only reads is retried if that can help. If its time limit is too short for the
// wait, it is not sent and fails with RATE_LIMITED. Otherwise it could outlive its attempt and add to the calls of the
// next attempt. Each process counts only its own calls. If all together make too many, call-limit.ts slows them down.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { createBudget } from './budget.ts';
import type { CallLimit } from './call-limit.ts';
import { aborted, ServiceError } from './errors.ts';

export interface Pacing {
  what: string;
  /** The rate limit that counts the call (contract 8). `rpc` counts all calls, as the limit of a key does (5.6). */
  limit: 'rpc' | 'quotes' | 'media' | 'sessions';
  /** True if the call may be retried after a failure. */
  safe: boolean;
  /** The time limit in milliseconds for waiting, calling and retrying together. */
  withinMs: number;
  signal?: AbortSignal | undefined;
}

/** `attempt` gets the milliseconds that are left. */
export type Pace = <Result>(pacing: Pacing, attempt: (leftMs: number) => Promise<Result>) => Promise<Result>;

/** Makes a call at once and never retries it, for callers with a policy of their own. */
export const once: Pace = ({ withinMs }, attempt) => attempt(withinMs);

const LONGEST_WAIT_MS = 60_000;

/** Milliseconds before a retry: 1 s, 2 s, 4 s … up to 60 s (contract 8), randomly shortened by up to half. */
export function repeatWait(failures: number, random = Math.random()): number {
  return Math.round(Math.min(LONGEST_WAIT_MS, 1_000 * 2 ** Math.min(failures, 10)) * (1 - random / 2));
}

type Sleep = (ms: number, signal: AbortSignal | undefined) => Promise<unknown>;

export interface PaceOptions {
  callsPerMinute: number;
  clock: Clock;
  callLimit?: Pick<CallLimit, 'share' | 'refresh'>;
  pause?: Sleep;
}

export function createPace({ callsPerMinute, clock, callLimit, ...rest }: PaceOptions): Pace {
  const { pause = (ms, signal) => sleep(ms, undefined, signal && { signal }) } = rest;
  const rpc = createBudget(callsPerMinute, clock, callLimit && { share: callLimit.share });
  const budgets = {
    rpc,
    quotes: createBudget(60, clock, { within: rpc }),
    media: createBudget(60, clock, { within: rpc }),
    sessions: createBudget(10, clock, { within: rpc }),
  };

  return async ({ what, limit, safe, withinMs, signal }, attempt) => {
    const endsAt = clock.monotonic() + withinMs;
    const left = (): number => endsAt - clock.monotonic();

    async function wait(ms: number, otherwise: ServiceError): Promise<void> {
      if (ms >= left()) throw otherwise;
      await pause(ms, signal).catch(() => {});
      if (signal?.aborted) throw aborted(what);
    }

    async function turn(): Promise<void> {
      await callLimit?.refresh();
      if (signal?.aborted) throw aborted(what);
      for (let ms = budgets[limit].take(); ms > 0; ms = budgets[limit].take()) {
        const message = `${what}: the kit has used its calls for this minute; the next one is possible in ${Math.ceil(ms / 1000)} s`;
        await wait(ms, new ServiceError({ code: 'RATE_LIMITED', message }));
      }
    }

    for (let failures = 0; ; failures++) {
      await turn();
      try {
        return await attempt(left());
      } catch (error) {
        if (!safe || !(error instanceof ServiceError) || !error.retryable) throw error;
        await wait(repeatWait(failures), error);
      }
    }
  };
}
