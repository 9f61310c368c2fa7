// The service's double: what happens is kept, delivered to the webhook, told to the streams, and shown by replay. It is
// written from the contract (service-api.md), not from the receiver, so that the two cannot share a mistake.
import { randomUUID } from 'node:crypto';
import { systemClock } from '../../base/clock.ts';
import { startLoop, type Loop } from '../../base/loop.ts';
import { startApi, type Fault } from './api.ts';
import { createCalls } from './calls.ts';
import { createHistory, FIRST_CURSOR, type SimulatedEvent } from './history.ts';
import { createStreams } from './stream.ts';
import { createWebhook, newSecret, type WebhookOptions } from './webhook.ts';

/** `url` is the receiver's. Without it, events are only shown by replay and told to the streams. */
export interface ServiceOptions extends Partial<WebhookOptions> {
  /** Of the API. Default: a free one. */
  port?: number;
  key?: string;
  firstCursor?: bigint;
}

export type SimulatedService = Awaited<ReturnType<typeof startService>>;

export async function startService(options: ServiceOptions = {}) {
  const { url = '', clock = systemClock, speed = 1, secret = newSecret(), key = `svc_test_${randomUUID()}` } = options;
  const history = createHistory(clock, options.firstCursor ?? FIRST_CURSOR);
  const streams = createStreams(history, speed);
  const webhook = createWebhook({ ...options, url, secret, clock, speed });
  const calls = createCalls(history, (data) => emit(1, 'MessageSent', data));
  const faults: Fault[] = [];
  const api = await startApi(options.port ?? 0, { key, calls, streams, clock, faults });
  let running: Loop | undefined;

  /** Something happens: it is told to the streams, and its delivery begins. */
  function emit(count = 1, type?: string, data?: Record<string, unknown>): SimulatedEvent[] {
    return Array.from({ length: count }, () => {
      const event = history.add(type, data);
      streams.publish(event);
      if (url && webhook.state() === 'enabled') void webhook.deliver(event);
      return event;
    });
  }

  /** So many events a minute from now on. 0: none. */
  function rate(perMinute: number): void {
    void running?.stop();
    running = perMinute > 0 ? startLoop(() => (emit(), 60_000 / perMinute)) : undefined;
  }

  async function stop(): Promise<void> {
    rate(0);
    webhook.disable();
    await api.stop();
  }

  // `url`: the receiver's API_BASE_URL.
  return { url: api.url, api, key, secret, faults, history, webhook, streams, emit, rate, stop };
}
