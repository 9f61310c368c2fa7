// The limits of calls per 60 seconds (contract 8). A window begins with its first call.
import type { Clock } from '../../base/clock.ts';

const MINUTE_MS = 60_000;
/** Calls per minute of the whole account, by kind of route (contract 8). */
export const ACCOUNT_LIMITS = { rpc: 120, quotes: 60, media: 60, events: 10, sessions: 10 };

export interface Limits {
  /** Counts one call. False: the limit is exceeded. */
  take(what: string, most: number): boolean;
}

export function createLimits(clock: Clock): Limits {
  const windows = new Map<string, { from: number; calls: number }>();
  return {
    take(what, most) {
      const open = windows.get(what);
      const window = open && clock.now() - open.from < MINUTE_MS ? open : { from: clock.now(), calls: 0 };
      windows.set(what, window);
      return ++window.calls <= most;
    },
  };
}
