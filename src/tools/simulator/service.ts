// The simulated service: keeps events, delivers them to the webhook, sends them to the streams, and shows them by replay. It
// is written from the service's contract, not from the receiver, so that the two cannot share a mistake.
import { randomUUID } from 'node:crypto';
import { systemClock } from '../../base/clock.ts';
import { startLoop, type Loop } from '../../base/loop.ts';
import { startApi, type Keys } from './api.ts';
import { createCalls } from './calls.ts';
import { createChaos } from './chaos.ts';
import { createFaults } from './faults.ts';
import { createHistory, FIRST_CURSOR, type SimulatedEvent } from './history.ts';
import { createLimits } from './limits.ts';
import { Refusal } from './refusal.ts';
import { createStreams } from './stream.ts';
import { createWebhook, newSecret, type WebhookOptions } from './webhook.ts';

/** `url` is the receiver's. Without it, events are only shown by replay and sent to the streams. */
export interface ServiceOptions extends Partial<WebhookOptions> {
  /** The API's port. Default: a free one. */
  port?: number;
  key?: string;
  firstCursor?: bigint;
  /** The service has a past: the first cursor is made from the time, and replay accepts lower ones. */
  earlier?: boolean;
  /** The random numbers for chaos, from 0 to 1. */
  random?: () => number;
}

export type SimulatedService = Awaited<ReturnType<typeof startService>>;

const newKey = (): string => `svc_test_${randomUUID()}`;

export async function startService(options: ServiceOptions = {}) {
  const { url = '', clock = systemClock, speed = 1, secret = newSecret(), key = newKey() } = options;
  const { earlier = false, firstCursor = earlier ? BigInt(clock.now()) * 1_000_000n : FIRST_CURSOR } = options;
  const history = createHistory(clock, firstCursor, earlier);
  const streams = createStreams(history, speed);
  const webhook = createWebhook({ ...options, url, secret, clock, speed });
  const calls = createCalls(history, (data) =>
    ['MessageSent', 'MessageStatusUpdated'].map((type) => emit(1, type, data)),
  );
  const [faults, limits, chaos] = [createFaults(), createLimits(clock), createChaos(options.random)];
  const keys: Keys = { current: key, revoked: new Set() };
  const api = await startApi(options.port ?? 0, { keys, calls, streams, limits, faults });
  let running: Loop | undefined;

  /** Makes events, sends them to the streams, and begins their deliveries. */
  function emit(count = 1, type?: string, data?: Record<string, unknown>): SimulatedEvent[] {
    return Array.from({ length: count }, () => {
      const event = history.add(type, data);
      streams.publish(event);
      const waits = url && webhook.state() === 'enabled' ? chaos.waits() : [];
      for (const wait of waits) void webhook.deliver(event, wait);
      return event;
    });
  }

  /** Sends the test event (contract 6.3). Throws Refusal. */
  function ping(): void {
    if (webhook.state() !== 'enabled') throw new Refusal(409, 'WEBHOOK_DISABLED');
    limits('ping', 'WEBHOOK_TEST_RATE_LIMITED');
    emit(1, 'webhook.ping');
  }

  /** Revokes the key: streams and deliveries end at once (contract 3.1). Returns a new key. */
  function revoke(): string {
    keys.revoked.add(keys.current);
    keys.current = newKey();
    streams.fail(JSON.parse(new Refusal(401, 'API_AUTH_REVOKED').envelope(randomUUID())) as object);
    webhook.disable();
    return keys.current;
  }

  /** Makes this many events a minute from now on. 0: none. */
  function rate(perMinute: number): void {
    void running?.stop();
    running = perMinute > 0 ? startLoop(() => (emit(), 60_000 / perMinute)) : undefined;
  }

  async function stop(): Promise<void> {
    rate(0);
    webhook.disable();
    await api.stop();
  }

  // `url` and `key`: the receiver's API_BASE_URL and API_KEY.
  const parts = { url: api.url, key, secret, api, faults, chaos, history, webhook, streams };
  return { ...parts, emit, ping, revoke, rate, stop };
}
