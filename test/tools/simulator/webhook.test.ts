import { createHmac } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { createSimulatedService, type ServiceOptions } from '../../../src/tools/simulator/service.ts';
import { WAITS_MS, type AttemptRecord } from '../../../src/tools/simulator/webhook.ts';
import { createEndpoint, inTurn, until, type Got } from './endpoint.ts';

const SECRET = 'whsec_of_the_tests';
const T0 = Date.UTC(2026, 0, 1);
const SECONDS = T0 / 1_000;

async function setUp(
  answer: (got: Got, response: ServerResponse) => void = inTurn(204),
  options: Partial<ServiceOptions> = {},
) {
  const endpoint = await createEndpoint(answer);
  const clock = { at: T0, now: () => clock.at, monotonic: () => clock.at };
  const attempts: AttemptRecord[] = [];
  const service = createSimulatedService({
    seed: 1,
    // Without waits between attempts.
    speed: Infinity,
    clock,
    addresses: { loopback: true },
    onAttempt: (attempt) => attempts.push(attempt),
    ...options,
  });
  onTestFinished(() => service.close());
  const { key } = service.keys.create({ name: 'tests', scopes: ['events:read'], validDays: null });
  const { webhook: sender } = await service.webhooks.register(key, { url: endpoint.url, secret: SECRET });
  const { history } = service;
  const make = (count: number) => Array.from({ length: count }, () => history.next());
  async function inTurnOf(count: number) {
    const outcomes = [];
    for (const event of make(count)) outcomes.push(await sender.deliver(event));
    return outcomes;
  }
  return { ...endpoint, clock, attempts, service, key, sender, history, make, inTurnOf };
}

const idOf = ({ body }: Got): unknown => (JSON.parse(body.toString()) as { id: unknown }).id;
const typeOf = ({ headers }: Got): unknown => headers['x-svc-event-type'];
const signatureOf = (secret: string, seconds: number, body: Buffer): string =>
  `v1=${createHmac('sha256', secret).update(`${seconds}.${body.toString()}`).digest('hex')}`;

test('6.3: a delivery is a signed POST with the headers and fields of the contract', async () => {
  const { got, sender, history } = await setUp();
  const event = history.next();
  expect(await sender.deliver(event)).toEqual({ event, outcome: 'delivered', attempts: 1, statuses: [204] });
  const [{ headers, body } = { headers: {}, body: Buffer.alloc(0) }] = got;
  expect(JSON.parse(body.toString())).toEqual({
    id: event.id,
    type: 'MessageReceived',
    created_at: '2026-01-01T00:00:00.000Z',
    cursor: event.cursor,
    session_id: event.sessionId,
    webhook_id: sender.id,
    data: { MessageReceived: event.data },
  });
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'user-agent': 'Svc-Webhooks/1',
    'x-svc-event-id': event.id,
    'x-svc-event-type': 'MessageReceived',
    'x-svc-delivery-id': sender.log()[0]?.deliveryId,
    'x-svc-attempt': '1',
    'x-svc-timestamp': String(SECONDS),
    'x-svc-signature': signatureOf(SECRET, SECONDS, body),
  });
});

test('6.3: a test event has no cursor, and its fields are not wrapped in its type', async () => {
  const { got, sender, history } = await setUp();
  await sender.deliver(history.next('webhook.ping', { data: { message: 'hello' } }));
  const body: unknown = JSON.parse(got[0]?.body.toString() ?? '');
  expect(body).toMatchObject({ type: 'webhook.ping', cursor: null, session_id: null, data: { message: 'hello' } });
});

test('3.3: a delivery has 8 attempts, then it is abandoned; each attempt is signed again', async () => {
  const { got, clock, attempts, inTurnOf } = await setUp((one, response) => {
    clock.at += 1_000;
    inTurn(500)(one, response);
  });
  const [delivered] = await inTurnOf(1);
  expect(delivered).toMatchObject({ outcome: 'abandoned', attempts: 8, statuses: Array(8).fill(500) });
  expect(got.map(({ headers }) => headers['x-svc-attempt'])).toEqual(['1', '2', '3', '4', '5', '6', '7', '8']);
  expect(got.map(({ headers }) => Number(headers['x-svc-timestamp']) - SECONDS)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(new Set(got.map(({ headers }) => headers['x-svc-delivery-id'])).size).toBe(1);
  expect(attempts.map(({ attempt, answer }) => [attempt, answer])).toEqual(got.map((_, i) => [i + 1, 500]));
});

test('3.3: the waits before the attempts of a delivery are 0, 30 s, 2, 10 and 30 min, 1, 2 and 4 h', () => {
  expect(WAITS_MS.map((ms) => ms / 60_000)).toEqual([0, 0.5, 2, 10, 30, 60, 120, 240]);
});

test('3.3: while a delivery waits for its next attempt, others go on', async () => {
  const { got, sender, make } = await setUp(inTurn(500, 204), { speed: 60 });
  const [a, b] = make(2);
  if (!a || !b) throw new Error('two events are needed');
  const first = sender.deliver(a);
  await until(() => expect(got).toHaveLength(1));
  await Promise.all([first, sender.deliver(b)]);
  expect(got.map(idOf)).toEqual([a.id, b.id, a.id]);
});

test('3.3: a delivery is not retried after it was accepted', async () => {
  const { sender, history } = await setUp(inTurn(503, 401, 200));
  expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'delivered', statuses: [503, 401, 200] });
});

