// The simulated service, against the contract: deliveries and their schedule, replay, the stream, sends, limits, errors.
import { createHmac } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { answerTo } from '../../src/tools/simulator/console.ts';
import { startService, type ServiceOptions, type SimulatedService } from '../../src/tools/simulator/service.ts';
import { until } from '../harness.ts';
import { serve } from '../serve.ts';

interface Got {
  headers: IncomingHttpHeaders;
  body: string;
}
type Fields = Record<string, unknown>;

const NOTHING: Got = { headers: {}, body: '' };

async function serviceOf(options: ServiceOptions = {}): Promise<SimulatedService> {
  const service = await startService({ speed: 1_000_000, ...options });
  onTestFinished(() => service.stop());
  return service;
}

/** A receiver that keeps what it gets. `statuses`: of its first answers; then 204. */
async function receiverOf(...statuses: number[]): Promise<{ url: string; got: Got[] }> {
  const got: Got[] = [];
  const { url } = await serve((request, response) => {
    const answer = async (): Promise<void> => {
      got.push({ headers: request.headers, body: await text(request) });
      response.writeHead(statuses[got.length - 1] ?? 204).end();
    };
    void answer();
  });
  return { url, got };
}

async function call(service: SimulatedService, path: string, body: unknown, key = service.key) {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const answer = await fetch(`${service.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  const json = (await answer.json()) as { error?: Fields } & Fields;
  return { status: answer.status, json, reason: json.error?.['reason'], id: answer.headers.get('x-request-id') };
}

const replay = (service: SimulatedService, request: Fields = {}) => call(service, '/rpc/ReplayEvents', { request });

test('a delivery is signed over its timestamp and its raw body, after a rotation by both secrets', async () => {
  const { url, got } = await receiverOf();
  const service = await serviceOf({ url });
  const secret = service.webhook.rotate();
  const [event] = service.emit();
  await until('the delivery', () => got.length === 1);
  const { headers, body } = got[0] ?? NOTHING;
  const signed = [secret, service.secret].map((one) => {
    const mac = createHmac('sha256', one).update(`${String(headers['x-svc-timestamp'])}.${body}`);
    return `v1=${mac.digest('hex')}`;
  });
  expect(headers).toMatchObject({
    'x-svc-signature': signed.join(),
    'x-svc-event-id': event?.id,
    'x-svc-attempt': '1',
  });
  const data = { MessageReceived: event?.data };
  expect(JSON.parse(body)).toMatchObject({ id: event?.id, cursor: event?.cursor, data });
});

test('a failing delivery is tried 8 times; 15 failures in a row switch the webhook off, and enabling it brings back nothing', async () => {
  const { url, got } = await receiverOf(...Array<number>(15).fill(500));
  const service = await serviceOf({ url });
  const { webhook, history } = service;
  expect(await webhook.deliver(history.add())).toEqual(Array<number>(8).fill(500));
  expect(got.map(({ headers }) => headers['x-svc-attempt'])).toEqual('12345678'.split(''));
  expect(new Set(got.map(({ headers }) => headers['x-svc-delivery-id'])).size).toBe(1);
  expect(await webhook.deliver(history.add())).toHaveLength(7);
  expect(webhook.state()).toBe('disabled by failures');
  service.emit();
  webhook.enable();
  const [event] = service.emit();
  await until('the delivery', () => got.length === 16);
  expect(got.at(-1)?.headers['x-svc-event-id']).toBe(event?.id);
});

test('replay shows what follows a cursor, page by page; it refuses an unknown one, and says when one has expired', async () => {
  const service = await serviceOf();
  const cursors = service.emit(3).map(({ cursor }) => cursor);
  const first = (await replay(service, { limit: 2 })).json;
  expect(first).toMatchObject({ next_cursor: cursors[1], has_more: true, reset_required: false });
  const next = { after_cursor: cursors[1] };
  const rest = { events: [{ cursor: cursors[2] }], next_cursor: cursors[2], has_more: false };
  expect((await replay(service, next)).json).toMatchObject(rest);
  expect(await replay(service, { after_cursor: '7' })).toMatchObject({ status: 400, reason: 'EVENT_CURSOR_INVALID' });
  service.history.expire();
  expect((await replay(service, next)).json).toMatchObject({ events: [], reset_required: true });
});

test('the stream resends what was missed, goes on, and ends when it is told to', async () => {
  const service = await serviceOf();
  const [seen, missed] = service.emit(2);
  const headers = { authorization: `Bearer ${service.key}`, 'last-event-id': seen?.cursor ?? '' };
  const { body } = await fetch(`${service.url}/events`, { headers });
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader();
  let told = '';
  const read = async (what: string): Promise<void> => {
    while (!told.includes(what)) told += (await reader?.read())?.value ?? '';
  };
  await read(`id: ${missed?.cursor}\nevent: domain\ndata: {"MessageReceived":`);
  const [next] = service.emit();
  await read(`id: ${next?.cursor}\n`);
  await read('event: ping\n');
  service.streams.refresh('buffer_limit');
  service.streams.end();
  await read('event: refresh\ndata: {"reason":"buffer_limit"}\n\n');
  await read('event: end\n');
  expect(told).not.toContain(`id: ${seen?.cursor}\n`);
});

test('a send needs a quote for the same request, uses it once, and is found in the history', async () => {
  const service = await serviceOf();
  const request = { to: '15550100', body: 'hello', idempotency_key: 'k' };
  expect(await call(service, '/messages/send', { request })).toMatchObject({ status: 428 });
  const { json: quote } = await call(service, '/billing/quotes', { operation: 'messages/send', request });
  const billing = { quoteId: quote['quoteId'] };
  const other = { request: { ...request, body: 'other' }, billing };
  expect(await call(service, '/messages/send', other)).toMatchObject({ status: 409 });
  expect(await call(service, '/messages/send', { request, billing })).toMatchObject({ status: 200 });
  expect(await call(service, '/messages/send', { request, billing })).toMatchObject({ status: 409 });
  const { json } = await call(service, '/rpc/ListMessages', { request: {} });
  expect(json['messages']).toMatchObject([{ body: 'hello', idempotency_key: 'k', from_me: true }]);
  const [message] = json['messages'] as Fields[];
  const told = service.history.all().map(({ type, data }) => [type, data['message_id']]);
  expect(told).toEqual(['MessageSent', 'MessageStatusUpdated'].map((type) => [type, message?.['id']]));
});

test('conversations follow from the messages, and a message that is no text has a file', async () => {
  const service = await serviceOf();
  const [one] = service.emit(1, 'MessageReceived', { from: '1', message_type: 'image', body: 'look' });
  service.emit(1, 'MessageReceived', { from: '2' });
  const { json } = await call(service, '/rpc/ListConversations', { request: { limit: 1 } });
  expect(json['conversations']).toMatchObject([{ peer_phone: '1', last_message_preview: 'look', unread_count: 1 }]);
  const request = { cursor: json['next_cursor'], limit: 1 };
  const next = (await call(service, '/rpc/ListConversations', { request })).json;
  expect(next).toMatchObject({ conversations: [{ peer_phone: '2' }], next_cursor: '' });
  const media = (id: unknown) =>
    fetch(`${service.url}/media/${String(id)}`, { headers: { authorization: `Bearer ${service.key}` } });
  expect((await media(one?.data['message_id'])).status).toBe(200);
  expect((await media('another')).status).toBe(404);
});

test('the account has 120 calls a minute', async () => {
  let now = 1_000_000;
  const service = await serviceOf({ clock: { now: () => now, monotonic: () => now } });
  const calls = await Promise.all(Array.from({ length: 121 }, () => replay(service)));
  expect(calls.filter(({ status }) => status === 200)).toHaveLength(120);
  expect(calls.at(-1)).toMatchObject({ status: 429, reason: 'RATE_LIMITED' });
  now += 60_000;
  expect(await replay(service)).toMatchObject({ status: 200 });
});

test('errors have an envelope whose request id is in the header, too', async () => {
  const service = await serviceOf();
  const { id, json, status } = await call(service, '/rpc/ReplayEvents', { request: {} }, 'svc_test_another');
  expect({ status, json }).toMatchObject({ status: 401, json: { error: { code: 'UNAUTHENTICATED', requestId: id } } });
  expect(await call(service, '/rpc/Nothing', { request: {} })).toMatchObject({ reason: 'RPC_METHOD_NOT_FOUND' });
  expect(await call(service, '/rpc/ReplayEvents', {})).toMatchObject({ reason: 'RPC_REQUEST_INVALID' });
});

test.each<[line: string, status: number, reason: string | undefined, sent: number]>([
  ['fault 429 messages/send', 429, 'RATE_LIMITED', 0],
  ['fault 403 API_KEY_IP_FORBIDDEN', 403, 'API_KEY_IP_FORBIDDEN', 0],
  ['fault undone messages/send', 503, 'OUTCOME_UNCERTAIN', 0],
  ['fault 504', 504, 'RPC_DEADLINE_EXCEEDED', 1],
  ['fault lost messages/send', 0, undefined, 1],
])('after %s, the next send gets %i %s, and %i messages are sent', async (line, status, reason, sent) => {
  const service = await serviceOf();
  const request = { to: '15550100' };
  const { json } = await call(service, '/billing/quotes', { operation: 'messages/send', request });
  answerTo(service, line);
  const lost = { status: 0, reason: undefined };
  const answer = await call(service, '/messages/send', { request, billing: json }).catch(() => lost);
  expect(answer).toMatchObject({ status, reason });
  expect((await call(service, '/rpc/ListMessages', { request: {} })).json['messages']).toHaveLength(sent);
});

test('faults last as long as they were asked for; replay lies on demand', async () => {
  const service = await serviceOf();
  for (const line of ['fault 429 2 ReplayEvents', 'fault reset', 'fault 503 ListMessages']) answerTo(service, line);
  const statuses = [await replay(service), await replay(service)].map(({ status }) => status);
  expect(statuses).toEqual([429, 429]);
  expect((await replay(service)).json).toMatchObject({ events: [], reset_required: true });
  expect((await replay(service)).json).toMatchObject({ reset_required: false });
  expect(await call(service, '/rpc/ListMessages', { request: {} })).toMatchObject({ status: 503 });
});

test('a revoked key ends streams and deliveries; another one works', async () => {
  const service = await serviceOf({ url: 'http://127.0.0.1:1' });
  const headers = { authorization: `Bearer ${service.key}` };
  const stream = await fetch(`${service.url}/events`, { headers });
  const key = /API_KEY=(\S+)/.exec(answerTo(service, 'revoke'))?.[1] ?? '';
  expect(await stream.text()).toContain('event: error\ndata: {"error":{"code":"UNAUTHENTICATED"');
  expect(await replay(service)).toMatchObject({ status: 401, reason: 'API_AUTH_REVOKED' });
  expect(await call(service, '/rpc/ReplayEvents', { request: {} }, key)).toMatchObject({ status: 200 });
  expect(service.webhook.state()).toBe('disabled');
});

test('the test event has no cursor, comes once a minute, and not to a webhook that is off', async () => {
  const { url, got } = await receiverOf();
  const service = await serviceOf({ url });
  answerTo(service, 'ping');
  await until('the delivery', () => got.length === 1);
  expect(JSON.parse(got[0]?.body ?? '')).toMatchObject({ type: 'webhook.ping', cursor: null, session_id: null });
  expect(answerTo(service, 'ping')).toBe('refused: 429 WEBHOOK_TEST_RATE_LIMITED');
  answerTo(service, 'disable');
  expect(answerTo(service, 'ping')).toBe('refused: 409 WEBHOOK_DISABLED');
});

test('chaos loses, doubles, shuffles and delays deliveries', async () => {
  const { url, got } = await receiverOf();
  const draws = [0, 0.1, 0, 0.3, 0, 0.6, 1, 0, 0.9, 1, 0.99];
  const service = await serviceOf({ url, random: () => draws.shift() ?? 0 });
  answerTo(service, 'chaos 50');
  const [, doubled, shuffled, late, calm] = service.emit(5).map(({ id }) => id);
  await until('the deliveries', () => got.length === 5);
  const ids = got.map(({ headers }) => headers['x-svc-event-id']);
  const times = [doubled, shuffled, late, calm].map((id) => ids.filter((one) => one === id).length);
  expect(times).toEqual([2, 1, 1, 1]);
});

test('the cursors of an earlier service are those of events that came before the first', async () => {
  const service = await serviceOf({ firstCursor: 100n, earlier: true });
  service.emit();
  expect((await replay(service, { after_cursor: '99' })).json).toMatchObject({ events: [{ cursor: '100' }] });
  expect(await replay(service, { after_cursor: '101' })).toMatchObject({ reason: 'EVENT_CURSOR_INVALID' });
});
