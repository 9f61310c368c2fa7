// The clock for all times that are stored, or compared with stored ones.
import { systemClock, type Clock } from '../base/clock.ts';
import type { Store } from './store.ts';

/** The wall clock of the store, and this process's monotonic clock for durations. */
export function clockOf(store: Pick<Store, 'now'>): Clock {
  return { now: () => store.now(), monotonic: () => systemClock.monotonic() };
}
