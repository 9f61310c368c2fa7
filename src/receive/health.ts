// What only `receive` knows: how deliveries are answered. Counts and logs the causes of refusals, and tells the store
// how many failures in a row the service sees, because at 15 the service switches the webhook off (contract 3.2).
import type { Clock } from '../base/clock.ts';
import { loggable } from '../base/errors.ts';
import { createThrottle, type Logger } from '../base/log.ts';
import type { Verdict } from '../store/store.ts';
import { CAUSES, type Cause } from './causes.ts';
import type { Commit } from './commit.ts';

export type Health = ReturnType<typeof createHealth>;

export function createHealth(commit: Commit, clock: Clock, log: Logger) {
  const throttle = createThrottle(clock);
  /** Failures in a row. -1, at the start: unknown, because the process before this one may have refused deliveries. */
  let failures = -1;

  function note(kind: string, fields: object, words: string): void {
    if (throttle(kind)) log.warn(fields, words);
  }

  return {
    accepted(verdict: Verdict, isOurs: boolean): void {
      // A test delivery of our own does not show that the service still sends deliveries.
      if (!isOurs) {
        if (failures !== 0) commit.set('failures_in_a_row', 0);
        failures = 0;
        commit.set('last_accepted_at', clock.now());
      }
      if (verdict === 'conflict') note(verdict, {}, 'a delivery contradicts a stored event: see npx kit quarantine');
      if (verdict === 'quarantined') note(verdict, {}, 'a delivery is not a readable event: see npx kit quarantine');
    },
    refused(cause: Cause): void {
      const { status, failure } = CAUSES[cause];
      commit.count(`refused.${cause}`);
      if (failure) {
        commit.set('failures_in_a_row', (failures = Math.max(failures, 0) + 1));
        commit.set('last_refused', { cause, at: clock.now() });
      }
      note(cause, { cause, status }, 'a request was refused');
    },
    broke: (error: unknown): void => note('broke', loggable(error), 'an answer broke off'),
  };
}
