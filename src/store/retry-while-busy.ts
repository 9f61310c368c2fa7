// How callers handle failures of the store: they retry while it is locked, and log what was not written.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { loggable } from '../base/errors.ts';
import { createThrottle, type Logger } from '../base/log.ts';
import { StoreError } from './store.ts';

const PAUSE_MS = 20;
const PASSING = new Set<StoreError['code']>(['busy', 'unwritable', 'standby']);

/** Retries while the store is locked or failing, until the limit. Errors that need a person are thrown at once. */
export async function retryWhileBusy<Result>(work: () => Promise<Result>, limitMs = Infinity): Promise<Result> {
  const end = performance.now() + limitMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StoreError) || !PASSING.has(error.code) || performance.now() > end) throw error;
      await sleep(PAUSE_MS);
    }
  }
}

/** Returns how long a loop waits after a failed step, milliseconds. Other errors than the store's are thrown. */
export function createRecovery(log: Logger, clock: Clock, busyMs: number): (error: unknown) => number {
  const throttle = createThrottle(clock);
  return (error) => {
    if (!(error instanceof StoreError)) throw error;
    if (error.code === 'busy' || error.code === 'standby') return busyMs;
    const more = throttle('store');
    if (more) log.error({ code: error.code, reason: error.message, ...more }, 'the store cannot be written; retrying');
    return 1_000;
  };
}

/** Logs a counter or a state that could not be written along with deliveries. */
export function createDropLog(log: Logger, clock: Clock): (what: string, error: unknown) => void {
  const throttle = createThrottle(clock);
  const words = 'a figure of the kit cannot be stored, and is dropped; deliveries are not affected';
  return (what, error) => {
    const more = throttle(what);
    if (more) log.error({ what, ...loggable(error), ...more }, words);
  };
}
