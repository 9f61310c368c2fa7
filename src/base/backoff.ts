// When a failed attempt is followed by the next: exponential, with full jitter, so that what failed together does not
// come back together.

export interface RetryPolicy {
  attempts: number;
  firstMs: number;
  maxMs: number;
}

/** About 8 hours in all, as long as the service itself would have tried (contract 3.3). */
export const DEFAULT_RETRY: RetryPolicy = { attempts: 20, firstMs: 1_000, maxMs: 3_600_000 };

/** Milliseconds to wait after `attempt` (from 1) failed; `random` is from 0 to 1. */
export function backoff(attempt: number, { firstMs, maxMs }: RetryPolicy, random = Math.random()): number {
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 40));
  return Math.round(Math.max(Math.min(firstMs, ceiling) / 2, ceiling * random));
}

/** A task that ends its process is given up after so many. */
const CRASHES = 3;

/** What follows a process that died under a task alone, as the handler's own policy has it; by default where it is unknown. */
export function afterCrash(policies: Map<string, { retry: RetryPolicy; laneHoldMs: number }>) {
  return (handler: string, attempt: number, crashes: number): { delayMs: number; holdMs: number } | 'dead' => {
    const { retry, laneHoldMs } = policies.get(handler) ?? { retry: DEFAULT_RETRY, laneHoldMs: 120_000 };
    if (crashes >= Math.min(retry.attempts, CRASHES) || attempt >= retry.attempts) return 'dead';
    return { delayMs: backoff(attempt, retry), holdMs: laneHoldMs };
  };
}
