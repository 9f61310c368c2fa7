// Notices steps of the wall clock by comparing it with the monotonic clock. Due times of tasks are wall-clock times.
// They are moved by each step in either direction, so that windows, pauses and holds keep their length. The sleep of
// the machine counts as a step. All other durations are monotonic.
import type { Clock } from '../base/clock.ts';

/** Smaller steps are ignored, because moving all waiting tasks would cost more than it helps. */
const STEP_MS = 1_000;
/** Maximum number of steps forward that are remembered, to correct older times of receipt. */
const KEPT = 10;

export function watchClock(clock: Clock) {
  let offset = offsetOf(clock);
  let forward: { before: number; ms: number }[] = [];
  return {
    /** Milliseconds by which the clock was set since the last call, negative if it was set back. 0: it was not set. */
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

/** Milliseconds by which the wall clock was set, from its offset before and after. Less than a second counts as 0. */
export function stepBetween(before: number, after: number): number {
  const ms = Math.round(after - before);
  return Math.abs(ms) < STEP_MS ? 0 : ms;
}

/** Wall clock minus monotonic clock. It changes only when the wall clock is set. */
export function offsetOf(clock: Clock): number {
  return clock.now() - clock.monotonic();
}
