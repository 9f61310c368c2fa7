// The reader of GET /events over HTTP, against faults of a service, a proxy or a network.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { ServiceError } from '../../src/service/errors.ts';
import { readStream, type StreamNews, type StreamOptions } from '../../src/service/stream.ts';

type Answer = (response: ServerResponse, request: IncomingMessage) => void;

const closers: (() => void)[] = [];
afterEach(() => closers.splice(0).forEach((close) => close()));

const domain = (cursor: string, text = 'hi'): string =>
  `id: ${cursor}\nevent: domain\ndata: {"MessageReceived":{"body":"${text}"}}\n\n`;
const END = 'event: end\ndata: {}\n\n';
const sse: (text: string) => Answer = (text) => (response) =>
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' }).end(text);
const status: (code: number, body?: object) => Answer =
  (code, body = {}) =>
  (response) =>
    response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));

/** Gives one answer per connection. Reads until enough cursors have arrived, or until the reader throws. */
async function read(answers: Answer[], wanted: number, options: Partial<StreamOptions> = {}) {
  const asked: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    asked.push(request.headers['last-event-id'] as string | undefined);
    const answer = answers[asked.length - 1] ?? status(500);
    answer(response, request);
  }).listen(0, '127.0.0.1');
  closers.push(() => (server.close(), server.closeAllConnections()));
  await once(server, 'listening');
  const stop = new AbortController();
  closers.push(() => stop.abort());
  const news: StreamNews[] = [];
  const cursors: string[] = [];
  const payloads: string[] = [];
  let thrown: unknown;
  const stream = readStream({
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    apiKey: 'svc_test_1',
    after: null,
    signal: stop.signal,
    onNews: (one) => news.push(one),
    firstWaitMs: 1,
    ...options,
  });
  try {
    for await (const items of stream) {
      cursors.push(...items.map(({ cursor }) => cursor));
      payloads.push(...items.map(({ payload }) => payload.toString()));
      if (cursors.length >= wanted) break;
    }
  } catch (error) {
    thrown = error;
  }
  return { asked, cursors, payloads, news, thrown, lost: news.filter(({ kind }) => kind === 'lost') };
}

test('events come in order, pings are reported, and a new connection continues after the last event', async () => {
  const ping = 'event: ping\ndata: {"t":1}\n\n';
  const told = await read([sse(domain('9') + ping + domain('10') + END), sse(domain('11'))], 3);
  expect(told.cursors).toEqual(['9', '10', '11']);
  expect(told.payloads[0]).toBe('{"MessageReceived":{"body":"hi"}}');
  expect(told.asked).toEqual([undefined, '10']);
  expect(told.news.map(({ kind }) => kind)).toEqual(['open', 'ping', 'lost', 'open']);
});

test('an event that is cut off is not yielded, and the next connection brings it again', async () => {
  const told = await read([sse(domain('1') + domain('2').slice(0, -1)), sse(domain('2'))], 2, { after: null });
  expect(told.cursors).toEqual(['1', '2']);
  expect(told.asked).toEqual([undefined, '1']);
});

test('an event that arrives byte by byte is read whole, with characters of several bytes', async () => {
  const bytes = Buffer.from(domain('5', 'ação 🚀'));
  const dripping: Answer = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const byte of bytes) response.write(Buffer.of(byte));
  };
  expect((await read([dripping], 1)).payloads).toEqual(['{"MessageReceived":{"body":"ação 🚀"}}']);
});

test('after a temporary failure it reconnects, with waits that double up to thirty times the first', async () => {
  const html: Answer = (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>');
  const moved: Answer = (response) => response.writeHead(302, { location: '/elsewhere' }).end();
  const broken: Answer = (response) => response.destroy();
  const busy = status(429, { error: { code: 'RATE_LIMITED', reason: 'RATE_LIMITED' } });
  const unwell = sse('event: error\ndata: {"error":{"code":"UNAVAILABLE"}}\n\n');
  const told = await read([html, moved, broken, busy, unwell, status(503), sse(''), sse(domain('1'))], 1);
  expect(told.cursors).toEqual(['1']);
  const waits = told.lost.map((one) => ('waitMs' in one ? one.waitMs : 0));
  // After a 429 the wait is up to half as long again.
  expect(waits.map((ms, n) => (n === 3 && ms >= 8 && ms <= 12 ? 8 : ms))).toEqual([1, 2, 4, 8, 16, 30, 30]);
});

test.each([
  [
    'a key that is refused',
    status(401, { error: { code: 'UNAUTHENTICATED', reason: 'API_AUTH_REQUIRED' } }),
    'UNAUTHENTICATED',
  ],
  ['a key without the scope', status(403), 'FORBIDDEN'],
  [
    'a cursor that is none',
    status(400, { error: { code: 'VALIDATION_FAILED', reason: 'EVENT_CURSOR_INVALID' } }),
    'VALIDATION_FAILED',
  ],
  [
    'a key revoked meanwhile',
    sse(`event: error\ndata: {"error":{"code":"UNAUTHENTICATED","reason":"API_AUTH_REVOKED"}}\n\n`),
    'UNAUTHENTICATED',
  ],
])('%s ends the reader, because a new connection cannot help', async (_, answer, code) => {
  const told = await read([answer], 1);
  expect(told.thrown).toBeInstanceOf(ServiceError);
  expect(told.thrown).toMatchObject({ code });
  expect(told.asked).toHaveLength(1);
});

test('a refresh is reported with its reason, and later events still arrive', async () => {
  const told = await read([sse(`event: refresh\ndata: {"reason":"cursor_expired"}\n\n${domain('7')}`)], 1, {
    after: null,
  });
  expect(told.news).toContainEqual({ kind: 'refresh', reason: 'cursor_expired' });
  expect(told.cursors).toEqual(['7']);
});

test('an event without a cursor is reported and left out', async () => {
  const told = await read([sse(domain('1e3') + domain('8'))], 1);
  expect(told.cursors).toEqual(['8']);
  expect(told.news.map(({ kind }) => kind)).toContain('unreadable');
});

test('a connection without data is closed, and the reader reconnects', async () => {
  const silent: Answer = (response) =>
    void response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n');
  const told = await read([silent, sse(domain('1'))], 1, { silentMs: 100 });
  expect(told.cursors).toEqual(['1']);
  expect(told.lost).toMatchObject([{ reason: 'GET /events: no data for 100 ms' }]);
});

test('an event larger than the limit ends the connection', async () => {
  const endless: Answer = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: ');
    const more = (): void => void (response.destroyed || (response.write('x'.repeat(2 ** 20)), setImmediate(more)));
    more();
  };
  const told = await read([endless, sse(domain('2'))], 1);
  expect(told.cursors).toEqual(['2']);
});

test('the signal ends the reader, also while it waits to reconnect', async () => {
  const stop = new AbortController();
  const reading = read([], 1, { signal: stop.signal, firstWaitMs: 3_600_000, onNews: () => stop.abort() });
  expect((await reading).thrown).toBeUndefined();
});
