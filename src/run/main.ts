// The `run` process: loads the handlers, waits for the word to go, and works until it is told to stop. With `solo` it
// takes, one at a time, the tasks whose process died under them, and ends when there are none.
import { open as openInspector } from 'node:inspector';
import { flushCompileCache } from 'node:module';
import { ConfigError, loadConfig, readEnv } from '../config.ts';
import { systemClock as clock } from '../clock.ts';
import { describe, EXIT } from '../errors.ts';
import { createLog } from '../log.ts';
import { joinOwner, type Orders } from '../process.ts';
import { createPace } from '../service/pace.ts';
import { createService, noService } from '../service/service.ts';
import { openSqlite } from '../store/sqlite/open.ts';
import type { Tx } from '../store/tasks-store.ts';
import { patiently } from '../store/patiently.ts';
import { loadHandlers, type Loaded } from './load.ts';
import { startRunner, traceStray } from './runner.ts';
import { startSolo } from './solo.ts';

/** Of the 9 s that a stop may take. */
const DRAIN_MS = 7_000;
/** The developer who has saved a file waits for the new one, not for the old. */
const THROWAWAY_DRAIN_MS = 200;
const DAY_MS = 86_400_000;
/** Calls a minute of the whole account (contract 8); reconciliation has its own part of them. */
const ACCOUNT_CALLS = 120;
/** A lock held elsewhere stands this process still for so long; then it tries again, awaited. */
const BUSY_MS = 20;
const START_MS = 5_000;

const solo = process.argv.includes('solo');
const throwaway = process.argv.includes('--throwaway');
const inspectAt = process.argv.find((arg) => arg.startsWith('--inspect='))?.slice('--inspect='.length);
const owner = joinOwner();
const env = readEnv();
const { handlersDir } = loadConfig(env, { only: ['HANDLERS_DIR'] });
// Whether they are there; what is wrong with them the main process says.
const replay = Boolean(env['API_BASE_URL'] && (env['API_KEY'] ?? env['API_KEY_FILE']));
const handlers = await loadHandlers(handlersDir, { replay }).catch((error: unknown) =>
  giveUp(error instanceof ConfigError ? error.faults : [String(error)]),
);
await owner.say({ type: 'loaded', handlers: handlers.map(({ name }) => name) });
await owner.orders(start);

async function start({ boot }: Orders): Promise<void> {
  if (inspectAt !== undefined) {
    // Now, when no older `run` holds the port. A breakpoint may last longer than an attempt.
    openInspector(Number(inspectAt), '127.0.0.1');
    for (const handler of handlers) handler.timeoutMs = DAY_MS;
  }
  const config = loadConfig(env);
  const log = createLog(solo ? 'run-solo' : 'run', { level: config.LOG_LEVEL, format: config.LOG_FORMAT });
  const store = openSqlite(config.storePath, { synchronous: 'NORMAL', busyMs: BUSY_MS });
  try {
    const setUpAll = (tx: Tx): void => handlers.forEach(({ name, setup }) => setUp(name, setup, tx));
    await patiently(() => store.setup(setUpAll), START_MS);
  } catch (error) {
    await giveUp([describe(error).message]);
  }
  const service =
    config.API_BASE_URL && config.API_KEY
      ? createService({
          baseUrl: config.API_BASE_URL,
          apiKey: config.API_KEY,
          paid: config.PAID_OPERATIONS === 'allow',
          pace: createPace({ callsPerMinute: Math.max(1, ACCOUNT_CALLS - config.RECONCILE_CALLS_PER_MINUTE), clock }),
          onOdd: (odd) => log.warn(odd, 'an answer of the service does not fit its shape; handed over as it came'),
        })
      : noService;
  const options = {
    store,
    handlers,
    service,
    clock,
    log,
    boot,
    concurrency: config.RUN_CONCURRENCY,
    windowMs: config.ORDER_WINDOW_MS,
    tellsWhy: throwaway,
    onLaneFault: ({ name }: Loaded) => void patiently(() => store.note({ [`lane_faults.${name}`]: 1 })),
    onUnproven: () => void owner.say({ type: 'wake' }),
  };
  if (solo) {
    const stop = new AbortController();
    process.once('SIGTERM', () => stop.abort());
    await owner.say({ type: 'ready' });
    await startSolo(options, stop.signal);
    process.exit(EXIT.done);
  }

  const runner = await startRunner(options);
  traceStray((error) => runner.blame(error), log, clock);
  owner.onWake(() => runner.wake());
  owner.onBeat(async () => {
    await store.beat({ role: 'run', ...owner.self, boot }, clock.now());
    await store.note({}, { held: runner.held() });
  });
  process.once(
    'SIGTERM',
    () => void runner.drain(throwaway ? THROWAWAY_DRAIN_MS : DRAIN_MS).then(() => process.exit(EXIT.done)),
  );
  // Where NODE_COMPILE_CACHE names a folder, the next start takes half the time, the first one too.
  if (throwaway) flushCompileCache();
  if (handlers.length === 0) log.warn('no handlers: events are stored and wait for nobody');
  await owner.say({ type: 'ready' });
}

function setUp(name: string, setup: ((tx: Tx) => unknown) | undefined, tx: Tx): void {
  let made: unknown;
  try {
    made = setup?.(tx);
  } catch (error) {
    throw new Error(`setup of handler ${name} failed: ${describe(error).message}`, { cause: error });
  }
  if (made instanceof Promise) throw new Error(`setup of handler ${name} must not be async`);
}

async function giveUp(faults: string[]): Promise<never> {
  await owner.say({ type: 'faults', faults });
  process.exit(EXIT.configuration);
}
