// The `run` process: loads the handlers, waits for the word to go, and works until it is told to stop. With `solo` it
// takes, one at a time, the tasks whose process died under them, and ends when there are none. With `check` it only tries
// the files, beside a kit at work.
import { AsyncLocalStorage } from 'node:async_hooks';
import { open as openInspector } from 'node:inspector';
import { flushCompileCache } from 'node:module';
import { setImmediate as settled } from 'node:timers/promises';
import { ConfigError, loadConfig, readEnv, type Config } from '../config.ts';
import { systemClock as clock } from '../base/clock.ts';
import { describe, EXIT, loggable } from '../base/errors.ts';
import { createLog, createSeldom, type Logger } from '../base/log.ts';
import { joinOwner, type LoadedHandler, type Orders } from '../processes/channel.ts';
import { serviceOf } from '../service/start.ts';
import { openSqlite } from '../store/sqlite/open.ts';
import type { Store } from '../store/store.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { listFaults, loadHandlers, notesOf, unknownTypes, type Loaded, type LoadedFolder } from './load.ts';
import { lockGlobals } from './lock.ts';
import { startRunner } from './runner.ts';
import { setUpHandlers } from './set-up.ts';
import { startSolo } from './isolation.ts';
import { traceStray, type Course } from './trace.ts';

/** Of the 9 s that a stop may take. */
const DRAIN_MS = 7_000;
/** The developer who has saved a file waits for the new one, not for the old. */
const THROWAWAY_DRAIN_MS = 200;
const DAY_MS = 86_400_000;
/** A lock held elsewhere stands this process still for so long; then it tries again, awaited. */
const BUSY_MS = 20;

const solo = process.argv.includes('solo');
const throwaway = process.argv.includes('--throwaway');
const inspectAt = valueOf('--inspect');
const without = JSON.parse(valueOf('--without') ?? '[]') as string[];
const courses = new AsyncLocalStorage<Course>();
const strays = createSeldom(clock, 10);
const owner = joinOwner();
const env = readEnv();
const said: { log?: Logger } = {};
lockGlobals();
traceStray({
  courses,
  onStray(who, error) {
    const more = strays('stray');
    const words = who.handler ? 'a handler left a rejection unhandled, after it had ended' : 'a rejection is unhandled';
    if (more) said.log?.error({ ...who, ...loggable(error), ...whyOf(error), ...more }, words);
  },
  onEnd(words, error) {
    const { threw, ...who } = words;
    const thrown = error === undefined ? {} : { ...loggable(error), ...whyOf(error) };
    said.log?.fatal(
      { ...who, ...thrown },
      threw ? 'an exception that nobody caught ends this process' : 'a handler ends this process',
    );
    process.send?.({ type: 'last words', words });
  },
});
const { handlersDir } = loadConfig(env, { only: ['HANDLERS_DIR'] });
// Whether they are there; what is wrong with them the main process says.
const replay = Boolean(env['API_BASE_URL'] && (env['API_KEY'] ?? env['API_KEY_FILE']));
const onFile = (file: string): Promise<void> => owner.say({ type: 'at', file, stage: 'load' });
const folder = await loadHandlers(handlersDir, { replay, without, courses, onFile }).catch((error: unknown) =>
  giveUp(error instanceof ConfigError ? error.faults : [String(error)]),
);
const opened = process.argv.includes('check') ? openSqlite(':memory:', { owner: true }) : undefined;
owner.onOrder('prepare', prepare);
owner.onOrder('go', start);
await owner.say({
  type: 'loaded',
  handlers: reported(),
  faults: listFaults(folder.faults),
  notes: notesOf(folder.handlers),
});

/** Beside the `run` at work: what fails here has replaced nothing. */
async function prepare(): Promise<void> {
  const store = opened ?? open(loadConfig(env));
  const at = (file: string): Promise<void> => owner.say({ type: 'at', file, stage: 'setup' });
  try {
    // A second time where it is only tried: it must not mind what the first has made.
    for (let times = opened ? 2 : 1; times > 0; times--) await setUpHandlers(folder, { store, courses, onFile: at });
  } catch (error) {
    await giveUp([`the set-ups of handlers cannot be tried: ${describe(error).message}`]);
  }
  store.close();
  // What they left unawaited comes up now.
  await settled();
  folder.over = true;
  await owner.say({ type: 'prepared', handlers: reported(), faults: listFaults(folder.faults) });
}

function reported(): LoadedHandler[] {
  return [...readyOf(folder).values()].map(({ name, retry, laneHoldMs }) => ({ name, retry, laneHoldMs }));
}

function open(config: Config): Store {
  return openSqlite(config.storePath, { synchronous: 'NORMAL', busyMs: BUSY_MS });
}

async function start({ boot }: Orders): Promise<void> {
  const config = loadConfig(env);
  const log = createLog(solo ? 'run-solo' : 'run', { level: config.LOG_LEVEL, format: config.LOG_FORMAT });
  said.log = log;
  folder.over = true;
  const store = open(config);
  const ready = readyOf(folder);
  const handlers = [...ready.values()];
  if (inspectAt !== undefined) {
    // Now, when no older `run` holds the port. A breakpoint may last longer than an attempt.
    openInspector(Number(inspectAt), '127.0.0.1');
    for (const handler of handlers) handler.timeoutMs = DAY_MS;
  }
  const options = {
    store,
    handlers,
    files: {
      of: new Map([...ready].map(([file, { name }]) => [name, file])),
      broken: [...without, ...folder.faults.keys()],
    },
    serviceFor: serviceOf({ config, clock, log }),
    clock,
    log,
    boot,
    concurrency: config.RUN_CONCURRENCY,
    windowMs: config.ORDER_WINDOW_MS,
    tellsWhy: throwaway,
    courses,
    onLaneFault: ({ name }: Loaded) => void retryWhileBusy(() => store.note({ [`lane_faults.${name}`]: 1 })),
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
  owner.onWake(() => runner.wake());
  owner.onBeat(async () => {
    await store.beat({ role: 'run', ...owner.self, boot }, clock.now());
    await store.note({}, runner.facts());
  });
  process.once(
    'SIGTERM',
    () => void runner.drain(throwaway ? THROWAWAY_DRAIN_MS : DRAIN_MS).then(() => process.exit(EXIT.done)),
  );
  // Where NODE_COMPILE_CACHE names a folder, the next start takes half the time, the first one too.
  if (throwaway) flushCompileCache();
  for (const { name, ...handler } of handlers)
    for (const { type, nearest } of unknownTypes(handler))
      log.warn(
        { handler: name, type, ...(nearest && { nearest }) },
        'on names a type that src/events.ts does not know: a slip, or one to add there',
      );
  if (handlers.length === 0) log.warn('no handlers: events are stored and wait for nobody');
  await owner.say({ type: 'ready' });
}

/** Those without a fault, by their files. */
function readyOf({ handlers, faults }: LoadedFolder): Map<string, Loaded> {
  return new Map([...handlers].filter(([file]) => !faults.has(file)));
}

/** In dev, what strangers wrote is the developer's own. */
function whyOf(error: unknown): { why?: string } {
  return throwaway ? { why: describe(error).message } : {};
}

function valueOf(name: string): string | undefined {
  return process.argv.find((arg) => arg.startsWith(`${name}=`))?.slice(name.length + 1);
}

async function giveUp(faults: string[]): Promise<never> {
  await owner.say({ type: 'faults', faults });
  process.exit(EXIT.configuration);
}
