// What `npm run dev` uses of the service's double: one event after another, delivered signed; some only replay shows.
import { startLoop } from '../loop.ts';
import { createServiceApi } from '../simulator/api.ts';
import { createHistory } from '../simulator/history.ts';
import { createSender } from '../simulator/sender.ts';

/** Where events come from. */
export interface Source {
  /** What the kit needs to reach it. */
  env: Record<string, string>;
  /** Begins to deliver to `url`, signed with `secret`; while the kit is not `up`, nothing need come. */
  start(to: { url: string; secret: string; up: () => boolean }): void;
}

const TYPES = ['MessageReceived', 'MessageReceived', 'MessageSent', 'MessageReceived', 'MessageStatusUpdated'];
/** One event of so many is lost on the way. */
const LOST = 10;
const API_KEY = 'svc_test_dev';

export async function createDouble(): Promise<Source> {
  const history = createHistory({ seed: 1 });
  const service = createServiceApi({ history, apiKey: API_KEY });
  const baseUrl = await service.listen();
  let made = 0;

  return {
    env: { API_BASE_URL: baseUrl, API_KEY, RECONCILE_INTERVAL_SECONDS: '10' },
    start({ url, secret, up }) {
      const sender = createSender({ url, secrets: [secret], seed: 1, webhookId: 'dev' });
      startLoop(() => {
        if (!up()) return 1_000;
        const event = history.next(TYPES[made++ % TYPES.length]);
        if (made % LOST !== 0) void sender.deliver(event);
        return 1_000 + 1_000 * Math.random();
      });
    },
  };
}
