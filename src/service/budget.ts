// How many calls may be made: never more in any 60 seconds than allowed, because the account's 120 calls a minute are
// shared by reconciliation and handlers (contract 8). What was saved up is there for a burst.
import type { Clock } from '../base/clock.ts';

const MINUTE_MS = 60_000;

export interface Budget {
  /** Milliseconds until a call may be made; 0 takes it. */
  take(): number;
  /** Milliseconds to leave between two calls that could be one: none while more than half of the calls are left. */
  spacing(): number;
}

/** `earlier`: when the last calls were made, Unix milliseconds, as `onTake` was told by an earlier process. */
export function createBudget(
  callsPerMinute: number,
  clock: Clock,
  { earlier = [], onTake }: { earlier?: number[]; onTake?: (calls: number[]) => void } = {},
): Budget {
  let calls = sinceRestart(earlier, clock);

  function lately(now: number): number[] {
    return calls.filter((at) => at > now - MINUTE_MS);
  }

  return {
    take() {
      const now = clock.monotonic();
      calls = lately(now);
      const next = calls.at(-callsPerMinute);
      if (next !== undefined) return Math.ceil(next + MINUTE_MS - now);
      calls.push(now);
      const offset = clock.now() - now;
      onTake?.(calls.map((at) => Math.round(at + offset)));
      return 0;
    },
    spacing: () => (2 * lately(clock.monotonic()).length < callsPerMinute ? 0 : (2 * MINUTE_MS) / callsPerMinute),
  };
}

/**
 * The calls of an earlier process, by the monotonic clock. A pause of more than a minute may be a step of the wall clock,
 * as one below zero is: then the last call is taken to have been made just now.
 */
function sinceRestart(earlier: number[], clock: Clock): number[] {
  const last = earlier.reduce((a, b) => Math.max(a, b), -Infinity);
  const pause = clock.now() - last;
  const lastAt = clock.monotonic() - (pause >= 0 && pause < MINUTE_MS ? pause : 0);
  return earlier.map((at) => lastAt - (last - at)).toSorted((a, b) => a - b);
}
