// The `run` process loads the handlers, waits for the order `go`, and works until it is stopped. With `solo` it runs
// isolated tasks, one at a time, and ends when none is left. With `check` it only tries the handler files, and a kit
// may be running beside it.
import { AsyncLocalStorage } from 'node:async_hooks';
import { open as openInspector } from 'node:inspector';
import { flushCompileCache } from 'node:module';
import { setImmediate as settled } from 'node:timers/promises';
import { ConfigError, loadConfig, loadConfigOfRun, type Config } from '../config.ts';
import { systemClock } from '../base/clock.ts';
import { describe, EXIT, loggable } from '../base/errors.ts';
import { createLog, createThrottle, type Logger } from '../base/log.ts';
import { joinOwner, type FileFault, type LoadedHandler, type Orders } from '../processes/channel.ts';
import { clockOf } from '../store/clock.ts';
import { IN_MEMORY, open } from '../store/open.ts';
import { StoreError, type Store } from '../store/store.ts';
import { orNone } from '../store/or-none.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { runIsolated } from './isolation.ts';
import { lineOf, loadHandlers, notesOf, unknownTypes, unknownWords, type Loaded } from './load-handlers.ts';
import { lockGlobals } from './lock-globals.ts';
import * as modules from './modules.ts';
import type { RunModules, RunOptions, ServiceFor } from './runner-options.ts';
import { startRunner } from './runner.ts';
import { setUpHandlers } from './set-up-handlers.ts';
import { traceErrors, traceFetch, type Scope } from './stray-errors.ts';

/** The limit of a drain. It is part of the 9 s that a stop may take. */
const DRAIN_MS = 7_000;
/** The limit is shorter in `npm run dev`: a developer who has saved a file should not wait for old attempts. */
const SANDBOX_DRAIN_MS = 200;
const DAY_MS = 86_400_000;
const REGISTER_MS = 600_000;
/**
 * How long a call to the store may block this process while another process holds the lock. Then the call fails, and is
 * retried without blocking.
 */
const BUSY_MS = 20;
const MORE_RAN = 'more steps of setup have run than this file has, as after a return to an older release';
/** How a handler ends this process, and what to do about it. */
const ENDS = {
  threw: 'an uncaught exception ends this process: catch it in the callback that throws',
  exited: 'a handler ends this process: throw an error instead',
};

const { serviceOf }: RunModules = modules;
const noService = (() => undefined) as unknown as ServiceFor;
const solo = process.argv.includes('solo');
const sandbox = process.argv.includes('--sandbox');
const inspectAt = valueOf('--inspect');
const without = JSON.parse(valueOf('--without') ?? '[]') as string[];
const scopes = new AsyncLocalStorage<Scope>();
const strays = createThrottle(systemClock, 10);
const owner = joinOwner();
// A copy, because handlers may change the environment.
const env = { ...process.env };
let log: Logger | undefined;
// With Node's 10 lines of a stack, the calls of a library may leave none for the handler.
Error.stackTraceLimit = 30;
traceFetch();
lockGlobals();
traceErrors({
  scopes,
  onStray(scope, error, home) {
    const more = strays('stray');
    const words = scope.handler
      ? 'a handler left a rejection unhandled, after it had ended: await every promise'
      : 'a rejection is unhandled: await every promise';
    if (more) log?.error({ ...scope, ...thrown(error, home), ...more }, words);
  },
  onEnd(cause, error) {
    const { how, ...fields } = cause;
    log?.fatal({ ...fields, ...(error !== undefined && thrown(error, cause.at)) }, ENDS[how]);
    void owner.say({ type: 'exit cause', cause });
  },
});
const { handlersDir } = loadConfig(env, { only: ['HANDLERS_DIR'] });
// True: API_BASE_URL and API_KEY are set, which replay needs. The main process reports faults in their values.
const replay = Boolean(env['API_BASE_URL'] && (env['API_KEY'] ?? env['API_KEY_FILE']));
const onFile = (file: string): Promise<void> => owner.say({ type: 'at', file, stage: 'load' });
const folder = await loadHandlers(handlersDir, { replay, without, scopes, onFile }).catch((error: unknown) =>
  giveUp(error instanceof ConfigError ? error.faults : [String(error)]),
);
const trial = process.argv.includes('check') ? open(IN_MEMORY, { owner: true }) : undefined;
owner.onOrder('prepare', prepare);
owner.onOrder('go', start);
await owner.say({ type: 'loaded', ...loaded(), notes: notesOf(folder.handlers) });

/** Runs the setups while the old `run` still works. If a setup fails, the old `run` is not replaced. */
async function prepare(): Promise<void> {
  const store = trial ?? openFor(loadConfigOfRun(env));
  const at = (file: string): Promise<void> => owner.say({ type: 'at', file, stage: 'setup' });
  const notes = notesOf(folder.handlers);
  const onMore = (fields: { handler: string }): void => {
    logOf(loadConfigOfRun(env)).warn(fields, MORE_RAN);
    notes.push(`${fields.handler}: ${MORE_RAN}`);
  };
  try {
    // With `check` each setup runs twice, because a setup must accept the tables that it created before.
    for (let times = trial ? 2 : 1; times > 0; times--)
      await setUpHandlers(folder, { store, scopes, onFile: at, onMore });
    notes.push(...(await goneIn(store)));
  } catch (error) {
    const passes = error instanceof StoreError && error.passes;
    await giveUp([`the setups of handlers cannot be tried: ${describe(error).message}`], passes);
  }
  store.close();
  // Waits until rejections that the setups left unhandled have been reported.
  await settled();
  folder.over = true;
  await owner.say({ type: 'prepared', ...loaded(), notes });
}

