import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createClock, deliver, fixture } from '#kit/testing';
import handler from './notify.ts';

/** The statuses of the next answers. Every later answer is 204. */
let statuses: number[] = [];
let seen: string[] = [];
const channel = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    seen.push(Buffer.concat(chunks).toString());
    response.writeHead(statuses.shift() ?? 204, { 'retry-after': '30' }).end();
  });
});

beforeEach(async () => {
  statuses = [];
  seen = [];
  await once(channel.listen(0, '127.0.0.1'), 'listening');
  vi.stubEnv('NOTIFY_URL', `http://127.0.0.1:${(channel.address() as AddressInfo).port}/a-secret`);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  channel.closeAllConnections();
  await once(channel.close(), 'close');
});

const event = fixture('MessageReceived', { data: { body: 'private', push_name: 'Ana' } });

test('the notice names the event, in the fields of Slack and Discord, and neither its writer nor its text', async () => {
  const { tasks } = await deliver(handler, event);
  expect(tasks).toMatchObject([{ state: 'done' }]);
  const words = `A message has arrived: npx kit explain c:${event.cursor}`;
  expect(seen.map((body) => JSON.parse(body) as object)).toEqual([{ text: words, content: words }]);
  expect(seen.join()).not.toMatch(/private|15550100|Ana/);
});

test('after 429 it waits for the seconds of Retry-After, and spends no attempt', async () => {
  statuses = [429];
  const clock = createClock(event.createdAt);
  const { tasks } = await deliver(handler, event, { clock });
  expect(tasks).toMatchObject([{ state: 'done', attempts: 1 }]);
  expect(seen).toHaveLength(2);
  const waited = clock.at - Date.parse(event.createdAt);
  expect([waited >= 30_000, waited < 31_000]).toEqual([true, true]);
});

test('5xx is retried; another 4xx is a dead letter whose error does not hold the address', async () => {
  statuses = [500, 404];
  const { tasks, log } = await deliver(handler, event);
  expect(tasks).toMatchObject([{ state: 'dead', attempts: 2, error: 'NOTIFY_URL refused the notice: 404' }]);
  expect(JSON.stringify([tasks, log])).not.toContain('a-secret');
});

test('a message older than ten minutes is skipped without a notice', async () => {
  const clock = createClock(Date.parse(event.createdAt) + 600_001);
  const { tasks } = await deliver(handler, event, { clock });
  expect(tasks).toMatchObject([{ state: 'skipped' }]);
  expect(seen).toEqual([]);
});

test.each([undefined, 'a-secret', 'ftp://a-secret', 'https://[a-secret', 'https://user:a-secret@host'])(
  'with NOTIFY_URL=%s the handler is refused at the start, and the error does not quote it',
  async (url) => {
    vi.stubEnv('NOTIFY_URL', url);
    const refused: unknown = await deliver(handler, event).catch((error: unknown) => error);
    expect(String(refused)).toContain('set NOTIFY_URL');
    expect(String(refused)).not.toContain('a-secret');
  },
);
