// Puts the parts of the receiver together, and reports the process's state to `keep`, to probes and to modules.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { startOf } from '../base/process-start.ts';
import type { Config } from '../config.ts';
import type { Account } from '../processes/channel.ts';
import type { Children } from '../processes/children.ts';
import { clockOf } from '../store/clock.ts';
import { orNone } from '../store/or-none.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { siteOf } from '../store/open.ts';
import { START_MS } from '../store/site.ts';
import type { Store } from '../store/store.ts';
import { createReceiveApp } from './app.ts';
import { createBodyReader } from './body.ts';
import { storeNotice } from './causes.ts';
import { createDeliveryHealth, FAILURE_LEVELS } from './delivery-health.ts';
import { createGroupCommit } from './group-commit.ts';
import type { ReceiveModule } from './module.ts';
import { createRefusalLog, type RefusalLog } from './refusal-log.ts';
import { watchStore, type WriteTrouble } from './store-watch.ts';
import { createVerifier } from './verify.ts';

/** Milliseconds between two looks at the store: while it can be written, and while it cannot. */
const LOOK_MS = { well: 2_000, failing: 250 };
/** After this time without a successful write the receiver is not ready. */
const READY_MS = 1_000;

interface ReceiverOptions {
  config: Config;
  store: Store;
  children: Children;
  modules: ReceiveModule[];
  clock: Clock;
  log: Logger;
  draining: () => boolean;
}

// oxlint-disable-next-line max-lines-per-function -- wiring: every part below needs one of the parts before it
export async function createReceiver(options: ReceiverOptions) {
  const { config, store, children, modules, clock: machine, log, draining } = options;
  const clock = clockOf(store);
  const { WEBHOOK_SECRET: secrets, WEBHOOK_HEADER_PREFIX: prefix } = config;
  const site = siteOf(config.storeUrl);
  const watch = watchStore(store, clock);
  const verifier = createVerifier({ secrets, prefix, toleranceSeconds: config.TIMESTAMP_TOLERANCE_SECONDS });
  const refusals = createRefusalLog(log, clock);
  const refusalLog: RefusalLog = {
    note(cause, ...more) {
      if (cause === 'store') watch.refused();
      refusals.note(cause, ...more);
    },
  };
  const groupCommit = createGroupCommit({
    store: watch.writes,
    clock,
    onCommit: () => children.wake(),
    onFault({ code }) {
      refusalLog.note(storeNotice(code), {});
      // A handler that spins inside a transaction keeps the lock that deliveries need, so its process is killed.
      const writer = code === 'busy' ? site.writer() : undefined;
      if (writer !== undefined) children.endIfSilent(writer);
    },
  });
  const health = createDeliveryHealth({
    groupCommit,
    clock,
    secrets,
    kept: await retryWhileBusy(() => store.state.books(), START_MS),
    onFailure(run) {
      if (FAILURE_LEVELS.includes(run)) report();
    },
  });
  const started = modules.flatMap(({ start }) => start?.({ config, clock, log, trouble }) ?? []);
  const alarms = (): Account['alarms'] => started.flatMap((module) => module.alarms());
  const processes = (): Account['processes'] => ({ receive: 'up', ...children.processes() });
  const self = { role: 'receive', pid: process.pid, started: startOf(process.pid), boot: 0 };

  function trouble(): WriteTrouble | undefined {
    const found = watch.trouble();
    if (!found) return undefined;
    const writer = found.code === 'locked' ? site.writer() : undefined;
    const { failureRun } = health.run();
    const recovers = config.API_KEY !== undefined;
    return {
      ...found,
      waiting: groupCommit.waiting(),
      failureRun,
      writer,
      recovers,
      remedy: site.remedyOf(found.code),
    };
  }

  function report(): void {
    children.report({ processes: processes(), alarms: alarms(), ...health.run() });
  }

  const app = createReceiveApp({
    path: config.WEBHOOK_PATH,
    prefix,
    bodyLimit: config.BODY_LIMIT_BYTES,
    verifier,
    bodies: createBodyReader(),
    groupCommit,
    clock,
    machine,
    log,
    refusalLog,
    health,
    draining,
    state: () => ({
      writable: watch.silentMs() < READY_MS,
      store: site.fingerprint,
      processes: processes(),
      alarms: alarms(),
    }),
  });
  /** The questions to the store that are not answered yet. */
  let asking: Promise<void> | undefined;

  async function ask(): Promise<void> {
    await groupCommit.probe();
    await orNone(beat);
    if (groupCommit.waiting() === 0) await watch.retry(site.freeBytes);
  }

  const beat = (): Promise<void> => watch.writes.beat(self, clock.now());

  return {
    app,
    /** Call it for a request that was refused before it reached the app. */
    unreadable(status: number): void {
      groupCommit.count({ 'refused.bad_http': 1 });
      refusalLog.note('bad_http', { status });
    },
    waiting: (): number => groupCommit.waiting(),
    beat,
    /**
     * Checks the store and reports the process's state. Resolves to the milliseconds until the next look. `full`: since
     * the last look, connections were closed because there were too many.
     */
    async look(full: boolean): Promise<number> {
      health.flush();
      if (full) groupCommit.count({ connections_full: 1 });
      // A store that does not answer must not delay the alarm about it.
      asking ??= ask();
      const answered = await Promise.race([asking.then(() => true), sleep(LOOK_MS.failing, false)]);
      if (answered) asking = undefined;
      for (const module of started) module.look();
      report();
      return !answered || watch.failing() ? LOOK_MS.failing : LOOK_MS.well;
    },
    useConfig(changed: Config): void {
      verifier.useSecrets(changed.WEBHOOK_SECRET);
      health.useSecrets(changed.WEBHOOK_SECRET);
      for (const module of started) module.useConfig(changed);
    },
    /** Writes the counters and state that are still in memory. */
    async stop(): Promise<void> {
      await Promise.all(started.map((module) => module.stop()));
      health.flush();
      await groupCommit.probe();
    },
  };
}