test('6.3: a delivery succeeds with any 2xx; a redirect is a failure, and is not followed', async () => {
  const { got, sender, history } = await setUp(({ number }, response) => {
    response.writeHead(number === 1 ? 307 : 299, number === 1 ? { location: '/elsewhere' } : {}).end('ignored');
  });
  expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'delivered', statuses: [307, 299] });
  expect(got).toHaveLength(2);
});

test('6.3: a delivery fails if its answer does not come in time', async () => {
  const { sender, history } = await setUp(
    ({ number }, response) => {
      if (number > 1) response.writeHead(204).end();
    },
    { post: { answerMs: 500 } },
  );
  expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'delivered', statuses: ['timeout', 204] });
});

test('6.3: a delivery fails if its connection breaks', async () => {
  const { sender, history } = await setUp((one, response) => {
    if (one.number === 1) response.destroy();
    else inTurn(204)(one, response);
  });
  expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'delivered', statuses: ['unreachable', 204] });
});

test('6.3: the simulator reads at most 16 KiB of an answer, and a longer one is still a success', async () => {
  let closed: () => void = () => {};
  const ended = new Promise<void>((resolve) => (closed = resolve));
  const { sender, history } = await setUp((_, response) => {
    response.once('close', closed);
    response.writeHead(200);
    response.write('x'.repeat(64 * 1024));
  });
  expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'delivered', statuses: [200] });
  await ended;
});

test('3.2: 15 failures in a row, of any deliveries, disable the webhook', async () => {
  const { got, key, sender, inTurnOf } = await setUp(inTurn(500));
  const outcomes = await inTurnOf(3);
  expect(outcomes.map(({ outcome, attempts }) => [outcome, attempts])).toEqual([
    ['abandoned', 8],
    ['stopped', 7],
    ['stopped', 0],
  ]);
  expect(got).toHaveLength(15);
  expect(sender.state()).toBe('disabled by failures');
  expect(key.timeline.at(-1)?.what).toContain('15 consecutive failures');
});

test('3.2: a success resets the count of failures of a webhook', async () => {
  const { inTurnOf } = await setUp(({ number }, response) => response.writeHead(number % 15 === 0 ? 204 : 500).end());
  const outcomes = await inTurnOf(6);
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(
    Array.from({ length: 3 }, () => ['abandoned', 'delivered']).flat(),
  );
});

test('a forged delivery is signed with another secret, refused once, and not counted as a failure', async () => {
  const { got, sender, history } = await setUp(({ headers, body }, response) => {
    const genuine = headers['x-svc-signature'] === signatureOf(SECRET, SECONDS, body);
    response.writeHead(genuine ? 204 : 401).end();
  });
  const event = history.next();
  for (let i = 0; i < 20; i++) {
    expect(await sender.deliver(event, { forged: true })).toMatchObject({ outcome: 'refused', statuses: [401] });
  }
  expect(await sender.deliver(event)).toMatchObject({ outcome: 'delivered', attempts: 1 });
  expect(new Set(got.slice(0, 20).map(({ headers }) => headers['x-svc-signature'])).size).toBe(20);
});

test('6.3: the same event can come several times, each time with another delivery id', async () => {
  const { got, sender, history } = await setUp();
  const event = history.next();
  expect(await sender.deliver(event, { copies: 3 })).toMatchObject({ outcome: 'delivered', statuses: [204, 204, 204] });
  expect(new Set(got.map(idOf))).toEqual(new Set([event.id]));
  expect(new Set(got.map(({ headers }) => headers['x-svc-delivery-id'])).size).toBe(3);
});

