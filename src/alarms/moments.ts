// Measures the age of stored times with the monotonic clock, so that a step of the wall clock changes no age. Only the
// age of a time that was stored before this process started comes from the wall clock.
import type { Clock } from '../base/clock.ts';

/** If the wall clock and the monotonic clock differ by less, the wall clock was synchronised, not set. */
const STEP_MS = 5_000;

export type Moments = ReturnType<typeof createMoments>;

export function createMoments(clock: Clock) {
  let known = new Map<string, { at: number; since: number }>();
  let asked = new Map<string, { at: number; since: number }>();
  let lookedAt: number | undefined;
  let longest = Infinity;

  function sinceOf(name: string, at: number): number {
    const before = known.get(name);
    if (before?.at === at) return before.since;
    // A time that was not known at the last `look` was stored after it, so the time is at most `longest` old.
    return clock.monotonic() - Math.min(Math.max(0, clock.now() - at), longest);
  }

  return {
    /** Begins a new round of calls of `moment`. Names that were not used in the round before are forgotten. */
    look(): void {
      const now = clock.monotonic();
      longest = lookedAt === undefined ? Infinity : now - lookedAt;
      lookedAt = now;
      [known, asked] = [asked, new Map()];
    },
    /** Returns the stored time `at`, corrected for steps of the wall clock. `name` says which stored time it is. */
    moment<At extends number | null>(name: string, at: At): At {
      if (at === null) return at;
      const since = sinceOf(name, at);
      asked.set(name, { at, since });
      const moment = clock.now() - (clock.monotonic() - since);
      return (Math.abs(moment - at) < STEP_MS ? at : moment) as At;
    },
  };
}
