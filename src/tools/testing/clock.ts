// A time that stands still until it is set.
import type { Clock } from '../../base/clock.ts';

/** When fixtures happen, unless they say otherwise; each a second after the one before. */
export const T0 = Date.UTC(2026, 0, 1);

export interface TestClock extends Clock {
  /** Unix milliseconds. */
  at: number;
}

export function createClock(at: number | string = T0): TestClock {
  const clock = { at: typeof at === 'number' ? at : Date.parse(at), now: () => clock.at, monotonic: () => clock.at };
  return clock;
}
