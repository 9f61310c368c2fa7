// A clock that stands still until a test sets it.
import type { Clock } from '../../base/clock.ts';

/** Without `createdAt`, the first fixture happens a second after this time, the second two seconds after, and so on. */
export const T0 = Date.UTC(2026, 0, 1);

export interface TestClock extends Clock {
  /** Unix milliseconds. */
  at: number;
}

export function createClock(at: number | string = T0): TestClock {
  const clock = { at: typeof at === 'number' ? at : Date.parse(at), now: () => clock.at, monotonic: () => clock.at };
  return clock;
}
