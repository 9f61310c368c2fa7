// The main process: it receives, and nothing else may take its time. It puts the parts together, and answers to signals.
import './base/node/checked.js';
import { onReload } from './processes/reload.ts';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AddressInfo, Server } from 'node:net';
import { createChildren, STOP_MS } from './processes/children.ts';
import { systemClock as clock } from './base/clock.ts';
import { ConfigError, loadConfig, readEnv, type Config } from './config.ts';
import { EXIT, loggable } from './base/errors.ts';
import { createGroupCommit } from './receive/group-commit.ts';
import { createLog, createSeldom } from './base/log.ts';
import { startLoop } from './base/loop.ts';
import { own, START_MS, type Ownership, type Replaced } from './processes/ownership.ts';
import { startOf } from './base/process-start.ts';
import { createReceiveApp } from './receive/app.ts';
import { createBodyReader } from './receive/body.ts';
import { createDeliveryHealth } from './receive/delivery-health.ts';
import { createRefusalLog } from './receive/refusal-log.ts';
import { createProbe, createReceiveServer, drainServer } from './receive/server.ts';
import { createVerifier } from './receive/verify.ts';
import { retryWhileBusy } from './store/retry-while-busy.ts';
import type { Reloaded } from './store/processes.ts';
import { writerOf } from './store/sqlite/lock.ts';
import { StoreError } from './store/store.ts';
import { createStoreAlarm } from './alarms/store-alarm.ts';

/** Lengths of a failure run that people are told of. */
const FAILURES = new Set([3, 10, 13, 15]);
/** Longer than run lets its handlers end; what is left is for the deliveries in flight. */
const TAKE_MS = 7_500;
const LOG_LOST =
  'the log of the store (-wal) was deleted or emptied after the kit was killed: events that it accepted last may be missing; replay fetches them if API_KEY is set, else send them again or npx kit restore a backup';
/** Several looks of a proxy at /readyz. */
const NOTICE_MS = 500;
/** A reload happens whatever the store does; who asked for it is told within this time, or not at all. */
const TELL_MS = 5_000;
/** What the main process reads once; the rest is read again by `run` and `keep`. */
const FIXED = [
  'PORT',
  'HOST',
  'WEBHOOK_PATH',
  'WEBHOOK_HEADER_PREFIX',
  'TIMESTAMP_TOLERANCE_SECONDS',
  'BODY_LIMIT_BYTES',
  'DATABASE_URL',
  'LOG_LEVEL',
  'LOG_FORMAT',
];

/** From the demo and dev alone: --throwaway, and --inspect=<port>, which is for `run`. */
const args = process.argv.slice(2);
let env = readEnv();
const taken = env;
/** systemd may ask before we are ready. */
const early = { reload: false };
const noteReload = (): void => {
  if (process.stdout.isTTY) process.exit(EXIT.done);
  early.reload = true;
};
process.on('SIGHUP', noteReload);
const started = performance.now();
let found: Config | undefined;
const faults: string[] = [];
try {
  found = loadConfig(env);
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  faults.push(...error.faults);
}

let ownership: Ownership | undefined;
/** What a lost store held is being copied. */
let saving: Promise<void> | undefined;
const log = createLog('receive', { level: found?.LOG_LEVEL ?? 'info', format: found?.LOG_FORMAT ?? 'json' });
const children = createChildren({ args, env: () => env, store: () => ownership?.store, clock, log });

faults.push(...(await children.load()));
if (!found || faults.length > 0) await refuse(new ConfigError(faults).message, EXIT.configuration);
else await start(found).catch(refuseStart);

