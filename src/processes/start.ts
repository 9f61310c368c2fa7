// The main process: it takes the store, answers deliveries, and watches the processes beside it.
import { flushCompileCache } from 'node:module';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock as clock } from '../base/clock.ts';
import { EXIT } from '../base/errors.ts';
import { createLog } from '../base/log.ts';
import { startLoop } from '../base/loop.ts';
import { ConfigError, loadConfig, readEnv, type Config } from '../config.ts';
import { Processes } from './processes.ts';
import { createReceiver } from '../receive/receiver.ts';
import { listen } from '../receive/server.ts';
import { takeStore, type Taken } from '../store/sqlite/open.ts';
import { StoreError } from '../store/store.ts';
import { VERSION as version } from '../version.ts';

const take = async ({ storePath: path, DATABASE_URL: url }: Config): Promise<Taken> =>
  path === null ? (await import('../store/postgres/open.ts')).takePostgres(url) : takeStore(path);

const TICK_MS = 1_000;
/** At a stop the port stays open for at least this long, so that a proxy sees that /readyz fails. */
const NOTICE_MS = 500;
/** At a stop, requests get this long to end, and so does the last write to the store. */
const DRAIN_MS = 1_000;

const REPLACED =
  'the file of the store was replaced or deleted: deliveries get 503. Stop the kit, then put a backup in its place with npx kit restore';

async function start(): Promise<void> {
  let env = readEnv();
  const config = loadConfig(env);
  const log = createLog('receive', config.LOG_LEVEL);
  const taken = await take(config);
  let newest = await taken.newest();
  let [isReplaced, stopping] = [false, false];
  const processes = new Processes({ env: () => env, newest: () => newest, log });
  const wiring = { onCommit: () => processes.wake(), isReplaced: () => isReplaced };
  const receiver = createReceiver({ ...taken, config, clock, log, ...wiring });
  await listen(receiver.server, 'PORT', config.PORT, config.HOST);
  processes.start();
  flushCompileCache();

  startLoop(() => {
    processes.tick();
    if (!isReplaced && taken.check() === 'replaced') {
      isReplaced = true;
      log.fatal(REPLACED);
      void processes.stop(0);
    }
    receiver.set('kit', { at: clock.now(), version, processes: { receive: 'up', ...processes.states() } });
    if (!isReplaced) void receiver.flush();
    return TICK_MS;
  });

  async function stop(signal: string): Promise<void> {
    if (stopping) process.exit(EXIT.failed);
    stopping = true;
    log.info({ signal }, 'stopping: deliveries are taken until handlers have ended');
    receiver.stopSoon();
    await Promise.all([processes.stop(), sleep(NOTICE_MS)]);
    await Promise.race([receiver.drain(), sleep(DRAIN_MS)]);
    if (config.storePath !== null) receiver.set('kit', { at: 0 }); // On PostgreSQL, other kits may run.
    await Promise.race([receiver.flush(), sleep(DRAIN_MS)]);
    await taken.release();
    process.exit(EXIT.done);
  }

  async function reload(): Promise<void> {
    if (stopping || isReplaced) return;
    try {
      const [changed, now] = [readEnv(), await taken.newest()];
      receiver.useSecrets(loadConfig(changed));
      [env, newest] = [{ ...changed, DATABASE_URL: env['DATABASE_URL'] }, now];
    } catch (error) {
      if (!(error instanceof ConfigError) && !(error instanceof StoreError)) throw error;
      return log.error({ why: error.message }, 'not reloaded: the configuration and the handlers stay as they were');
    }
    await processes.reload();
    log.info('reloaded; changes of DATABASE_URL, LOG_LEVEL and the public listener need a restart');
  }
  onSignals(stop, reload);
  const { port } = receiver.server.address() as AddressInfo;
  log.info(
    { pid: process.pid, port, path: config.WEBHOOK_PATH, store: config.storePath ?? 'PostgreSQL' },
    'ready for deliveries',
  );
}

function onSignals(stop: (signal: string) => Promise<void>, reload: () => Promise<void>): void {
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => void stop(signal));
  // The program that started the kit is gone.
  process.once('disconnect', () => void stop('disconnect'));
  // One reload runs after another, because two at once would each start processes.
  let reloading = Promise.resolve();
  process.on('SIGHUP', () => void (reloading = reloading.then(reload)));
}

/** Faults that a person must correct end with exit code 78, so that a service manager does not start the kit again. */
async function refuse(error: unknown): Promise<never> {
  if (!(error instanceof ConfigError) && !(error instanceof StoreError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exit(error instanceof StoreError && error.mayPass ? EXIT.unreachable : EXIT.configuration);
}

await start().catch(refuse);
