// The main process, `receive`. It owns the store, accepts deliveries, starts and ends the other processes, and handles
// signals. receive/receiver.ts puts the receiver itself together.
import './base/node/checked.js';
import { onReload } from './processes/reload.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AddressInfo } from 'node:net';
import { systemClock as clock } from './base/clock.ts';
import { EXIT, loggable } from './base/errors.ts';
import { createLog } from './base/log.ts';
import { startLoop } from './base/loop.ts';
import { filesForAll } from './base/secrets.ts';
import { ConfigError, loadConfig, readEnv, type Config } from './config.ts';
import type { Fault } from './processes/child.ts';
import { createChildren, STOP_MS } from './processes/children.ts';
import { createLeadership } from './processes/leadership.ts';
import type { ReceiveModule } from './receive/module.ts';
import * as registered from './receive/modules.ts';
import { createReceiver } from './receive/receiver.ts';
import { boundConnections, defaultConnections } from './receive/connections.ts';
import { createReload, serially } from './receive/reload.ts';
import { createReceiveServer, drainServer, listen } from './receive/server.ts';
import { orNone } from './store/or-none.ts';
import { siteOf, type Replaced } from './store/open.ts';
import { createDropLog, retryWhileBusy } from './store/retry-while-busy.ts';
import { START_MS, type Taken } from './store/site.ts';
import { StoreError, type Store } from './store/store.ts';

const modules = Object.values<ReceiveModule>(registered);
/**
 * At a stop, the server starts to drain after this time at the latest. Handlers get less time; deliveries in flight get
 * the rest of the stop.
 */
const DRAIN_MS = 7_500;
/** At a stop, the port stays open for at least this long, so that a proxy can poll /readyz several times. */
const NOTICE_MS = 500;
/** After STOP_MS, a store that does not answer gets this long until the process ends without it. */
const CLOSE_MS = 1_000;
/** If a newer kit has changed the store, deliveries in flight get this long. */
const OLDER_MS = 2_000;
const MIGRATED = 'the store was migrated to the schema of this kit';
const CREATED = 'a new, empty store was created; if there was one before, see its disk';
/** A reload goes on even if the store fails. Its outcome is written within this time, or not at all. */
const TELL_MS = 5_000;
const LOG_LOST =
  'the log of the store (-wal) was deleted or emptied after the kit was killed: events that it accepted last may be missing; replay fetches them if API_KEY is set, else send them again or npx kit restore a backup';

/** Only the demo and dev pass arguments: --sandbox, and --inspect=<port> for `run`. */
const args = process.argv.slice(2);
const sandbox = args.includes('--sandbox');
const began = performance.now();
const first = readEnv();
let env = first;

let config: Config | undefined;
const faults: string[] = [];
try {
  config = loadConfig(env);
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  faults.push(...error.faults);
}

let ownership: Taken | undefined;
/** Settles when the content of a replaced store has been copied. */
let saving: Promise<void> | undefined;
const log = createLog('receive', { level: config?.LOG_LEVEL ?? 'info', format: config?.LOG_FORMAT ?? 'json' });
for (const file of filesForAll(first))
  log.warn({ file }, 'every user of this machine can read this file with secrets: take that right away, chmod o-r');
const leadership = createLeadership({
  store() {
    if (!ownership) throw new Error('the store is not open yet');
    return ownership.store;
  },
  children: () => children,
  onNewer: (error) => void onNewer(error),
  log,
});
/** Until the receiver listens, the start is refused. */
let onNewer: (error: StoreError) => Promise<void> = refuse;
const children = createChildren({
  args,
  env: () => env,
  store: () => ownership?.store,
  standing: () => leadership.standing(),
  log,
});

faults.push(...(await children.load()));
if (!config || faults.length > 0) await refuse(new ConfigError(faults));
else await start(config).catch(refuse);

async function start(given: Config): Promise<void> {
  const store = await takeStore(given);
  for (const { check } of modules) await check?.(given);
  const work = async (): Promise<void> => {
    await leadership.join();
    const late = await children.start();
    if (late.length > 0) throw refusalOf(late);
  };
  // While a store is moved, only deliveries may change it.
  if (!ownership?.move) await work();

  const stopping = { draining: false };
  const options = { config: given, store, children, modules, clock, log };
  const receiver = await createReceiver({ ...options, draining: () => stopping.draining });
  const server = createReceiveServer(receiver.app, (status) => receiver.unreadable(status));
  const wasFull = boundConnections(server, given.MAX_CONNECTIONS ?? defaultConnections());
  await listen(server, 'PORT', given.PORT, given.HOST);
  await retryWhileBusy(receiver.beat, START_MS);
  const looking = startLoop(() => receiver.look(wasFull()));
  children.startRest();
  if (ownership?.move) void moveStore(ownership.move, work).catch(refuse);
  else leadership.follow();

  async function stop(signal: string): Promise<void> {
    if (stopping.draining) return;
    const stopBy = performance.now() + STOP_MS + CLOSE_MS;
    stopping.draining = true;
    log.info({ signal }, 'stopping: deliveries are accepted until handlers have ended');
    // Another instance takes at once what no handler of this one is at work on. If the store cannot be reached, what a
    // process left behind is given back at the next start instead.
    const ended = within(Promise.all([children.stop(), leadership.resign()]), STOP_MS + CLOSE_MS / 2);
    // The port stays open until handlers have ended and a proxy has seen /readyz.
    const noticed = Promise.all([ended, sleep(sandbox ? 0 : NOTICE_MS)]);
    const drained = within(noticed, DRAIN_MS).then(() => drainServer(server, receiver.waiting));
    await Promise.all([ended, within(Promise.all([drained, saving]), STOP_MS)]);
    const closed = looking
      .stop()
      .then(() => receiver.stop())
      .then(() => leadership.stop());
    await within(closed, stopBy - performance.now());
    ownership?.release();
    log.info('stopped');
    process.exit(EXIT.done);
  }

  onNewer = (error) => endOlder(error, stopping, () => drainServer(server, receiver.waiting));
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => void stop(signal));
  if (sandbox) process.on('disconnect', () => void stop('the parent process ended'));
  const reload = createReloads(store, (changed) => receiver.useConfig(changed));
  onReload(
    () => void reload(),
    () => void stop('SIGHUP'),
  );

  const { port } = server.address() as AddressInfo;
  const ms = Math.round(performance.now() - began);
  const about = { path: given.WEBHOOK_PATH, store: siteOf(given.storeUrl).name, handlers: children.handlers() };
  log.info({ pid: process.pid, port, ...about, ms }, 'ready for deliveries');
}