async function start(config: Config): Promise<void> {
  const droppedSeldom = createSeldom(clock);
  ownership = await own(config.storePath, {
    onReplaced: (replaced) => void (saving = onReplaced(replaced)),
    onDropped(what, error) {
      const more = droppedSeldom(what);
      if (more) log.error({ what, ...loggable(error), ...more }, 'cannot be written beside deliveries, and is dropped');
    },
  });
  const { store, logLost } = ownership;
  if (logLost) log.error(LOG_LOST);
  await requireOpsPort(config);
  await retryWhileBusy(() => store.giveBack([], clock.now()), START_MS);
  const late = await children.start();
  if (late.length > 0) return refuse(new ConfigError(late).message, EXIT.configuration);

  const verifier = createVerifier({
    secrets: config.WEBHOOK_SECRET,
    prefix: config.WEBHOOK_HEADER_PREFIX,
    toleranceSeconds: config.TIMESTAMP_TOLERANCE_SECONDS,
  });
  const alarm = createStoreAlarm({ store, config, children, clock, log });
  const refusals = createRefusalLog(log, clock);
  const refusalLog: typeof refusals = {
    note(cause, ...more) {
      if (cause === 'store') alarm.refused();
      refusals.note(cause, ...more);
    },
  };
  const groupCommit = createGroupCommit({
    store: alarm.writes,
    clock,
    onCommit: () => children.wake(),
    onFault({ code }) {
      refusalLog.note(`store_${code}`, {});
      // A handler that spins inside a transaction holds the lock that deliveries wait for.
      const writer = code === 'busy' ? writerOf(config.storePath) : undefined;
      if (writer !== undefined) children.endIfSilent(writer);
    },
  });
  const kept = await retryWhileBusy(() => store.books(), START_MS);
  const health = createDeliveryHealth({
    groupCommit,
    clock,
    secrets: config.WEBHOOK_SECRET,
    kept,
    onFailure(run) {
      if (FAILURES.has(run)) alarm.report(health.run());
    },
  });
  const stopping = { draining: false };
  const app = createReceiveApp({
    path: config.WEBHOOK_PATH,
    prefix: config.WEBHOOK_HEADER_PREFIX,
    bodyLimit: config.BODY_LIMIT_BYTES,
    verifier,
    bodies: createBodyReader(),
    groupCommit,
    clock,
    log,
    refusalLog,
    health,
    draining: () => stopping.draining,
    state: () => alarm.state(),
  });
  const server = createReceiveServer(app);
  await listen(server, 'PORT', config.PORT, config.HOST);
  const self = { role: 'receive', pid: process.pid, started: startOf(process.pid), boot: 0 };
  const sayThatWeLive = (): Promise<void> => alarm.writes.beat(self, clock.now());
  await retryWhileBusy(sayThatWeLive, START_MS);
  const probe = startLoop(async () => {
    health.flush();
    await groupCommit.probe();
    await sayThatWeLive().catch(ignoreStore);
    return alarm.look(groupCommit.waiting(), health.run());
  });
  children.startRest();

  async function stop(signal: string): Promise<void> {
    if (stopping.draining) return;
    stopping.draining = true;
    log.info({ signal }, 'stopping: handlers may end, deliveries are taken until they have');
    const ended = children.stop();
    // A proxy has to wait for the next start alone, not for a handler; and must have seen /readyz before the port closes.
    const noticed = Promise.all([ended, sleep(args.includes('--throwaway') ? 0 : NOTICE_MS)]);
    const drained = within(noticed, TAKE_MS).then(() => drainServer(server, () => groupCommit.waiting()));
    await Promise.all([ended, within(Promise.all([drained, saving]), STOP_MS)]);
    await probe.stop();
    await alarm.stop();
    health.flush();
    await groupCommit.probe();
    await store.gone('receive').catch(ignoreStore);
    ownership?.release();
    log.info('stopped');
    process.exit(EXIT.done);
  }

  const reload = serially(async () => {
    const asked = await retryWhileBusy(() => store.reloadAsked(), TELL_MS).catch((error) =>
      ignoreStore(error).then(() => 0),
    );
    await reread((outcome) => {
      const reloaded = JSON.stringify({ asked, ...outcome });
      return retryWhileBusy(() => store.note({}, { reloaded }), TELL_MS).catch(ignoreStore);
    });
  });

  async function reread(tell: (outcome: Omit<Reloaded, 'asked'>) => Promise<void>): Promise<void> {
    if (saving) return log.error('SIGHUP: the store was replaced or deleted: nothing starts again before the kit does');
    const asked = performance.now();
    const since = (): number => Math.round(performance.now() - asked);
    const fresh = readEnv();
    let changed: Config;
    try {
      changed = loadConfig(fresh);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      log.error({ faults: error.faults }, 'SIGHUP: the configuration has faults; the old one stays in force');
      const old = 'configuration stays in force';
      return tell({ handlers: children.handlers(), ms: since(), faults: error.faults, old, restart: [] });
    }
    verifier.useSecrets(changed.WEBHOOK_SECRET);
    health.useSecrets(changed.WEBHOOK_SECRET);
    alarm.useUrl(changed.ALERT_URL);
    env = fresh;
    const fixed = FIXED.filter((name) => fresh[name] !== taken[name]);
    if (fixed.length > 0) log.warn({ names: fixed }, 'SIGHUP: these changed, and take a restart of the kit');
    const broken = await children.reload();
    if (broken.length > 0)
      log.error({ faults: broken }, 'SIGHUP: secrets read again; handlers have faults, the old ones go on');
    else
      log.info(
        {
          secrets: changed.WEBHOOK_SECRET.length,
          handlers: children.handlers(),
          ms: since(),
        },
        'SIGHUP: secrets and handlers read again, run has started again, and keep does',
      );
    const old = broken.length > 0 ? 'handlers go on' : null;
    await tell({ handlers: children.handlers(), ms: since(), faults: broken, old, restart: fixed });
    await children.restartKeep();
  }

  process.on('SIGTERM', () => void stop('SIGTERM'));
  process.on('SIGINT', () => void stop('SIGINT'));
  if (args.includes('--throwaway')) process.on('disconnect', () => void stop('the end of who started it'));
  process.off('SIGHUP', noteReload);
  process.on('SIGHUP', () => void (process.stdout.isTTY ? stop('SIGHUP') : reload()));
  if (early.reload) void reload();
  onReload(() => void reload());
  const { port } = server.address() as AddressInfo;
  log.info(
    {
      pid: process.pid,
      port,
      path: config.WEBHOOK_PATH,
      store: config.storePath,
      ms: Math.round(performance.now() - started),
    },
    'ready for deliveries',
  );
}

