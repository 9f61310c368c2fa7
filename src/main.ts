// The main process: it receives, and nothing else may take its time. It starts the other two and starts them again,
// and it answers to signals.
import './checked.js';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AddressInfo, Server } from 'node:net';
import { systemClock as clock } from './clock.ts';
import { ConfigError, loadConfig, readEnv, type Config } from './config.ts';
import { EXIT, loggable } from './errors.ts';
import { createIntake } from './intake.ts';
import { createLog } from './log.ts';
import { startLoop } from './loop.ts';
import { own, START_MS, type Ownership } from './owner.ts';
import { startOf } from './process.ts';
import { createReceiveApp } from './receive/app.ts';
import { createBodyReader } from './receive/bytes.ts';
import { createLedger } from './receive/ledger.ts';
import { createSampler } from './receive/sampler.ts';
import { createProbe, createReceiveServer, drainServer } from './receive/server.ts';
import { createVerifier } from './receive/verify.ts';
import { patiently } from './store/patiently.ts';
import { writerOf } from './store/sqlite/lock.ts';
import { StoreError } from './store/store.ts';
import { createChild, type Child } from './supervisor.ts';

const DAY_MS = 86_400_000;
const PROBE_MS = 2_000;
/** Within the 9 s that a stop may take; what is left is for the store to close. */
const STOP_MS = 8_500;
/** Longer than run lets its handlers end; what is left is for the deliveries in flight. */
const TAKE_MS = 7_500;
/** Several looks of a proxy at /readyz. */
const NOTICE_MS = 500;
const SOLO_MS = 500;
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
/** A child that holds the store's lock and shows no life for so long is taken to spin. */
const SILENT_MS = 2_500;

/** From the demo and dev alone: --throwaway, and --inspect=<port>, which is for `run`. */
const args = process.argv.slice(2);
let env = readEnv();
const taken = env;
let turn = Promise.resolve();
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
const log = createLog('receive', { level: found?.LOG_LEVEL ?? 'info', format: found?.LOG_FORMAT ?? 'json' });
const store = (): Ownership['store'] => {
  if (!ownership) throw new Error('the store is not open yet');
  return ownership.store;
};
const boot = (): Promise<number> => patiently(() => store().nextBoot());

// It shows and fetches, and nobody waits for its speed.
const keep = createChild({
  role: 'keep',
  memory: ['--optimize-for-size', '--max-semi-space-size=1'],
  entry: 'keep/main.ts',
  env: () => env,
  boot,
  log,
  onWake: () => run.wake(),
  onExit: () => gone('keep'),
});
// Events live for ORDER_WINDOW_MS: long enough to be promoted, and collected at a price, by a small young generation.
const memory = ['--max-semi-space-size=16'];
const createRun = (): Child =>
  createChild({
    role: 'run',
    memory,
    entry: 'run/main.ts',
    args,
    env: () => env,
    boot,
    log,
    onWake: () => keep.wake(),
    onExit: (unexpected) => runGone('run', unexpected),
  });
let run = createRun();
const solo = createChild({
  role: 'run-solo',
  memory,
  entry: 'run/main.ts',
  args: ['solo', ...args.filter((arg) => !arg.startsWith('--inspect'))],
  env: () => env,
  boot,
  log,
  lasting: false,
  onExit: () => runGone('run-solo', false),
});

// The handlers are read by a process of their own, so that their code never runs beside the acknowledgements.
faults.push(...(await run.load()));
if (!found || faults.length > 0) await refuse(new ConfigError(faults).message, EXIT.configuration);
else await start(found).catch(refuseStart);

