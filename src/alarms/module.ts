// Registers the alarms in the keep process.
import { startLoop, type Loop } from '../base/loop.ts';
import type { KeepModule } from '../keep/module.ts';
import { createAlarms } from './alarms.ts';
import { createHeartbeat } from './heartbeat.ts';
import { kitCommand } from './kit-command.ts';
import { createCompose } from './post.ts';
import { RULES } from './rules/index.ts';

const LOOK_MS = 2_000;
const NOTIFY_MS = 1_000;
const HOUR_MS = 3_600_000;

export const alarms: KeepModule = ({ config, store, clock, log, freeBytes, accounts, leading, shared }) => {
  const stopping = new AbortController();
  const { step, notify, up, silent } = createAlarms({
    store,
    clock,
    log,
    accounts,
    freeBytes,
    alertUrl: config.ALERT_URL,
    compose: createCompose(config, RULES, process.ppid),
    backupEveryMs: config.BACKUP_DIR === undefined ? undefined : config.BACKUP_EVERY_HOURS * HOUR_MS,
    kit: kitCommand(config),
    reconcileNow: () => shared.reconcile(),
    signal: stopping.signal,
  });
  // The ops pages get all rules, because they also show the alarms of the main process.
  Object.assign(shared.rules, RULES);
  let leads = false;
  Object.assign(shared, { alarms: () => (leads ? up() : null), webhooksSilent: silent });
  const loops: Loop[] = [];
  void leading.then(start);
  function start(): void {
    leads = true;
    // Posts have a loop of their own, so that a slow ALERT_URL does not delay the rules.
    const notifying = startLoop(async () => {
      await notify();
      return NOTIFY_MS;
    });
    const looking = startLoop(async () => {
      await step();
      notifying.wake();
      return LOOK_MS;
    });
    loops.push(notifying, looking);
    const { HEARTBEAT_URL: url } = config;
    if (url) loops.push(startLoop(createHeartbeat(url, { accounts, clock, log, signal: stopping.signal })));
  }
  return {
    stop() {
      stopping.abort();
      return Promise.all(loops.map((loop) => loop.stop()));
    },
  };
};
