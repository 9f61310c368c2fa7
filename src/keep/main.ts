// The `keep` process: fetches what webhooks missed, removes what is old, moves the log, raises alarms, and shows it all
// on the ops port. It never runs a handler and never accepts a delivery.
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { systemClock as clock } from '../base/clock.ts';
import { loadConfig, readEnv } from '../config.ts';
import { EXIT, loggable } from '../base/errors.ts';
import { createLog, createSeldom } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import { createOpsServer } from '../ops/server.ts';
import { joinOwner, type Orders } from '../processes/channel.ts';
import { freeBytesOf } from '../store/sqlite/folder.ts';
import { openLater } from '../store/sqlite/open-later.ts';
import { openSqlite, type OpenOptions } from '../store/sqlite/open.ts';
import { StoreError } from '../store/store.ts';
import { createAccounts } from './account.ts';
import { createAlarms } from '../alarms/alarms.ts';
import { createCheckpointer } from './checkpoint.ts';
import { createPruner } from './prune.ts';
import { startRecovery, type Recovery } from '../reconcile/start.ts';
import { createView } from './view.ts';

const ALARMS_MS = 2_000;
const TELL_MS = 1_000;
const SAMPLE_MS = 10_000;

const owner = joinOwner();
owner.onOrder('go', start);
await owner.say({ type: 'loaded', handlers: [], faults: [], notes: [] });

async function start({ boot }: Orders): Promise<void> {
  const config = loadConfig(readEnv());
  const log = createLog('keep', { level: config.LOG_LEVEL, format: config.LOG_FORMAT });
  const seldom = createSeldom(clock);
  const options: OpenOptions = {
    busyMs: 100,
    onDropped(what, error) {
      const more = seldom(`dropped ${what}`);
      if (more) log.error({ what, ...loggable(error), ...more }, 'cannot be written beside deliveries, and is dropped');
    },
  };
  const store = openLater(config.storePath, () => openSqlite(config.storePath, options));
  const recover = (error: unknown): number => {
    if (!(error instanceof StoreError)) throw error;
    if (error.code === 'busy') return 50;
    const more = seldom('store');
    if (more) log.error({ code: error.code, ...more }, 'the store cannot be written; tried again');
    return 1_000;
  };

  const pruner = createPruner({
    store,
    clock,
    retentionDays: config.RETENTION_DAYS,
    payloadDays: config.PAYLOAD_RETENTION_DAYS,
  });
  const freeBytes = (): number => freeBytesOf(config.storePath);
  const bytesOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const stopping = new AbortController();
  const wake = (): void => void owner.say({ type: 'wake' });
  const accounts = createAccounts(clock);
  owner.onAccount((account) => accounts.take(account));
  const alarms = createAlarms({
    store,
    clock,
    log,
    alertUrl: config.ALERT_URL,
    freeBytes,
    signal: stopping.signal,
    accounts,
    onHeard: () => recovery?.now(),
    onDoubt: () => recovery?.now(),
  });
  let recovery: Recovery | undefined;
  const beginRecovery = async (): Promise<void> => {
    const silent = (): boolean => alarms.silent();
    recovery = await startRecovery({ config, store, clock, log, recover, onEvents: wake, silent });
    // Commands that see this beat rely on the state of reconciliation, so the beat starts after it is written.
    owner.onBeat(() => store.beat({ role: 'keep', ...owner.self, boot }, clock.now()));
  };
  owner.onWake(() => recovery?.prove());
  // A loop of its own: ALERT_URL may take its time, and nothing waits for it.
  const telling = startLoop(async () => {
    await alarms.tell();
    return TELL_MS;
  });
  const loops: Pick<Loop, 'stop'>[] = [
    startLoop(createCheckpointer(store).step, recover),
    startLoop(pruner.step, recover),
    startLoop(async () => {
      await alarms.step();
      telling.wake();
      return ALARMS_MS;
    }),
    startLoop(async () => {
      await store.sample(clock.now());
      return SAMPLE_MS - (clock.now() % SAMPLE_MS);
    }, recover),
    telling,
  ];

  const server = createOpsServer({
    config,
    store,
    view: createView({ store, account: () => accounts.latest(), up: () => alarms.up() }),
    clock,
    log,
    disk: () => ({
      storeBytes: bytesOf(config.storePath),
      logBytes: bytesOf(`${config.storePath}-wal`),
      freeBytes: freeBytes(),
    }),
    onChange: wake,
  });
  server.on('error', (error: NodeJS.ErrnoException) => {
    log.fatal({ code: error.code, port: config.OPS_PORT }, 'the ops port cannot be opened: set OPS_PORT to a free one');
    process.exit(EXIT.failed);
  });
  server.listen(config.OPS_PORT, config.OPS_HOST);
  await once(server, 'listening');
  // Not awaited: it needs the store, and neither the ops port nor alarms may wait for that.
  void beginRecovery();
  process.once('SIGTERM', () => {
    stopping.abort();
    server.close();
    server.closeAllConnections();
    const stopped = [...loops, ...(recovery ? [recovery] : [])].map((loop) => loop.stop());
    void Promise.all(stopped).then(() => process.exit(EXIT.done));
  });
  await owner.say({ type: 'ready' });
}
