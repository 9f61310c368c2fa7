// A call budget: in any 60 seconds, never more calls than allowed. Reconciliation and handlers share the account's 120
// calls a minute (contract 8). Unused calls are available for a burst.
import type { Clock } from '../base/clock.ts';

const MINUTE_MS = 60_000;

export interface Budget {
  /** Milliseconds until the next call is allowed. 0: the call is counted and may be made now. */
  take(): number;
  /** The pause in milliseconds before a call that can wait. 0 while more than half of the calls are left. */
  spacing(): number;
}

/** `earlier`: the times of the last calls, Unix milliseconds, which an earlier process got from `onTake`. */
export function createBudget(
  callsPerMinute: number,
  clock: Clock,
  { earlier = [], onTake }: { earlier?: number[]; onTake?: (calls: number[]) => void } = {},
): Budget {
  let calls = sinceRestart(earlier, clock);

  function recent(now: number): number[] {
    return calls.filter((at) => at > now - MINUTE_MS);
  }

  return {
    take() {
      const now = clock.monotonic();
      calls = recent(now);
      const next = calls.at(-callsPerMinute);
      if (next !== undefined) return Math.ceil(next + MINUTE_MS - now);
      calls.push(now);
      const offset = clock.now() - now;
      onTake?.(calls.map((at) => Math.round(at + offset)));
      return 0;
    },
    spacing: () => (2 * recent(clock.monotonic()).length < callsPerMinute ? 0 : (2 * MINUTE_MS) / callsPerMinute),
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
