import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createClock, deliver, fixture } from '#kit/testing';
import handler from './forward-http.ts';

/** The statuses of the next answers; 0: no answer. Every later answer is 204. */
let statuses: number[] = [];
let retryAfter: string | undefined;
/** Connections that the handler closed before the answer. */
let abandoned = 0;
let seen: { headers: IncomingHttpHeaders; body: string }[] = [];
const endpoint = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    seen.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
    const status = statuses.shift() ?? 204;
    response.on('close', () => void (response.writableEnded || abandoned++));
    if (status > 0) response.writeHead(status, retryAfter === undefined ? {} : { 'retry-after': retryAfter }).end();
  });
});

beforeEach(async () => {
  statuses = [];
  retryAfter = undefined;
  abandoned = 0;
  seen = [];
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
  const { tasks } = await deliver(handler, fixture('MessageReceived', { data: { body: 'hi' } }));
  expect(tasks).toMatchObject([{ state: 'done' }]);
  const [{ headers, body } = { headers: {}, body: '' }] = seen;
  expect(JSON.parse(body)).toMatchObject({ type: 'MessageReceived', data: { body: 'hi' } });
  const signed = createHmac('sha256', 'of the test')
    .update(`${String(headers['x-timestamp'])}.${body}`)
    .digest('hex');
  expect(headers['x-signature']).toBe(signed);
});

test('a 5xx answer and a crash after the answer are retried with the same idempotency key', async () => {
  statuses = [503, 500];
  const { tasks } = await deliver(handler, fixture('MessageReceived'), { crashAfter: 3 });
  expect(tasks).toMatchObject([{ state: 'done' }]);
  expect(seen).toHaveLength(4);
  expect(new Set(seen.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
});

test('408 is retried; another 4xx is a dead letter at once', async () => {
  statuses = [408, 422];
  const { tasks } = await deliver(handler, fixture('MessageReceived'));
  expect(tasks).toMatchObject([{ state: 'dead', attempts: 2, error: 'the endpoint refused it: 422' }]);
});

test.each([
  ['the seconds of Retry-After', '7', 7_000],
  ['an hour if Retry-After is longer', '86400', 3_600_000],
  ['a minute without Retry-After', undefined, 60_000],
  ['a minute if Retry-After is no number', 'soon', 60_000],
])('after 429 it waits for %s, and spends no attempt', async (_, after, waitMs) => {
  statuses = [429];
  retryAfter = after;
  const event = fixture('MessageReceived');
  const clock = createClock(event.createdAt);
  const { tasks } = await deliver(handler, event, { clock });
  expect(tasks).toMatchObject([{ state: 'done', attempts: 1 }]);
  expect(clock.at - Date.parse(event.createdAt)).toBeGreaterThanOrEqual(waitMs);
  expect(clock.at - Date.parse(event.createdAt)).toBeLessThan(waitMs + 1_000);
});

test('an endpoint that does not answer is given up after the time limit, and the event is sent again', async () => {
  statuses = [0];
  const { tasks } = await deliver({ ...handler, timeoutMs: 100 }, fixture('MessageReceived'));
  expect(tasks).toMatchObject([{ state: 'done', attempts: 2 }]);
  await vi.waitFor(() => expect(abandoned).toBe(1));
});

test.each([
  ['FORWARD_URL', undefined],
  ['FORWARD_URL', 'http://user:password@127.0.0.1/'],
  ['FORWARD_URL', 'http://[password'],
  ['FORWARD_SECRET', ''],
])('with %s=%s the handler is refused at the start, and the error does not quote it', async (name, value) => {
  vi.stubEnv(name, value);
  const refused: unknown = await deliver(handler, fixture('MessageReceived')).catch((error: unknown) => error);
  expect(String(refused)).toContain(`set FORWARD_URL, an http or https address`);
  expect(String(refused)).not.toContain('password@');
  expect(String(refused)).not.toContain('[password');
  expect(seen).toEqual([]);
});
