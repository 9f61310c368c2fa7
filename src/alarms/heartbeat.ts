// Pings HEARTBEAT_URL each minute while the kit works, so that a service outside notices when the kit is gone. A ping
// is a GET, as the usual services take it. A failed ping raises no alarm: the service that misses it does.
import { loggable } from '../base/errors.ts';
import type { Accounts } from '../keep/account.ts';
import type { Keep } from '../keep/module.ts';
import { call } from './notifier.ts';

const EVERY_MS = 60_000;
/** Pause until the state is looked at again, if the kit does not work. */
const LOOK_MS = 2_000;
const LOG_MS = 3_600_000;

interface HeartbeatOptions extends Pick<Keep, 'clock' | 'log'> {
  accounts: Pick<Accounts, 'latest'>;
  /** Aborts the ping in progress. */
  signal: AbortSignal;
}

/** The step of a loop. */
export function createHeartbeat(url: string, { accounts, clock, log, signal }: HeartbeatOptions) {
  let loggedAfter = -Infinity;

  /** Whether deliveries can be committed and handled. The main process raises alarms about its own writes alone. */
  function works(): boolean {
    const account = accounts.latest();
    if (account === undefined || account.alarms.length > 0) return false;
    return Object.values(account.processes).every((life) => life === 'up');
  }

  function note(fields: object): void {
    if (signal.aborted || clock.monotonic() - loggedAfter < LOG_MS) return;
    loggedAfter = clock.monotonic();
    log.warn(fields, 'HEARTBEAT_URL did not take a ping; pinging on each minute. See npx kit alert test');
  }

  return async (): Promise<number> => {
    if (!works()) return LOOK_MS;
    try {
      const { ok, status } = await call(url, {}, signal);
      if (!ok) note({ status });
    } catch (error) {
      note(loggable(error));
    }
    return EVERY_MS;
  };
}