test('6.3: the simulator can sign a delivery by a wrong clock', async () => {
  const { got, sender, history } = await setUp();
  await sender.deliver(history.next(), { ageSeconds: 301 });
  await sender.deliver(history.next(), { ageSeconds: -301 });
  expect(got.map(({ headers }) => Number(headers['x-svc-timestamp']) - SECONDS)).toEqual([-301, 301]);
});

test.each([
  ['X-Acme-', 'x-acme-signature'],
  ['X-Svc-', 'x-svc-signature'],
])('header names begin with the configured prefix %s', async (prefix, header) => {
  const { got, sender, history } = await setUp(inTurn(204), { prefix });
  await sender.deliver(history.next());
  expect(Object.keys(got[0]?.headers ?? {}).filter((name) => name.endsWith('-signature'))).toEqual([header]);
});

test('3.2: a webhook that is enabled again delivers only new events', async () => {
  const { got, service, sender, history } = await setUp();
  sender.disable();
  service.happen(3);
  expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'stopped', attempts: 0 });
  sender.enable();
  const [event] = service.happen();
  await service.webhooks.settled();
  expect(got.map(idOf)).toEqual([event?.id]);
});

test('3.2: disabling a webhook ends a delivery that waits, and enabling it does not resume the delivery', async () => {
  const { got, sender, history } = await setUp(inTurn(500, 204), { speed: 1 });
  const waiting = sender.deliver(history.next());
  await until(() => expect(sender.log()[0]).toMatchObject({ attempts: 1, answer: 500 }));
  sender.disable();
  sender.enable();
  expect(await waiting).toMatchObject({ outcome: 'stopped', statuses: [500] });
  expect(got).toHaveLength(1);
});

test('3.2: enabling a webhook resets its count of failures', async () => {
  const { sender, inTurnOf } = await setUp(inTurn(500));
  await inTurnOf(2);
  sender.enable();
  expect((await inTurnOf(1))[0]).toMatchObject({ outcome: 'abandoned', attempts: 8 });
  expect(sender.state()).toBe('enabled');
});

test.each(['revoked', 'expired', 'without events:read'])(
  '3.2: the deliveries of a webhook stop when its API key is %s',
  async (how) => {
    const { got, clock, service, key, sender, history } = await setUp();
    service.keys.edit(key, { validDays: 30 });
    expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'delivered' });
    if (how === 'revoked') service.keys.revoke(key);
    else if (how === 'expired') clock.at += 30 * 86_400_000;
    else service.keys.edit(key, { scopes: ['groups:read'] });
    expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'stopped', attempts: 0 });
    expect(got).toHaveLength(1);
  },
);

test('6.3: after a rotation with grace both secrets sign for 24 h, without grace the new one alone', async () => {
  const { got, clock, sender, history } = await setUp();
  const second = sender.rotate();
  await sender.deliver(history.next());
  clock.at += 24 * 3_600_000;
  await sender.deliver(history.next());
  const third = sender.rotate({ grace: false });
  await sender.deliver(history.next());
  const signers = [[second, SECRET], [second], [third]];
  expect(got.map(({ headers }) => headers['x-svc-signature'])).toEqual(
    got.map(({ headers, body }, i) =>
      (signers[i] ?? []).map((one) => signatureOf(one, Number(headers['x-svc-timestamp']), body)).join(','),
    ),
  );
});

test('6.3, 7.4, 8: a second test event within a minute gets WEBHOOK_TEST_RATE_LIMITED', async () => {
  const { got, clock, service, sender } = await setUp();
  const { webhooks } = service;
  expect(await webhooks.ping(sender)).toMatchObject({ outcome: 'delivered', event: { type: 'webhook.ping' } });
  clock.at += 59_999;
  expect(() => webhooks.ping(sender)).toThrow(
    expect.objectContaining({ status: 429, code: 'RATE_LIMITED', reason: 'WEBHOOK_TEST_RATE_LIMITED' }),
  );
  clock.at += 1;
  expect(await webhooks.ping(sender)).toMatchObject({ outcome: 'delivered' });
  expect(got.map(({ headers }) => headers['x-svc-event-type'])).toEqual(['webhook.ping', 'webhook.ping']);
});

test('3.2, 6.3, 7.4: a test event of a disabled webhook gets WEBHOOK_DISABLED, and sends nothing', async () => {
  const { got, service, sender } = await setUp();
  const { webhooks } = service;
  sender.disable();
  expect(() => webhooks.ping(sender)).toThrow(
    expect.objectContaining({ status: 409, code: 'CONFLICT', reason: 'WEBHOOK_DISABLED' }),
  );
  expect(sender.state(), 'no change').toBe('disabled');
  sender.enable();
  expect(await webhooks.ping(sender)).toMatchObject({ outcome: 'delivered' });
  expect(got).toHaveLength(1);
});

