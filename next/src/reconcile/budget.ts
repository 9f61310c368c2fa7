// How many calls reconciliation may make, and how long it waits after a fault. Pure, but for the state of the bucket.

const MINUTE_MS = 60_000;
const BACKOFF = { firstMs: 1_000, mostMs: 60_000 };

/** A sixth of the kit's calls a minute. They may come at once, and come back evenly. */
export function createBudget(callsPerMinute: number, monotonic: () => number) {
  const most = Math.max(1, Math.floor(callsPerMinute / 6));
  let left = most;
  let at = monotonic();

  return {
    /** Milliseconds until the next call may be made. 0: it is counted as made. */
    take(): number {
      const now = monotonic();
      left = Math.min(most, left + ((now - at) * most) / MINUTE_MS);
      at = now;
      if (left < 1) return Math.ceil(((1 - left) * MINUTE_MS) / most);
      left--;
      return 0;
    },
  };
}

/** Exponential with full jitter (contract 8). `random` is from 0 to 1. */
export function backoffMs(failures: number, random = Math.random()): number {
  const ceiling = Math.min(BACKOFF.mostMs, BACKOFF.firstMs * 2 ** Math.min(failures, 16));
  return Math.max(BACKOFF.firstMs / 2, Math.round(ceiling * random));
}
