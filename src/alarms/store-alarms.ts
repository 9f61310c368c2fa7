// The alarms of the main process about writes to the store. They need neither a working store nor the keep process.
import { startLoop } from '../base/loop.ts';
import type { Config } from '../config.ts';
import type { ReceiveModule } from '../receive/module.ts';
import { kitCommand } from './kit-command.ts';
import { createNotifier } from './notifier.ts';
import { createCompose } from './post.ts';
import { createRaised } from './raised.ts';
import { evaluate } from './rules/rule.ts';
import { WRITES } from './rules/store.ts';

const NOTIFY_MS = 1_000;

export const storeAlarms: ReceiveModule = {
  start({ config, clock, log, trouble }) {
    const composeWith = (given: Config) => createCompose(given, WRITES, process.pid);
    const stopping = new AbortController();
    const notifier = createNotifier({
      url: config.ALERT_URL,
      compose: composeWith(config),
      clock,
      log,
      signal: stopping.signal,
    });
    const kit = kitCommand(config);
    const raised = createRaised({ clock, log, notifier });
    // Posts have a loop of their own, so that a slow ALERT_URL does not delay `look`.
    const notifying = startLoop(async () => {
      await raised.notify();
      return NOTIFY_MS;
    });
    return {
      look() {
        const seen = trouble();
        raised.update(seen ? evaluate(WRITES, seen, kit) : new Map());
        notifying.wake();
      },
      alarms: () => raised.up(),
      useConfig: (changed) => notifier.use(changed.ALERT_URL, composeWith(changed)),
      async stop() {
        stopping.abort();
        await notifying.stop();
      },
    };
  },
};
