// A simulated account for `npm run dev`: quiet, until somebody sends an event or switches traffic on. Its history goes
// on after a restart, because it begins with the events of the store.
import { deliveryOf } from '../../admin/copies.ts';
import { startLoop } from '../../base/loop.ts';
import { iso, systemClock as clock } from '../../base/clock.ts';
import type { Store } from '../../store/store.ts';
import { dataOfBody, factsOf } from '../../wire/event.ts';
import type { SimulatedEvent } from '../simulator/history.ts';
import { createSimulatedService } from '../simulator/service.ts';
import type { Source } from './source.ts';

const TYPES = ['MessageReceived', 'MessageReceived', 'MessageSent', 'MessageReceived', 'MessageStatusUpdated'];
const NUMBERS = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'];
const TRAFFIC_MS = 1_000;
/** Events of the store that the account begins with. */
const REMEMBERED = 2_000;

export interface SimulatedOptions {
  /** The store of an earlier session. Undefined: there was none. */
  store: Store | undefined;
  traffic: boolean;
  chaos: boolean;
}

export async function createSimulated({ store, ...switches }: SimulatedOptions): Promise<Source> {
  const past = store ? await pastOf(store) : [];
  const options = { seed: clock.now(), numbers: NUMBERS, past, addresses: { loopback: true } };
  const service = createSimulatedService(options);
  const scopes = ['events:read', 'messages:send', 'product:inbox', 'product:media'];
  const { key, secret: apiKey } = service.keys.create({ name: 'dev', scopes, validDays: null });
  const baseUrl = await service.listen();
  let made = 0;

  return {
    env: { API_BASE_URL: baseUrl, API_KEY: apiKey, RECONCILE_INTERVAL_SECONDS: '10', PAID_OPERATIONS: 'allow' },
    switches: {
      get traffic() {
        return switches.traffic;
      },
      set traffic(on) {
        switches.traffic = on;
      },
      get chaos() {
        return service.chaos.isOn();
      },
      set chaos(on) {
        service.chaos.turn(on);
      },
    },
    async start({ url, secret, up }) {
      const { webhook } = await service.webhooks.register(key, { url, secret });
      service.chaos.turn(switches.chaos);
      startLoop(() => {
        // While the kit was down, failures may have switched the webhook off.
        webhook.enable();
        if (switches.traffic && up()) service.happen(1, TYPES[made++ % TYPES.length]);
        return TRAFFIC_MS;
      });
    },
    next(type, data) {
      const event = service.history.next(type);
      Object.assign(event, { data, sessionId: factsOf(type, data).sessionId ?? event.sessionId });
      service.streams.publish(event);
      const body = deliveryOf({ ...event, createdAt: Date.parse(event.createdAt) }, data);
      return { key: event.cursor ? `c:${event.cursor}` : `i:${event.id}`, id: event.id, body };
    },
  };
}

/** The newest events of the store, in cursor order. */
async function pastOf(store: Store): Promise<SimulatedEvent[]> {
  const past: SimulatedEvent[] = [];
  const { events } = await store.read.events({ limit: REMEMBERED }, store.now());
  for (const { key, id, type, cursor, sessionId, createdAt, receivedAt, origin } of events) {
    const body = cursor !== null && key === `c:${cursor}` ? await store.read.body(key) : null;
    if (!body) continue;
    const data = dataOfBody(origin, type, body);
    const at = iso(createdAt ?? receivedAt) ?? '';
    past.push({ id: id ?? `of-${cursor}`, cursor, type, createdAt: at, sessionId, bare: 'off', data });
  }
  return past.toSorted((a, b) => (BigInt(a.cursor ?? 0) < BigInt(b.cursor ?? 0) ? -1 : 1));
}
