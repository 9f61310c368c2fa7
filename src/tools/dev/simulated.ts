// Simulated events for `npm run dev`: signed deliveries, one after another. Some events are lost on purpose, so that
// replay has something to fetch.
import { startLoop } from '../../base/loop.ts';
import { createSimulatedService } from '../simulator/service.ts';

export interface Source {
  /** Variables that connect the kit to this source. */
  env: Record<string, string>;
  /** Delivers events to `url`, signed with `secret`. Deliveries may pause while `up` returns false. */
  start(to: { url: string; secret: string; up: () => boolean }): Promise<void>;
}

const TYPES = ['MessageReceived', 'MessageReceived', 'MessageSent', 'MessageReceived', 'MessageStatusUpdated'];
/** One event in LOST is not delivered, so that replay fetches it. */
const LOST = 10;

export async function createSimulated(): Promise<Source> {
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
