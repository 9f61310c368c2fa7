// Puts the parts of `receive` together.
import type { Clock } from '../base/clock.ts';
import { createThrottle, type Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import { createReceiveApp } from './app.ts';
import { Commit, type CommitOptions } from './commit.ts';
import { createHealth } from './health.ts';
import { createReceiveServer, drainServer } from './server.ts';

export interface ReceiverOptions extends Omit<CommitOptions, 'onFault'> {
  config: Config;
  clock: Clock;
  log: Logger;
  /** True: the store's file was replaced or deleted. */
  isReplaced: () => boolean;
}

export function createReceiver({ config, log, clock, isReplaced, ...rest }: ReceiverOptions) {
  const throttle = createThrottle(clock);
  let secrets: string[] = [];
  let draining = false;
  const commit = new Commit({
    ...rest,
    clock,
    onFault({ code, message }) {
      if (throttle(code))
        log.error({ code, why: message }, 'the store cannot be written: deliveries wait, at most 8 s');
    },
  });
  const health = createHealth(commit, clock, log);
  function useSecrets(changed: Config): void {
    ({ WEBHOOK_SECRET: secrets } = changed);
    commit.set('since', clock.now());
  }
  useSecrets(config);
  const app = createReceiveApp({
    config,
    secrets: () => secrets,
    commit,
    health,
    clock,
    state() {
      if (draining) return 'draining';
      if (isReplaced()) return 'the store was replaced';
      return commit.ready() ? 'ready' : 'the store cannot be written';
    },
  });
  const server = createReceiveServer(app.callback(), () => health.refused('bad_http'));

  return {
    server,
    /** /readyz says 'draining' from now on; deliveries are still taken until `drain`. */
    stopSoon: (): void => void (draining = true),
    drain: (): Promise<void> => drainServer(server),
    set: (name: string, value: unknown): void => commit.set(name, value),
    flush: (): Promise<void> => commit.flush(),
    useSecrets,
  };
}