test('6.3: the delivery log shows status, time, attempts and outcome', async () => {
  const { sender, inTurnOf } = await setUp(inTurn(500, 204, 204));
  await inTurnOf(2);
  const at = '2026-01-01T00:00:00.000Z';
  expect(sender.log()).toMatchObject([
    { at, attempts: 1, answer: 204, outcome: 'delivered', type: 'MessageReceived' },
    { at, attempts: 2, answer: 204, outcome: 'delivered', type: 'MessageReceived' },
  ]);
});

test('6.3: the simulator checks the address at every attempt, and sends nothing to a private one', async () => {
  const addresses = ['203.0.113.5'];
  const resolve = () => Promise.resolve(addresses);
  const { service, key } = await setUp(undefined, { addresses: { resolve, loopback: true } });
  const { webhook } = await service.webhooks.register(key, { url: 'https://hooks.example/in' });
  addresses[0] = '10.0.0.7';
  expect(await webhook.deliver(service.history.next())).toMatchObject({ statuses: Array(8).fill('address refused') });
});

test('6.3: each attempt checks which numbers the API key may read at that moment', async () => {
  const { service, key, sender, history, make } = await setUp();
  const [event] = make(1);
  if (!event) throw new Error('no event');
  const other = history.numbers.find((number) => number !== event.sessionId);
  service.keys.edit(key, { numbers: [other ?? ''] });
  expect(await sender.deliver(event)).toMatchObject({ outcome: 'stopped', attempts: 0 });
});

test('5.1: a webhook of a revoked API key cannot be registered: API_AUTH_REVOKED', async () => {
  const { service, key } = await setUp();
  service.keys.revoke(key);
  const refused = service.webhooks.register(key, { url: 'https://hooks.example/in' });
  await expect(refused).rejects.toMatchObject({ status: 401, reason: 'API_AUTH_REVOKED' });
});

test('6.4, E28: if events are bare in all, the envelope names no session either', async () => {
  const { got, sender, history } = await setUp();
  const session = () => (JSON.parse(got.at(-1)?.body.toString() ?? '') as { session_id: unknown }).session_id;
  history.bare('on');
  await sender.deliver(history.next('MessageSent'));
  expect(session()).toEqual(expect.any(String));
  history.bare('all');
  await sender.deliver(history.next('MessageSent'));
  expect(session()).toBeNull();
  await sender.deliver(history.next('MessageReceived'));
  expect(session(), 'the contract shows that it has one').toEqual(expect.any(String));
});

test('6.3: a webhook gets events of the types that it chose, and no others', async () => {
  const { got, service, key, url } = await setUp();
  await service.webhooks.register(key, { url: `${url}chosen`, events: ['MessageSent'] });
  const chosen = () => got.filter(({ path }) => path === '/chosen').map(typeOf);
  for (const type of ['MessageReceived', 'MessageSent', 'CampaignUpdated']) service.happen(1, type);
  await service.webhooks.settled();
  expect(got).toHaveLength(4);
  expect(chosen()).toEqual(['MessageSent']);
});

test('6.3: each webhook gets its own delivery of an event, with its own id and secret', async () => {
  const { got, service, key, sender, url } = await setUp();
  const { webhook: other } = await service.webhooks.register(key, { url: `${url}other`, secret: 'whsec_other' });
  service.happen();
  await service.webhooks.settled();
  expect(new Set(got.map(idOf)).size).toBe(1);
  expect(new Set(got.map(({ headers }) => headers['x-svc-delivery-id'])).size).toBe(2);
  for (const { path, headers, body } of got) {
    const [id, secret] = path === '/other' ? [other.id, 'whsec_other'] : [sender.id, SECRET];
    expect(JSON.parse(body.toString())).toMatchObject({ webhook_id: id });
    expect(headers['x-svc-signature']).toBe(signatureOf(secret, SECONDS, body));
  }
});

test('5.4, 6.3: a webhook of an API key restricted to numbers gets only their events', async () => {
  const { got, service, key, history } = await setUp();
  const [one = '', other = ''] = history.numbers;
  service.keys.edit(key, { numbers: [one] });
  for (const sessionId of [other, one]) service.happen(1, 'MessageReceived', { sessionId });
  service.happen(1, 'CampaignUpdated');
  await service.webhooks.settled();
  expect(got.map(({ body }) => (JSON.parse(body.toString()) as { session_id: string }).session_id)).toEqual([one]);
});
