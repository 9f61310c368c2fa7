// A call budget: in any 60 seconds never more calls than allowed (contract 8). Unused calls are available for a burst. An
// answer 429 halves it, because the key may have a limit of its own; each hour without one doubles it again.
import type { Clock } from '../base/clock.ts';

const MINUTE_MS = 60_000;
const DOUBLES_MS = 3_600_000;

/** Each call also counts in `within`. */
export function createBudget(callsPerMinute: number, clock: Clock, within?: { take: () => number }) {
  let calls: number[] = [];
  let share = 1;
  let loweredAt = -Infinity;

  function most(now: number): number {
    const grown = share * 2 ** ((now - loweredAt) / DOUBLES_MS);
    return Math.max(1, Math.floor(callsPerMinute * Math.min(1, grown)));
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
      if (now - loweredAt < MINUTE_MS) return;
      share = most(now) / callsPerMinute / 2;
      loweredAt = now;
    },
  };
}
