// A call budget: in any 60 seconds, never more calls than allowed. Reconciliation and handlers share
// API_CALLS_PER_MINUTE. Unused calls are available for a burst.
import type { Clock } from '../base/clock.ts';

const MINUTE_MS = 60_000;

export type Budget = ReturnType<typeof createBudget>;

interface BudgetOptions {
  /** The times of the last calls, Unix milliseconds, which an earlier process got from `onTake`. */
  earlier?: number[];
  onTake?: (calls: number[]) => void;
  /** The part of the calls that may be made now: above 0, at most 1. */
  share?: () => number;
  /** Each call also counts in this budget. */
  within?: { take: () => number };
}

export function createBudget(
  callsPerMinute: number,
  clock: Clock,
  { earlier = [], onTake, share = () => 1, within }: BudgetOptions = {},
) {
  let calls = sinceRestart(earlier, clock);

  /** The allowed calls, and the milliseconds for which they are. For less than one a minute, one in a longer time. */
  function allowed(): { most: number; ms: number } {
    const rate = callsPerMinute * share();
    return { most: Math.max(1, Math.floor(rate)), ms: MINUTE_MS / Math.min(1, rate) };
  }

  function recent(now: number, ms: number): number[] {
    return calls.filter((at) => at > now - ms);
  }

  return {
    /** Milliseconds until the next call is allowed. 0: the call is counted and may be made now. */
    take(): number {
      const now = clock.monotonic();
      const { most, ms } = allowed();
      calls = recent(now, ms);
      const next = calls.at(-most);
      const wait = next === undefined ? (within?.take() ?? 0) : Math.ceil(next + ms - now);
      if (wait > 0) return wait;
      calls.push(now);
      const offset = clock.now() - now;
      onTake?.(calls.map((at) => Math.round(at + offset)));
      return 0;
    },
    /** The pause in milliseconds before a call that can wait. 0 while more than half of the calls are left. */
    spacing(): number {
      const { most, ms } = allowed();
      return 2 * recent(clock.monotonic(), ms).length < most ? 0 : (2 * ms) / most;
    },
  };
}

/**
 * The calls of an earlier process, by the monotonic clock. If the pause since the last call is negative or longer than
 * a minute, the wall clock may have been set. The last call then counts as made just now.
 */
function sinceRestart(earlier: number[], clock: Clock): number[] {
  const last = earlier.reduce((a, b) => Math.max(a, b), -Infinity);
  const pause = clock.now() - last;
  const lastAt = clock.monotonic() - (pause >= 0 && pause < MINUTE_MS ? pause : 0);
  return earlier.map((at) => lastAt - (last - at)).toSorted((a, b) => a - b);
}
