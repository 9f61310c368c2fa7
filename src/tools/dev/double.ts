// What `npm run dev` uses of the service's double: one event after another, delivered signed; some only replay shows.
import { startLoop } from '../../base/loop.ts';
import { createSimulatedService } from '../simulator/service.ts';

/** Where events come from. */
export interface Source {
  /** What the kit needs to reach it. */
  env: Record<string, string>;
  /** Delivers to `url`, signed with `secret`, from now on; while the kit is not `up`, nothing need come. */
  start(to: { url: string; secret: string; up: () => boolean }): Promise<void>;
}

const TYPES = ['MessageReceived', 'MessageReceived', 'MessageSent', 'MessageReceived', 'MessageStatusUpdated'];
/** One event of so many is lost on the way. */
const LOST = 10;

export async function createDouble(): Promise<Source> {
  const service = createSimulatedService({ seed: 1, addresses: { loopback: true } });
  const { key, secret: apiKey } = service.keys.create({
    name: 'dev',
    scopes: ['events:read', 'messages:send', 'product:inbox'],
    validDays: null,
  });
  const baseUrl = await service.listen();
  let made = 0;

  return {
    env: { API_BASE_URL: baseUrl, API_KEY: apiKey, RECONCILE_INTERVAL_SECONDS: '10', PAID_OPERATIONS: 'allow' },
    async start({ url, secret, up }) {
      const { webhook } = await service.webhooks.register(key, { url, secret });
      startLoop(() => {
        if (!up()) return 1_000;
        const event = service.history.next(TYPES[made++ % TYPES.length]);
        if (made % LOST !== 0) void webhook.deliver(event);
        return 1_000 + 1_000 * Math.random();
      });
    },
  };
}
