// Measures the age of stored times with the monotonic clock, so that a step of the wall clock changes no age. Only the
// age of a time that was stored before this process started comes from the wall clock.
import type { Clock } from '../base/clock.ts';

/** A smaller difference between the two clocks comes from clock synchronisation and is no step. */
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
    // A time that appears at this look was stored after the last look, so its age has a limit.
    return clock.monotonic() - Math.min(Math.max(0, clock.now() - at), longest);
  }

  return {
    /** Begins a look. A name that was not used during the last look is forgotten. */
    look(): void {
      const now = clock.monotonic();
      longest = lookedAt === undefined ? Infinity : now - lookedAt;
      lookedAt = now;
      [known, asked] = [asked, new Map()];
    },
    /** The stored time `at`, corrected for steps of the wall clock. It must have the same `name` at each look. */
    moment<At extends number | null>(name: string, at: At): At {
      if (at === null) return at;
      const since = sinceOf(name, at);
      asked.set(name, { at, since });
      const moment = clock.now() - (clock.monotonic() - since);
      return (Math.abs(moment - at) < STEP_MS ? at : moment) as At;
    },
  };
}
