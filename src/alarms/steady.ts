// Moments of the store, as the monotonic clock knows them: a step of the wall clock makes nothing older or younger. Only
// what happened before this process began is as old as the wall clock says.
import type { Clock } from '../base/clock.ts';

/** Smaller differences are no step: a clock that is being synchronised. */
const STEP_MS = 5_000;

export interface Steady {
  /** Begins a look; moments that were not asked for since the last one are forgotten. */
  look(): void;
  /** The moment by the wall clock of now; `name` says whose it is. */
  moment<At extends number | null>(name: string, at: At): At;
}

export function createSteady(clock: Clock): Steady {
  let known = new Map<string, { at: number; since: number }>();
  let asked = new Map<string, { at: number; since: number }>();
  let lookedAt: number | undefined;
  let longest = Infinity;

  function sinceOf(name: string, at: number): number {
    const before = known.get(name);
    if (before?.at === at) return before.since;
    // A moment that is new is no older than the last look.
    return clock.monotonic() - Math.min(Math.max(0, clock.now() - at), longest);
  }

  return {
    look() {
      const now = clock.monotonic();
      longest = lookedAt === undefined ? Infinity : now - lookedAt;
      lookedAt = now;
      [known, asked] = [asked, new Map()];
    },
    moment<At extends number | null>(name: string, at: At): At {
      if (at === null) return at;
      const since = sinceOf(name, at);
      asked.set(name, { at, since });
      const moment = clock.now() - (clock.monotonic() - since);
      return (Math.abs(moment - at) < STEP_MS ? at : moment) as At;
    },
  };
}
