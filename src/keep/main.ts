// The `keep` process prunes the store and copies the WAL into its file. The process's modules fetch what webhooks
// missed, raise alarms, and show the state. It never runs a handler and never accepts a delivery.
import { systemClock } from '../base/clock.ts';
import { loadConfig, readEnv } from '../config.ts';
import { EXIT } from '../base/errors.ts';
import { createLog } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import { joinOwner, type Orders } from '../processes/channel.ts';
import { clockOf } from '../store/clock.ts';
import { openLater, siteOf } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import { createDropLog, createRecovery } from '../store/retry-while-busy.ts';
import { createAccounts } from './account.ts';
import { createCheckpointer } from './checkpoint.ts';
import { createPruner } from './prune.ts';
import type { Keep, KeepModule, Shared } from './module.ts';
import * as modules from './modules.ts';
import { createView } from './view.ts';

const SAMPLE_MS = 10_000;
const FORGET_MS = 60_000;

const owner = joinOwner();
owner.onOrder('go', start);
await owner.say({ type: 'loaded', handlers: [], faults: [], notes: [] });

// oxlint-disable-next-line max-lines-per-function -- wiring: one object after another, each of which needs those before it
async function start({ boot, instance, leads }: Orders): Promise<void> {
  const config = loadConfig(readEnv());
  const log = createLog('keep', { level: config.LOG_LEVEL, format: config.LOG_FORMAT });
  const store = openLater(config.storeUrl, { busyMs: 100, instance, onDropped: createDropLog(log, systemClock) });
  const clock = clockOf(store);
  const recover = createRecovery(log, systemClock, 50);

  const { RETENTION_DAYS: retentionDays, PAYLOAD_RETENTION_DAYS: payloadDays } = config;
  const site = siteOf(config.storeUrl);
  const accounts = createAccounts(clock);
  owner.onAccount((account) => accounts.take(account));
  const leading = Promise.withResolvers<void>();
  if (leads) leading.resolve();
  owner.onLead(leading.resolve);
  const shared: Shared = {
    alarms: () => [],
    rules: {},
    webhooksSilent: () => false,
    reconcile: () => {},
    prove: () => {},
  };
  owner.onWake(() => shared.prove());
  const keep: Keep = {
    config,
    store,
    clock,
    log,
    recover,
    accounts,
    view: createView({ store: store.read, account: () => accounts.latest(), up: () => shared.alarms() }),
    disk: () => site.disk(store),
    freeBytes: site.freeBytes,
    wake: () => void owner.say({ type: 'wake' }),
    leads,
    leading: leading.promise,
    shared,
  };
  const loops: Pick<Loop, 'stop'>[] = [];
  void leading.promise.then(() =>
    loops.push(
      startLoop(createCheckpointer(store), recover),
      startLoop(createPruner({ store, clock, log, retentionDays, payloadDays }), recover),
      startLoop(async () => {
        await store.read.sample(clock.now());
        return SAMPLE_MS - (clock.now() % SAMPLE_MS);
      }, recover),
    ),
  );
  const started = await Promise.all(Object.values<KeepModule>(modules).map(async (module) => module(keep)));
  if (!('reconcile' in modules))
    log.warn('recovery is off: this kit has no src/reconcile; missed webhooks stay missing');
  if (!('alarms' in modules)) {
    log.warn('nobody is notified: this kit has no src/alarms, so ALERT_URL and HEARTBEAT_URL have no effect');
    void leading.promise.then(() => loops.push(startLoop(createForgetting(store.alarms), recover)));
  }
  // The first sign of life waits until all modules are ready, because commands that see it rely on the modules.
  void Promise.all(started.map(async ({ ready }) => ready)).then(() =>
    owner.onBeat(() => store.processes.beat({ role: 'keep', ...owner.self, boot }, clock.now())),
  );
  owner.onStop(() => {
    void Promise.all([...loops, ...started].map((part) => part.stop())).then(() => process.exit(EXIT.done));
  });
  await owner.say({ type: 'ready' });
}

/** The step of a loop. Alarms that were up when the module was deleted would stay for ever. */
function createForgetting(alarms: Store['alarms']): () => Promise<number> {
  return async () => {
    for (const { name } of await alarms.raised()) await alarms.forget(name);
    return FORGET_MS;
  };
}
