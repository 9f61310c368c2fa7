// The process `keep`: fetches what webhooks missed, prunes, makes checkpoints, samples and backups, raises alarms, and
// serves the page and the API.
import type { Server } from 'node:http';
import { systemClock as clock } from '../base/clock.ts';
import { describe, EXIT } from '../base/errors.ts';
import { createLog, createThrottle } from '../base/log.ts';
import { startLoop } from '../base/loop.ts';
import { loadConfig } from '../config.ts';
import { openStore, tell } from '../operations/store/open.ts';
import type { Reconciler } from '../reconcile/reconciler.ts';
import { startOps } from '../ops/server.ts';
import { say } from '../processes/channel.ts';
import { beginChild, onOrders } from '../processes/child.ts';
import { StoreError } from '../store/store.ts';
import { createAlarms } from './alarms.ts';
import { createBackups } from './backups.ts';
import { createBallast, makeRoom } from './ballast.ts';
import { createCheckpoints } from './checkpoint.ts';
import type { Step } from './keep.ts';
import { createPruning } from './prune.ts';
import { createSamples } from './samples.ts';

/** The wait after a fault of the store. */
const FAULT_MS = 1_000;
/** An instance that does not lead asks again after this time. */
const FOLLOW_MS = 5_000;
/** The wait before the ops port is tried again. */
const OPS_MS = 10_000;

beginChild();
const config = loadConfig(process.env);
const log = createLog('keep', config.LOG_LEVEL);
const path = config.storePath;
const throttle = createThrottle(clock);
const { store, db } = await openStore(config, { reader: true });
const parts = { db, config, log };

/** Every fault of the store is taken as temporary. If it lasts, `receive` reports it. */
function recover(error: unknown): number {
  if (!(error instanceof StoreError)) throw error;
  if (error.code === 'full' && path !== null) makeRoom(path);
  if (throttle(error.code)) log.warn({ code: error.code, why: error.message }, 'the store fails: trying again');
  return FAULT_MS;
}

let reconciler: Reconciler | undefined;
if (!config.API_KEY)
  await tell(db, 'reconcile', { state: 'off', lastAt: null, reason: 'API_KEY is not set', recovered: 0 });

/** Starts to read history if this instance leads, and stops if it no longer does. */
async function reconcile(): Promise<number> {
  if (!(await db.leads())) {
    await reconciler?.stop();
    reconciler = undefined;
  } else if (config.API_KEY && !reconciler) {
    const { Reconciler: Reading } = await import('../reconcile/reconciler.ts');
    reconciler = new Reading({ ingest: store.ingest, db, config, clock, log });
  }
  return FOLLOW_MS;
}

const ofFile = path === null ? [] : [createCheckpoints(path, db), createBallast(path)];
const ofOne = [createPruning(parts), createSamples(parts), createAlarms(parts), createBackups(parts)];
const alone =
  (step: Step): Step =>
  async () =>
    (await db.leads()) ? step() : FOLLOW_MS;
let ops: Server | undefined;
/** The previous `keep` may still hold the port. */
async function openOps(): Promise<number> {
  ops ??= await startOps(parts).catch((error: unknown) => {
    log.error({ why: describe(error).message }, 'the ops port cannot be opened: there is no page and no API');
    return undefined;
  });
  return ops ? Infinity : OPS_MS;
}
const loops = [...ofFile, ...ofOne.map(alone), reconcile, openOps].map((step) => startLoop(step, recover));

async function stop(): Promise<void> {
  ops?.close();
  await Promise.all([reconciler?.stop(), ...loops.map((loop) => loop.stop())]);
  store.close();
  process.exit(EXIT.done);
}

onOrders({ wake: () => reconciler?.wake(), stop });
await say({ type: 'ready' });
