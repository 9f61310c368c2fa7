import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import handler from './forward.ts';

/** The statuses of the next answers. Every later answer is 204. */
let statuses: number[] = [];
let seen: { headers: IncomingHttpHeaders; body: string }[] = [];
const endpoint = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    seen.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
    response.writeHead(statuses.shift() ?? 204).end();
  });
});

beforeEach(async () => {
  statuses = [];
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

test('429 is retried; another 4xx is a dead letter at once', async () => {
  statuses = [429, 422];
  const { tasks } = await deliver(handler, fixture('MessageReceived'));
  expect(tasks).toMatchObject([{ state: 'dead', attempts: 2, error: 'the endpoint refused it: 422' }]);
});
