// Times from the store, aged by the monotonic clock: a step of the wall clock makes none of them older or younger. The
// age of a time from before this process started can only come from the wall clock.
import type { Clock } from '../base/clock.ts';

/** Smaller differences come from clock synchronisation and are no step. */
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
    // A time that is new at this look is no older than the last look.
    return clock.monotonic() - Math.min(Math.max(0, clock.now() - at), longest);
  }

  return {
    /** Begins a look. A moment that was not asked for during the last look is forgotten. */
    look(): void {
      const now = clock.monotonic();
      longest = lookedAt === undefined ? Infinity : now - lookedAt;
      lookedAt = now;
      [known, asked] = [asked, new Map()];
    },
    /** The moment by the present wall clock. The same `name` finds it again at the next look. */
    moment<At extends number | null>(name: string, at: At): At {
      if (at === null) return at;
      const since = sinceOf(name, at);
      asked.set(name, { at, since });
      const moment = clock.now() - (clock.monotonic() - since);
      return (Math.abs(moment - at) < STEP_MS ? at : moment) as At;
    },
  };
}
