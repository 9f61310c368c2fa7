import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createClock, deliver, fixture } from '#kit/testing';
import handler from './forward-http.ts';

/** The next answers; 0: none. Every later one is 204. */
let statuses: number[] = [];
let seen: { headers: IncomingHttpHeaders; body: string }[] = [];
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  seen.push({ headers: request.headers, body: await text(request) });
  const status = statuses.shift() ?? 204;
  if (status > 0) response.writeHead(status, { 'retry-after': '7' }).end();
}
const endpoint = createServer((...call) => void answer(...call));

beforeEach(async () => {
  [statuses, seen] = [[], []];
  await once(endpoint.listen(0, '127.0.0.1'), 'listening');
  vi.stubEnv('FORWARD_URL', `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}/`);
  vi.stubEnv('FORWARD_SECRET', 'of the test');
});
afterEach(async () => {
  vi.unstubAllEnvs();
  endpoint.closeAllConnections();
  await once(endpoint.close(), 'close');
});

test('the event arrives with a right signature', async () => {
  await deliver(handler, fixture('MessageReceived', { data: { body: 'hi' } }));
  const [{ headers, body } = { headers: {}, body: '' }] = seen;
  expect(JSON.parse(body)).toMatchObject({ type: 'MessageReceived', data: { body: 'hi' } });
  const signed = createHmac('sha256', 'of the test').update(`${String(headers['x-timestamp'])}.${body}`);
  expect(headers['x-signature']).toBe(signed.digest('hex'));
});

test('after no answer, 5xx and a crash it is sent again with the same key', async () => {
  statuses = [0, 503];
  const { tasks } = await deliver({ ...handler, timeoutMs: 100 }, fixture('MessageReceived'), { crashAfter: 2 });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(seen).toHaveLength(3);
  expect(new Set(seen.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
});

test('429 waits for Retry-After and spends no attempt; 408 is retried; another 4xx is a dead letter', async () => {
  statuses = [429, 408, 422];
  const event = fixture('MessageReceived');
  const clock = createClock(event.createdAt);
  const { tasks } = await deliver(handler, event, { clock });
  expect(tasks).toMatchObject([{ state: 'dead', attempts: 2, error: 'the endpoint refused it: 422' }]);
  expect(clock.at - Date.parse(event.createdAt)).toBeGreaterThanOrEqual(7_000);
});

test.each([
  ['FORWARD_URL', 'http://user:password@127.0.0.1/'],
  ['FORWARD_SECRET', ''],
])('with %s=%s the handler is refused at the start, and the error does not quote it', async (name, value) => {
  vi.stubEnv(name, value);
  const refused = deliver(handler, fixture('MessageReceived'));
  await expect(refused).rejects.toThrow(/^(?!.*password@).*set FORWARD_URL/);
});
