// When a call of a handler is made, and made again (contract 7.2, 8): it waits for its share of the account's calls, and
// what only reads is repeated where that can help, all within the time that a handler has.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { createBudget } from './budget.ts';
import { aborted, ServiceError } from './errors.ts';

export interface Pacing {
  what: string;
  /** Whose limit counts it (contract 8): operations and sends together, and three routes of their own. */
  limit: 'rpc' | 'quotes' | 'media' | 'sessions';
  /** May be made again after it failed. */
  safe: boolean;
  /** Milliseconds that waiting, calling and repeating may take. */
  withinMs: number;
  signal?: AbortSignal | undefined;
}

/** `attempt` is told the milliseconds that are left. */
export type Pace = <Result>(pacing: Pacing, attempt: (leftMs: number) => Promise<Result>) => Promise<Result>;

/** Makes a call once and at once: for who has a policy of its own. */
export const once: Pace = ({ withinMs }, attempt) => attempt(withinMs);

const LONGEST_WAIT_MS = 60_000;

/** Milliseconds before a call is made again: 1 s, 2 s, 4 s … up to 60 s (contract 8), less up to half of it by chance. */
export function repeatWait(failures: number, random = Math.random()): number {
  return Math.round(Math.min(LONGEST_WAIT_MS, 1_000 * 2 ** Math.min(failures, 10)) * (1 - random / 2));
}

type Sleep = (ms: number, signal: AbortSignal | undefined) => Promise<unknown>;

export function createPace(options: { callsPerMinute: number; clock: Clock; pause?: Sleep }): Pace {
  const { callsPerMinute, clock, pause = (ms, signal) => sleep(ms, undefined, signal && { signal }) } = options;
  const budgets = {
    rpc: createBudget(callsPerMinute, clock),
    quotes: createBudget(60, clock),
    media: createBudget(60, clock),
    sessions: createBudget(10, clock),
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
      if (signal?.aborted) throw aborted(what);
      for (let ms = budgets[limit].take(); ms > 0; ms = budgets[limit].take()) {
        const message = `${what}: the kit's calls of this minute are spent, and the next is free in ${Math.ceil(ms / 1000)} s`;
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