async function start({ boot, instance }: Orders): Promise<void> {
  const config = loadConfigOfRun(env);
  log = logOf(config);
  folder.over = true;
  const store = openFor(config, instance);
  const ready = withoutFaults();
  const handlers = [...ready.values()];
  if (inspectAt !== undefined) {
    // The inspector opens only now, because an older `run` may have held its port before. Attempts get a day, because a
    // breakpoint may last longer than their time limit.
    openInspector(Number(inspectAt), '127.0.0.1');
    for (const handler of handlers) handler.timeoutMs = DAY_MS;
  }
  const options = {
    store: store.work,
    handlers,
    files: {
      of: new Map([...ready].map(([file, { name }]) => [name, file])),
      broken: [...without, ...folder.faults.keys()],
    },
    serviceFor: serviceOf?.({ config, store, clock: clockOf(store), log }) ?? noService,
    clock: clockOf(store),
    log,
    boot,
    concurrency: config.RUN_CONCURRENCY,
    windowMs: config.ORDER_WINDOW_MS,
    tellsWhy: sandbox,
    scopes,
    onLaneFault: ({ name }: Loaded) => void retryWhileBusy(() => store.state.note({ [`lane_faults.${name}`]: 1 })),
    onUnproven: () => void owner.say({ type: 'wake' }),
  };
  await (solo ? workAlone(options) : work(options, store));
}

async function workAlone(options: RunOptions): Promise<void> {
  const stop = new AbortController();
  owner.onStop(() => stop.abort());
  await owner.say({ type: 'ready' });
  await runIsolated(options, stop.signal);
  process.exit(EXIT.done);
}

async function work(options: RunOptions, store: Store): Promise<void> {
  const { handlers, boot } = options;
  const runner = await noteGone(options, store, () => startRunner(options));
  const names = handlers.map(({ name }) => name);
  const register = (): Promise<unknown> => noteGone(options, store, () => store.work.register(names, options.files));
  setInterval(() => void orNone(register), REGISTER_MS).unref();
  owner.onWake(() => runner.wake());
  store.onRing(() => runner.wake());
  owner.onBeat(async () => {
    await store.processes.beat({ role: 'run', ...owner.self, boot }, store.now());
    await store.state.note({}, runner.state());
  });
  const drain = (): Promise<void> => runner.drain(sandbox ? SANDBOX_DRAIN_MS : DRAIN_MS);
  owner.onStop(() => void drain().then(() => process.exit(EXIT.done)));
  // Saves compiled code for the next start, if NODE_COMPILE_CACHE names a folder.
  if (sandbox) flushCompileCache();
  for (const handler of handlers)
    for (const slip of unknownTypes(handler))
      options.log.warn({ handler: handler.name, ...slip, at: lineOf(slip, handler) }, unknownWords(slip));
  if (handlers.length === 0) options.log.warn('no handlers: events are stored, but nothing handles them');
  await owner.say({ type: 'ready' });
}

/** Reports handlers whose place is given up by this work: events that waited for them stay without their tasks. */
async function noteGone<Result>(options: RunOptions, store: Store, register: () => Promise<Result>) {
  const waiting = async () => (await orNone(() => store.read.status(store.now())))?.waiting ?? [];
  const before = await waiting();
  const result = await register();
  const left = before.length > 0 ? new Set((await waiting()).map(({ handler }) => handler)) : new Set();
  for (const { handler, since } of before)
    if (!left.has(handler) && !options.handlers.some(({ name }) => name === handler))
      options.log.warn(
        { handler, since },
        'this handler is gone, and events waited for it: if it comes back, npx kit rerun makes their tasks',
      );
  return result;
}

/** For people: handlers that no file has, while tasks wait for them. A broken file may have any of these names. */
async function goneIn(store: Store): Promise<string[]> {
  if (folder.faults.size > 0 || without.length > 0) return [];
  const names = [...folder.handlers.values()].map(({ name }) => name);
  const known = (await orNone(() => store.read.handlers(store.now()))) ?? [];
  return known
    .filter(({ name, waiting }) => waiting > 0 && !names.includes(name))
    .map(({ name, waiting }) => {
      const tasks = waiting === 1 ? '1 task waits' : `${waiting} tasks wait`;
      return `${name} is gone, ${tasks}: npx kit tasks move --from ${name} --to <name>`;
    });
}

function logOf({ LOG_LEVEL: level, LOG_FORMAT: format }: Config): Logger {
  return createLog(solo ? 'run-solo' : 'run', { level, format });
}

function openFor(config: Config, instance = 0): Store {
  return open(config.storeUrl, { synchronous: 'NORMAL', busyMs: BUSY_MS, instance });
}

function withoutFaults(): Map<string, Loaded> {
  return new Map([...folder.handlers].filter(([file]) => !folder.faults.has(file)));
}

function loaded(): { handlers: LoadedHandler[]; faults: FileFault[] } {
  const handlers = [...withoutFaults().values()].map(({ name, retry, laneHoldMs }) => ({ name, retry, laneHoldMs }));
  return { handlers, faults: [...folder.faults].map(([file, fault]) => ({ file, fault })) };
}

/** Log fields of an error. They include its message only in the sandbox, where all data are the developer's own. */
function thrown(error: unknown, file: string | null): object {
  const { name, message } = describe(error);
  return { ...loggable(error, file), ...(sandbox && { why: `${name}: ${message}` }) };
}

function valueOf(name: string): string | undefined {
  return process.argv.find((arg) => arg.startsWith(`${name}=`))?.slice(name.length + 1);
}

async function giveUp(faults: string[], passes = false): Promise<never> {
  await owner.say({ type: 'faults', faults, passes });
  process.exit(passes ? EXIT.unreachable : EXIT.configuration);
}
