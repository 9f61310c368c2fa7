import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createClock, deliver, fixture } from '#kit/testing';
import handler from './notify.ts';

/** The next answers. Every later one is 204. */
let statuses: number[] = [];
let seen: string[] = [];
async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  seen.push(await text(request));
  response.writeHead(statuses.shift() ?? 204, { 'retry-after': '30' }).end();
}
const channel = createServer((...call) => void answer(...call));

beforeEach(async () => {
  [statuses, seen] = [[], []];
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
  await deliver(handler, event);
  const words = `A message has arrived: npx kit explain c:${event.cursor}`;
  expect(seen.map((body) => JSON.parse(body) as object)).toEqual([{ text: words, content: words }]);
});

test('429 waits for Retry-After, 5xx is retried, another 4xx is a dead letter that does not name the address', async () => {
  statuses = [429, 500, 404];
  const clock = createClock(event.createdAt);
  const { tasks, log } = await deliver(handler, event, { clock });
  expect(tasks).toMatchObject([{ state: 'dead', attempts: 2, error: 'NOTIFY_URL refused the notice: 404' }]);
  expect(clock.at - Date.parse(event.createdAt)).toBeGreaterThanOrEqual(30_000);
  expect(JSON.stringify([tasks, log])).not.toContain('a-secret');
});

test('without an address the handler is refused at the start, and the error does not quote what is there', async () => {
  vi.stubEnv('NOTIFY_URL', 'https://user:a-secret@host');
  await expect(deliver(handler, event)).rejects.toThrow(/^(?!.*a-secret).*set NOTIFY_URL/);
});