async function start(config: Config): Promise<void> {
  ownership = await own(config.storePath, config.RETENTION_DAYS * DAY_MS, () => {
    log.error('another file has taken the place of the store: it is served from now on, run and keep start again');
    void inTurn(restartBoth);
  });
  await requireOpsPort(config);
  await patiently(() => store().giveBack([], clock.now()), START_MS);
  const late = await run.start();
  if (late.length > 0) return refuse(new ConfigError(late).message, EXIT.configuration);

  const verifier = createVerifier({
    secrets: config.WEBHOOK_SECRET,
    prefix: config.WEBHOOK_HEADER_PREFIX,
    toleranceSeconds: config.TIMESTAMP_TOLERANCE_SECONDS,
  });
  const sampler = createSampler(log, clock);
  const intake = createIntake({
    store: store(),
    clock,
    onCommit: () => run.wake(),
    onFault({ code }) {
      sampler.note(`store_${code}`, {});
      // A handler that spins inside a transaction holds the lock that deliveries wait for.
      const writer = code === 'busy' ? writerOf(config.storePath) : undefined;
      if (writer !== undefined)
        for (const child of [run, solo, keep]) if (child.pid() === writer) child.endIfSilent(SILENT_MS);
    },
  });
  const kept = await patiently(() => store().books(), START_MS);
  const ledger = createLedger({ intake, clock, secrets: config.WEBHOOK_SECRET, kept });
  const stopping = { draining: false };
  const app = createReceiveApp({
    path: config.WEBHOOK_PATH,
    prefix: config.WEBHOOK_HEADER_PREFIX,
    bodyLimit: config.BODY_LIMIT_BYTES,
    verifier,
    bodies: createBodyReader(),
    intake,
    clock,
    log,
    sampler,
    ledger,
    draining: () => stopping.draining,
  });
  const server = createReceiveServer(app);
  await listen(server, 'PORT', config.PORT, config.HOST);
  await patiently(sayThatWeLive, START_MS);
  const probe = startLoop(async () => {
    ledger.flush();
    await intake.probe();
    await sayThatWeLive().catch(ignoreStore);
    return PROBE_MS;
  });
  const suspects = startLoop(watchSuspects);
  void inTurn(startKeep);

  async function stop(signal: string): Promise<void> {
    if (stopping.draining) return;
    stopping.draining = true;
    log.info({ signal }, 'stopping: handlers may end, deliveries are taken until they have');
    const ended = Promise.all([suspects.stop(), run.stop(STOP_MS), solo.stop(STOP_MS), keep.stop(STOP_MS)]);
    // A proxy has to wait for the next start alone, not for a handler; and must have seen /readyz before the port closes.
    const noticed = Promise.all([ended, sleep(args.includes('--throwaway') ? 0 : NOTICE_MS)]);
    const drained = within(noticed, TAKE_MS).then(() => drainServer(server, () => intake.waiting()));
    await Promise.all([ended, within(drained, STOP_MS)]);
    await probe.stop();
    ledger.flush();
    await intake.probe();
    await store().gone('receive').catch(ignoreStore);
    ownership?.release();
    log.info('stopped');
    process.exit(EXIT.done);
  }

  const reload = serially(() => inTurn(reread));

  async function reread(): Promise<void> {
    const asked = performance.now();
    const fresh = readEnv();
    let changed: Config;
    try {
      changed = loadConfig(fresh);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      log.error({ faults: error.faults }, 'SIGHUP: the configuration has faults; the old one stays in force');
      return;
    }
    verifier.useSecrets(changed.WEBHOOK_SECRET);
    ledger.useSecrets(changed.WEBHOOK_SECRET);
    env = fresh;
    const fixed = FIXED.filter((name) => fresh[name] !== taken[name]);
    if (fixed.length > 0) log.warn({ names: fixed }, 'SIGHUP: these changed, and take a restart of the kit');
    // Loaded beside the one at work, which is not stopped for handlers that cannot start, nor before they could.
    const next = createRun();
    const broken = await next.load();
    if (broken.length > 0) {
      await next.stop(STOP_MS);
      log.error({ faults: broken }, 'SIGHUP: secrets read again; handlers have faults, the old ones go on');
      return restart(keep);
    }
    await handOver(next);
    log.info(
      { secrets: changed.WEBHOOK_SECRET.length, handlers: run.handlers(), ms: Math.round(performance.now() - asked) },
      'SIGHUP: secrets and handlers read again, run has started again, and keep does',
    );
    await restart(keep);
  }

  process.on('SIGTERM', () => void stop('SIGTERM'));
  process.on('SIGINT', () => void stop('SIGINT'));
  if (args.includes('--throwaway')) process.on('disconnect', () => void stop('the end of who started it'));
  process.off('SIGHUP', noteReload);
  process.on('SIGHUP', () => void (process.stdout.isTTY ? stop('SIGHUP') : reload()));
  if (early.reload) void reload();
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

  async function restartBoth(): Promise<void> {
    await Promise.all([restart(run), restart(keep)]);
  }

  async function handOver(next: Child): Promise<void> {
    await run.stop(STOP_MS);
    run = next;
    await go(run);
  }

  async function restart(child: Child): Promise<void> {
    if (stopping.draining) return;
    await child.stop(STOP_MS);
    await go(child);
  }

  async function go(child: Child): Promise<void> {
    if (stopping.draining) return;
    const problems = await child.start();
    if (problems.length > 0) log.error({ problems }, 'cannot start again; mend it, tried again');
  }
}

async function startKeep(): Promise<void> {
  const problems = await keep.start();
  if (problems.length > 0) log.error({ problems }, 'keep cannot start; tried again');
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

function sayThatWeLive(): Promise<void> {
  return store().beat({ role: 'receive', pid: process.pid, started: startOf(process.pid), boot: 0 }, clock.now());
}

/** A task whose process died runs in one of its own, one at a time; the others go on. */
async function watchSuspects(): Promise<number> {
  try {
    if (solo.pid() === undefined && (await store().suspectDue(clock.now(), run.handlers()))) {
      const problems = await solo.start();
      if (problems.length > 0) log.error({ problems }, 'the process for single tasks cannot start');
    }
  } catch (error) {
    await ignoreStore(error);
  }
  return SOLO_MS;
}

async function gone(role: string): Promise<void> {
  await patiently(() => store().gone(role));
}

async function runGone(role: 'run' | 'run-solo', unexpected: boolean): Promise<void> {
  if (!ownership) return;
  const alive = [run.boot(), solo.boot()].filter((one) => one !== null);
  const back = await patiently(() => store().giveBack(alive, clock.now()));
  if (back > 0) log.warn({ role, tasks: back }, 'the tasks that a dead process was at are given back, and run alone');
  if (back > 0 || unexpected) await patiently(() => store().note({ run_crashes: 1 }));
  await gone(role);
}

async function ignoreStore(error: unknown): Promise<void> {
  if (!(error instanceof StoreError)) throw error;
}

/** For what starts and stops processes, whoever asked for it: of two at once, each would start one of its own. */
function inTurn(work: () => Promise<void>): Promise<void> {
  turn = turn.then(work);
  return turn;
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
  const code = error.code === 'unwritable' || error.code === 'newer' ? EXIT.configuration : EXIT.failed;
  return refuse(error.message, code);
}

async function refuse(message: string, code: number): Promise<never> {
  process.stderr.write(`${message}\n`);
  await run.stop(1_000);
  process.exit(code);
}
