// The process that runs handlers: it loads files, takes over from its predecessor, and works in turns until stopped.
// In a role for suspects it runs only tasks whose process died, one at a time, and ends when there are none.
import { AsyncLocalStorage } from 'node:async_hooks';
import { url as inspectorUrl } from 'node:inspector';
import { setPriority } from 'node:os';
import { systemClock as clock } from '../base/clock.ts';
import { EXIT, loggable } from '../base/errors.ts';
import { createLog } from '../base/log.ts';
import { loadConfigOfRun } from '../config.ts';
import { say, type RunArgs } from '../processes/channel.ts';
import { beginChild, onOrders } from '../processes/child.ts';
import { createService } from '../service/service.ts';
import type { TurnResult } from '../store/work.ts';
import { openStore } from '../operations/store/open.ts';
import { createReruns } from '../operations/store/reruns.ts';
import type { Planner } from './fan-out.ts';
import { loadHandlers, type Loaded } from './load.ts';
import { Runner } from './runner.ts';
import { setUp } from './setup.ts';
import { traceErrors, type Scope } from './stray.ts';

/** A process for suspects ends after this time without a suspect. It waits, because often more deaths follow. */
const IDLE_MS = 15_000;
/** At a stop, running attempts get this long. It must be below STOP_MS in processes/processes.ts. */
const DRAIN_MS = 7_500;

let suspects = 0;
beginChild(() => suspects);
const args = JSON.parse(process.argv[2] ?? '') as RunArgs;
const isLive = args.role === 'live';
// Answers and live work come first.
if (!isLive) setPriority(5);
const config = loadConfigOfRun(process.env);
const log = createLog(isLive ? 'run' : args.role, config.LOG_LEVEL);
const scopes = new AsyncLocalStorage<Scope>();
traceErrors({ scopes, log });
let beganLast: Loaded | undefined;
let idleSince = clock.monotonic();

const { handlers, files } = await loadHandlers(config.handlersDir, {
  replay: config.API_KEY !== undefined,
  without: args.without,
  scopes,
  onFile: (file) => say({ type: 'loading', file }),
});
// While a developer is at a breakpoint, the attempt must not time out.
if (inspectorUrl() !== undefined) for (const handler of handlers) handler.timeoutMs = 86_400_000;
const { store, db } = await openStore(config, args);
const reruns = createReruns(db, clock);
const { boot, ...judged } = await store.work.begin(args.role, args.restart);
if (judged.suspects > 0)
  log.warn(judged, 'tasks were running when their process died: those that are not dead letters run again, each alone');
const ids = await register();
const { API_KEY: apiKey, API_BASE_URL: baseUrl, PAID_OPERATIONS: paying } = config;
const callsPerMinute = Math.ceil((config.API_CALLS_PER_MINUTE * 5) / 6);

const runner = new Runner({
  store: store.work,
  clock,
  log,
  boot,
  careful: args.restart,
  handlers: new Map(handlers.flatMap((one) => (ids.has(one.name) ? [[ids.get(one.name) ?? 0, one]] : []))),
  windowMs: config.ORDER_WINDOW_MS,
  places: config.RUN_CONCURRENCY,
  suspects: !isLive,
  ...(isLive && { reruns: rerun }),
  scopes,
  serviceFor: createService({ apiKey, baseUrl, paid: paying === 'allow', callsPerMinute, clock }),
  onTurn,
  onBegin,
});
onOrders({ wake: () => runner.wake(), stop });
for (const { fault } of isLive ? files : [])
  if (fault !== null) log.error({ fault }, 'a handler is left out; the others work');
if (handlers.length === 0 && isLive) log.warn('no handlers: events are stored, but nothing handles them');
if (isLive) log.info({ handlers: files.flatMap((one) => (one.fault === null ? one.name : [])) }, 'handlers are loaded');
await say({ type: 'ready' });

async function rerun(planner: Planner, spare: number[]): Promise<boolean> {
  const page = await reruns.page(spare);
  if (!page) return false;
  const { tasks, passed } = planner.again(page.handler, page.events);
  await reruns.apply(boot, { ...page, events: page.events.slice(0, passed) }, tasks);
  return true;
}

/** The live process sets up the handlers' tables, and registers the handlers. Returns their ids by name. */
async function register(): Promise<Map<string, number>> {
  if (!isLive) {
    const { handlers: rows } = await store.work.look([]);
    return new Map(rows.map(({ id, name }) => [name, id]));
  }
  for (const file of files) {
    const handler = handlers.find((one) => one.file === file.file);
    if (!handler || file.fault !== null) continue;
    await say({ type: 'loading', file: file.file });
    file.fault = await setUp(handler, store.work, scopes, (ms) => say({ type: 'longer', ms }));
  }
  return store.work.register(files, args.newest, boot);
}

function onTurn(result: TurnResult): void {
  const isNew = result.suspects > suspects;
  ({ suspects } = result);
  if (isNew) void say({ type: 'alive', rss: 0, suspects });
  if (result.held) void say({ type: 'wake' });
  if (result.claims.length > 0 || isLive) idleSince = clock.monotonic();
  else if (clock.monotonic() - idleSince > IDLE_MS && runner.isIdle()) void stop();
}

/** Tells the main process before the handler can block this process. */
function onBegin(handler: Loaded): void {
  if (handler === beganLast) return;
  beganLast = handler;
  void say({ type: 'began', handler: `${handler.name} (${handler.file})` });
}

async function stop(): Promise<void> {
  idleSince = Infinity;
  try {
    await runner.drain(DRAIN_MS);
  } catch (error) {
    log.error(loggable(error), 'the outcomes of the last attempts could not be written');
  }
  process.exit(EXIT.done);
}
