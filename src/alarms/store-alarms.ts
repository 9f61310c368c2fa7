// The alarms of the main process about writes to the store. They need neither a working store nor the keep process.
import { startLoop } from '../base/loop.ts';
import type { ReceiveModule } from '../receive/module.ts';
import { kitCommand } from './kit-command.ts';
import { createNotifier } from './notifier.ts';
import { createRaised } from './raised.ts';
import { evaluate } from './rules/rule.ts';
import { WRITES } from './rules/store.ts';

const NOTIFY_MS = 1_000;

export const storeAlarms: ReceiveModule = {
  start({ config, clock, log, trouble }) {
    const stopping = new AbortController();
    const notifier = createNotifier({ url: config.ALERT_URL, clock, log, signal: stopping.signal });
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
      useConfig: ({ ALERT_URL }) => notifier.useUrl(ALERT_URL),
      async stop() {
        stopping.abort();
        await notifying.stop();
      },
    };
  },
};
