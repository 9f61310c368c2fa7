// The wall clock as seen by the monotonic one. What waits in the store waits for a time of the wall clock; where somebody
// sets that clock, in either direction, what waits is moved with it.
import type { Clock } from '../base/clock.ts';

/** A smaller step costs less than looking for what waits by the clock. */
const STEP_MS = 1_000;
/** Steps that what was received before may still have to be moved by. */
const KEPT = 10;

export interface Wall {
  /** Milliseconds that the clock was set by since this was last asked; 0: not. */
  step(): number;
  /** When something was received, by the clock as it is set now. */
  received: (at: number) => number;
}

export function createWall(clock: Clock): Wall {
  let offset = offsetOf(clock);
  let forward: { before: number; ms: number }[] = [];
  return {
    step() {
      const now = offsetOf(clock);
      const ms = stepBetween(offset, now);
      offset = now;
      if (ms === 0) return 0;
      // A clock that was set back shows the same times again: nothing tells which of the two was meant.
      if (ms > 0) forward = [...forward, { before: clock.now() - ms, ms }].slice(-KEPT);
      else forward = [];
      return ms;
    },
    received: (at) => forward.reduce((time, { before, ms }) => (time <= before ? time + ms : time), at),
  };
}

/** Whole milliseconds that the wall clock was set by between two offsets; what is less than a second is none. */
export function stepBetween(before: number, after: number): number {
  const ms = Math.round(after - before);
  return Math.abs(ms) < STEP_MS ? 0 : ms;
}

/** Changes where the wall clock is set. */
export function offsetOf(clock: Clock): number {
  return clock.now() - clock.monotonic();
}
