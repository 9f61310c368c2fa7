// A clock that stands still until a test sets it.
import type { Clock } from '../../base/clock.ts';

/** Fixtures happen after this time, each a second after the one before, unless it sets `createdAt`. */
export const T0 = Date.UTC(2026, 0, 1);

export interface TestClock extends Clock {
  /** Unix milliseconds. */
  at: number;
}

export function createClock(at: number | string = T0): TestClock {
  const clock = { at: typeof at === 'number' ? at : Date.parse(at), now: () => clock.at, monotonic: () => clock.at };
  return clock;
}