/**
 * Ends without a further write. Other instances find that this one gives no sign of life, and give its tasks back. A person
 * must update this clone first, so the exit code tells systemd not to start it again.
 */
async function endOlder(
  { message }: StoreError,
  stopping: { draining: boolean },
  drain: () => Promise<void>,
): Promise<void> {
  if (stopping.draining) return;
  stopping.draining = true;
  log.fatal(`stopping: ${message}`);
  await within(Promise.all([children.kill(), drain()]), OLDER_MS);
  process.exit(EXIT.configuration);
}

async function takeStore({ storeUrl, MOVE_FROM }: Config): Promise<Store> {
  ownership = await siteOf(storeUrl, MOVE_FROM).take({
    onReplaced: (replaced) => void (saving = onReplaced(replaced)),
    onDropped: createDropLog(log, clock),
    onMigrated: ({ from, to, copy }) => log.info({ from, to, copy }, from > 0 ? MIGRATED : CREATED),
  });
  if (ownership.logLost) log.error(LOG_LOST);
  return ownership.store;
}

/** Moves the store to where DATABASE_URL says, and then begins to work. If that fails, the old store stays in use. */
async function moveStore(move: NonNullable<Taken['move']>, work: () => Promise<void>): Promise<void> {
  log.info('the store is being moved; deliveries are accepted, handlers and reconciliation pause');
  const { events, heldMs } = await move(({ rows, of }) =>
    log.info(`the store is being moved: ${rows} of ${of} rows are copied`),
  );
  const held = `deliveries waited ${Math.round(heldMs)} ms`;
  log.info(`the store was moved, with ${events} events; ${held}. Take MOVE_FROM out of the configuration`);
  await work();
  // It was started before this instance had joined.
  await children.restartKeep();
  leadership.follow();
}

/** Deliveries get 503 until a person has restored a store and started the kit again. */
async function onReplaced({ error, copy }: Replaced): Promise<void> {
  log.fatal(error.message);
  await children.kill();
  const saved = await copy;
  if (saved)
    log.fatal({ copy: saved }, 'the deliveries accepted before are in this copy: npx kit restore can put it in place');
  else log.fatal('the deliveries accepted before could not be copied: they are lost with the old file');
}

function createReloads(store: Store, useConfig: (changed: Config) => void): () => Promise<void> {
  let asked = 0;
  const reload = createReload({
    first,
    children,
    log,
    use(changed, changedEnv) {
      useConfig(changed);
      env = changedEnv;
    },
    async tell(outcome) {
      const reloaded = JSON.stringify({ asked, ...outcome });
      await orNone(() => retryWhileBusy(() => store.state.note({}, { reloaded }), TELL_MS));
    },
  });
  return serially(async () => {
    if (saving)
      return log.error('SIGHUP ignored: the store was replaced or deleted; restart the kit after npx kit restore');
    asked = (await orNone(() => retryWhileBusy(() => store.state.get('reload_asked'), TELL_MS))) ?? 0;
    await reload();
  });
}

async function within(work: Promise<unknown>, limitMs: number): Promise<void> {
  await Promise.race([work, sleep(limitMs)]);
}

function refusalOf(late: Fault[]): Error {
  const words = late.map(({ fault }) => fault);
  if (late.some(({ passes = false }) => !passes)) return new ConfigError(words);
  return new StoreError('unwritable', words.join('\n'), undefined, true);
}

async function refuse(error: unknown): Promise<never> {
  if (!(error instanceof ConfigError) && !(error instanceof StoreError)) {
    log.fatal(loggable(error), 'cannot start');
    throw error;
  }
  const isConfiguration =
    error instanceof ConfigError || ['unwritable', 'newer', 'replaced', 'missing'].includes(error.code);
  process.stderr.write(`${error.message}\n`);
  await children.stop(1_000);
  // Otherwise other instances would report it as lost.
  if (ownership) await within(leadership.stop(), 1_000);
  if (error instanceof StoreError && error.passes) process.exit(EXIT.unreachable);
  process.exit(isConfiguration ? EXIT.configuration : EXIT.failed);
}
