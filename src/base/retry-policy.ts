// When a failed attempt is retried: exponential back-off with full jitter, so that tasks that failed together spread
// out.

export interface RetryPolicy {
  attempts: number;
  firstMs: number;
  maxMs: number;
}

/** Up to about 8 hours in all, as long as the service retries a delivery (contract 3.3). */
export const DEFAULT_RETRY: RetryPolicy = { attempts: 20, firstMs: 1_000, maxMs: 3_600_000 };
/** How long a failing task keeps the other tasks of its lane waiting. */
export const DEFAULT_HOLD_MS = 120_000;

/** Milliseconds to wait after `attempt` (from 1) has failed. `random` is from 0 to 1. */
export function backoff(attempt: number, { firstMs, maxMs }: RetryPolicy, random = Math.random()): number {
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 40));
  return Math.round(Math.max(Math.min(firstMs, ceiling) / 2, ceiling * random));
}

/** A task that has crashed its process this often becomes a dead letter. */
const CRASHES = 3;

/** Decides what becomes of a task that was alone in a crashed process. Unknown handlers have the default policy. */
export function afterCrash(policies: Map<string, { retry: RetryPolicy; laneHoldMs: number }>) {
  return (handler: string, attempt: number, crashes: number): { delayMs: number; holdMs: number } | 'dead' => {
    const { retry, laneHoldMs } = policies.get(handler) ?? { retry: DEFAULT_RETRY, laneHoldMs: DEFAULT_HOLD_MS };
    if (crashes >= Math.min(retry.attempts, CRASHES) || attempt >= retry.attempts) return 'dead';
    return { delayMs: backoff(attempt, retry), holdMs: laneHoldMs };
  };
}
