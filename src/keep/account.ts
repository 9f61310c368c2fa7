// Keeps the account that the main process sends of itself: which processes are up, how deliveries were answered, and
// whether the store can be written. It is sent as a message, so that it arrives even if the store fails.
import type { Clock } from '../base/clock.ts';
import type { Account } from '../processes/channel.ts';

/** The main process sends an account every two seconds. After this long without one, the process counts as down. */
const STILL_MS = 6_000;

export type Accounts = ReturnType<typeof createAccounts>;

export function createAccounts(clock: Clock) {
  let last: { account: Account; after: number } | undefined;
  let worst = 0;
  return {
    take(account: Account): void {
      last = { account, after: clock.monotonic() };
      worst = Math.max(worst, account.failureRun);
    },
    /** Undefined before the first account. */
    latest(): Account | undefined {
      if (!last) return undefined;
      const { account, after } = last;
      if (clock.monotonic() - after < STILL_MS) return account;
      return { ...account, processes: { ...account.processes, receive: 'down' } };
    },
    /** The longest failure run since the last call. */
    worstRun(): number {
      const run = worst;
      worst = last?.account.failureRun ?? 0;
      return run;
    },
  };
}
