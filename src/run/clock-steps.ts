// Notices when the wall clock is set, by comparing it with the monotonic clock. Due times of tasks are wall-clock
// times, so they move with it in either direction, and windows, pauses and holds keep their length. The sleep of the
// machine counts as such a step. All other durations are monotonic.
import type { Clock } from '../base/clock.ts';

/** A smaller step matters less than the cost of moving all waiting tasks. */
const STEP_MS = 1_000;
/** Maximum number of steps forward that are remembered for older times of receipt. */
const KEPT = 10;

export function watchClock(clock: Clock) {
  let offset = offsetOf(clock);
  let forward: { before: number; ms: number }[] = [];
  return {
    /** Milliseconds that the clock was set by since the last call. 0: it was not set. */
    step() {
      const now = offsetOf(clock);
      const ms = stepBetween(offset, now);
      offset = now;
      // A clock that was set back shows the same times twice, so older times of receipt can no longer be corrected.
      if (ms < 0) forward = [];
      if (ms > 0) forward = [...forward, { before: clock.now() - ms, ms }].slice(-KEPT);
      return ms;
    },
    /** A time of receipt, corrected for later steps of the clock. */
    received: (at: number) => forward.reduce((time, { before, ms }) => (time <= before ? time + ms : time), at),
  };
}

/** Milliseconds that the wall clock was set by between two offsets. Less than a second counts as 0. */
export function stepBetween(before: number, after: number): number {
  const ms = Math.round(after - before);
  return Math.abs(ms) < STEP_MS ? 0 : ms;
}

/** Wall clock minus monotonic clock. It changes only when the wall clock is set. */
export function offsetOf(clock: Clock): number {
  return clock.now() - clock.monotonic();
}
