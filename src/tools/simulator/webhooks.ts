// The account's webhooks (contract 2.16, 6.3). Registration checks the rules of the contract. Each event goes to the
// webhooks that chose its type and whose key may read it.
import { EVENT_TYPES, type History, type SimulatedEvent } from './history.ts';
import type { Chaos } from './chaos.ts';
import type { Key, Keys } from './keys.ts';
import { Refusal } from './refusal.ts';
import { createWebhook, newSecret, type Delivered, type Delivering, type Webhook } from './webhook.ts';

export interface Registration {
  url: string;
  /** Default: all types that the key may read. */
  events?: string[];
  /** Default: a new secret. */
  secret?: string;
}

export interface Webhooks {
  /** The secret is returned only here. Throws Refusal (WEBHOOK_*). */
  register(key: Key, registration: Registration): Promise<{ webhook: Webhook; secret: string }>;
  /** Throws Refusal 404 WEBHOOK_NOT_FOUND. */
  remove(id: string): void;
  all(): Webhook[];
  /** The key that registered the webhook. */
  keyOf(webhook: Webhook): Key | undefined;
  /** Sends a test event; see Webhook.ping. */
  ping(webhook: Webhook): Promise<Delivered>;
  /** Starts the deliveries of one event, with the faults that chaos draws. */
  publish(event: SimulatedEvent): void;
  /** Resolves when all deliveries have ended. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

const PER_KEY = 5;

// oxlint-disable-next-line max-lines-per-function -- registering, delivering and closing share the list of webhooks
export function createWebhooks(options: Delivering & { keys: Keys; history: History; chaos: Chaos }): Webhooks {
  const { keys, history, chaos, addresses, post, random } = options;
  const kept = new Map<string, { key: Key; webhook: Webhook }>();
  const underWay = new Set<Promise<unknown>>();

  function mayRead(key: Key): boolean {
    try {
      keys.require(key, ['events:read']);
      return true;
    } catch {
      return false;
    }
  }

  /** Throws if the key already has a webhook with this address, or has too many webhooks. */
  function makeRoom(key: Key, href: string): void {
    const own = [...kept.values()].filter((one) => one.key.id === key.id);
    if (own.some(({ webhook }) => webhook.url === href))
      throw new Refusal(409, 'WEBHOOK_DUPLICATE', 'this key has a webhook with this address');
    if (own.length >= PER_KEY)
      throw new Refusal(409, 'WEBHOOK_LIMIT_REACHED', `a key can have at most ${PER_KEY} webhooks`);
  }

  function track<Result>(delivery: Promise<Result>): Promise<Result> {
    underWay.add(delivery);
    void delivery.finally(() => underWay.delete(delivery));
    return delivery;
  }

  async function settled(): Promise<void> {
    while (underWay.size > 0) await Promise.all(underWay);
  }

  return {
    async register(key, registration) {
      // A revoked or expired key gets its own error before any other check.
      keys.require(key, []);
      if (!mayRead(key)) throw new Refusal(403, 'WEBHOOK_KEY_CANNOT_READ_EVENTS', 'the key needs events:read');
      const events = typesFor(key, registration.events);
      const { url } = await addresses.check(registration.url);
      makeRoom(key, url.href);
      const secret = registration.secret ?? newSecret(random);
      const webhook = createWebhook({
        ...options,
        id: random.uuid(),
        url: url.href,
        events,
        secret,
        allowed: (event) => mayRead(key) && (event.type === 'webhook.ping' || keys.reads(key, event)),
        onDisabled(reason) {
          keys.note(key, reason);
          options.onDisabled?.(reason);
        },
      });
      kept.set(webhook.id, { key, webhook });
      return { webhook, secret };
    },
    remove(id) {
      const one = kept.get(id);
      if (!one) throw new Refusal(404, 'WEBHOOK_NOT_FOUND');
      one.webhook.disable();
      kept.delete(id);
    },
    all: () => [...kept.values()].map(({ webhook }) => webhook),
    keyOf: ({ id }) => kept.get(id)?.key,
    ping: (webhook) => track(webhook.ping(history.next('webhook.ping'))),
    publish(event) {
      for (const { key, webhook } of kept.values()) {
        if (webhook.state() !== 'enabled' || !webhook.events.includes(event.type) || !keys.reads(key, event)) continue;
        for (const way of chaos.ways()) void track(webhook.deliver(event, way));
      }
    },
    settled,
    async close() {
      for (const { webhook } of kept.values()) webhook.disable();
      post.close();
      await settled();
    },
  };
}

/** Throws Refusal (WEBHOOK_EVENTS_*). */
function typesFor(key: Key, chosen: string[] | undefined): string[] {
  const { numbers } = key.attributes;
  const readable = Object.keys(EVENT_TYPES).filter((type) => !numbers || EVENT_TYPES[type] === 'number');
  const events = chosen ?? readable;
  if (events.length === 0 || events.some((type) => !Object.hasOwn(EVENT_TYPES, type)))
    throw new Refusal(400, 'WEBHOOK_EVENTS_INVALID', `choose from ${Object.keys(EVENT_TYPES).join(', ')}`);
  if (events.some((type) => !readable.includes(type)))
    throw new Refusal(403, 'WEBHOOK_EVENTS_FORBIDDEN', 'account-wide events need a key without number restriction');
  return events;
}