/** Nothing is taken over: deliveries get 503 until a person has put a store in its place, and started the kit again. */
async function onReplaced({ error, copy }: Replaced): Promise<void> {
  log.fatal(error.message);
  await children.kill();
  const saved = await copy;
  if (saved) log.fatal({ copy: saved }, 'what was accepted until then is in this copy: npx kit restore takes it, too');
  else log.fatal('what was accepted until then could not be copied: it goes with the file that is gone');
}

async function listen(server: Server, name: 'PORT' | 'OPS_PORT', port: number, host: string): Promise<void> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    await refuse(`${name}: cannot listen on ${host}:${port} (${code}): choose a free one`, EXIT.configuration);
  }
}

/** `keep` opens it, and would only find out when deliveries are taken already. */
async function requireOpsPort({ OPS_PORT, OPS_HOST }: Config): Promise<void> {
  const probe = createProbe();
  await listen(probe, 'OPS_PORT', OPS_PORT, OPS_HOST);
  probe.close();
  await once(probe, 'close');
}

async function ignoreStore(error: unknown): Promise<void> {
  if (!(error instanceof StoreError)) throw error;
}

/** What is asked meanwhile happens once, afterwards. */
function serially(work: () => Promise<void>): () => Promise<void> {
  let busy = false;
  let again = false;
  return async function go() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    do {
      again = false;
      await work();
    } while (again);
    busy = false;
  };
}

async function within(work: Promise<unknown>, limitMs: number): Promise<void> {
  const timer = Promise.withResolvers<void>();
  const timeout = setTimeout(timer.resolve, limitMs);
  await Promise.race([work, timer.promise]);
  clearTimeout(timeout);
}

async function refuseStart(error: unknown): Promise<never> {
  if (!(error instanceof StoreError)) {
    log.fatal(loggable(error), 'cannot start');
    throw error;
  }
  const code = ['unwritable', 'newer', 'replaced'].includes(error.code) ? EXIT.configuration : EXIT.failed;
  return refuse(error.message, code);
}

async function refuse(message: string, code: number): Promise<never> {
  process.stderr.write(`${message}\n`);
  await children.stop(1_000);
  process.exit(code);
}
