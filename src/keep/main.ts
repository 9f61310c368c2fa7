// The `keep` process: fetches what webhooks missed, removes what is old, moves the log, raises alarms, and shows it all
// on the ops port. It never runs a handler and never accepts a delivery.
import { statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { systemClock as clock } from '../clock.ts';
import { loadConfig, readEnv } from '../config.ts';
import { EXIT } from '../errors.ts';
import { createLog, createSeldom } from '../log.ts';
import { startLoop, type Loop } from '../loop.ts';
import { createOpsServer } from '../ops/server.ts';
import { joinOwner, type Orders } from '../process.ts';
import { openSqlite } from '../store/sqlite/open.ts';
import { StoreError } from '../store/store.ts';
import { createAlarms } from './alarms.ts';
import { createCheckpointer } from './checkpoint.ts';
import { createPruner } from './prune.ts';
import { startRecovery } from './recovery.ts';

const DAY_MS = 86_400_000;
const ALARMS_MS = 2_000;
const SAMPLE_MS = 10_000;

const owner = joinOwner();
owner.onOrder('go', start);
await owner.say({ type: 'loaded', handlers: [], faults: [], notes: [] });

async function start({ boot }: Orders): Promise<void> {
  const config = loadConfig(readEnv());
  const log = createLog('keep', { level: config.LOG_LEVEL, format: config.LOG_FORMAT });
  const store = openSqlite(config.storePath, { retentionMs: config.RETENTION_DAYS * DAY_MS, busyMs: 100 });
  const seldom = createSeldom(clock);
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
  const freeBytes = (): number => {
    const { bavail, bsize } = statfsSync(dirname(config.storePath));
    return bavail * bsize;
  };
  const bytesOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const stopping = new AbortController();
  const wake = (): void => void owner.say({ type: 'wake' });
  const alarms = createAlarms({
    store,
    clock,
    log,
    alertUrl: config.ALERT_URL,
    freeBytes,
    signal: stopping.signal,
    onHeard: () => recovery?.now(),
    onDoubt: () => recovery?.now(),
  });
  const recovery = await startRecovery({
    config,
    store,
    clock,
    log,
    recover,
    onEvents: wake,
    silent: () => alarms.silent(),
  });
  owner.onWake(() => recovery?.prove());
  const loops: Pick<Loop, 'stop'>[] = [
    startLoop(createCheckpointer(store).step, recover),
    startLoop(pruner.step, recover),
    startLoop(async () => {
      await alarms.step();
      return ALARMS_MS;
    }, recover),
    startLoop(async () => {
      await store.sample(clock.now());
      return SAMPLE_MS - (clock.now() % SAMPLE_MS);
    }, recover),
    ...(recovery ? [recovery] : []),
  ];

  const server = createOpsServer({
    config,
    store,
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
  owner.onBeat(() => store.beat({ role: 'keep', ...owner.self, boot }, clock.now()));
  process.once('SIGTERM', () => {
    stopping.abort();
    server.close();
    server.closeAllConnections();
    void Promise.all(loops.map((loop) => loop.stop())).then(() => process.exit(EXIT.done));
  });
  await owner.say({ type: 'ready' });
}
