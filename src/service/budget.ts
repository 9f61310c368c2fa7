// How many calls may be made: never more in any 60 seconds than allowed, because the account's 120 calls a minute are
// shared by reconciliation and handlers (contract 8). What was saved up is there for a burst.
import type { Clock } from '../clock.ts';

const MINUTE_MS = 60_000;

export interface Budget {
  /** Milliseconds until a call may be made; 0 takes it. */
  take(): number;
  /** Milliseconds to leave between two calls that could be one: none while more than half of the calls are left. */
  spacing(): number;
}

/** `earlier`: when the last calls were made, as `onTake` was told by an earlier process. */
export function createBudget(
  callsPerMinute: number,
  clock: Clock,
  { earlier = [], onTake }: { earlier?: number[]; onTake?: (calls: number[]) => void } = {},
): Budget {
  let calls = earlier;

  function lately(now: number): number[] {
    // A clock that was set back neither pays out nor locks the budget up.
    return calls.map((at) => Math.min(at, now)).filter((at) => at > now - MINUTE_MS);
  }

  return {
    take() {
      const now = clock.now();
      calls = lately(now);
      const oldest = calls[0];
      if (calls.length >= callsPerMinute && oldest !== undefined) return oldest + MINUTE_MS - now;
      calls.push(now);
      onTake?.(calls);
      return 0;
    },
    spacing: () => (2 * lately(clock.now()).length < callsPerMinute ? 0 : (2 * MINUTE_MS) / callsPerMinute),
  };
}
