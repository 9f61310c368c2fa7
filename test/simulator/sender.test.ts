import { createHmac } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createHistory } from '../../src/simulator/history.ts';
import { createSender, WAITS_MS, type AttemptRecord, type SenderOptions } from '../../src/simulator/sender.ts';
import { createEndpoint, inTurn, type Got } from './endpoint.ts';

const SECRET = 'whsec_of_the_tests';
const T0 = Date.UTC(2026, 0, 1);
const SECONDS = T0 / 1_000;

async function setUp(
  answer: (got: Got, response: ServerResponse) => void = inTurn(204),
  options: Partial<SenderOptions> = {},
) {
  const endpoint = await createEndpoint(answer);
  const clock = { at: T0, now: () => clock.at };
  const attempts: AttemptRecord[] = [];
  const sender = createSender({
    url: endpoint.url,
    secrets: [SECRET],
    seed: 1,
    // No waits.
    speed: Infinity,
    webhookId: 'wh_1',
    clock,
    onAttempt: (attempt) => attempts.push(attempt),
    ...options,
  });
  onTestFinished(() => sender.close());
  const history = createHistory({ seed: 1, clock });
  const make = (count: number) => Array.from({ length: count }, () => history.next());
  return { ...endpoint, clock, attempts, sender, history, make };
}

const idOf = ({ body }: Got): unknown => (JSON.parse(body.toString()) as { id: unknown }).id;
const signatureOf = (secret: string, seconds: number, body: Buffer): string =>
  `v1=${createHmac('sha256', secret).update(`${seconds}.${body.toString()}`).digest('hex')}`;

test('6.3: a delivery is a POST of these fields, signed', async () => {
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
    webhook_id: 'wh_1',
    data: { MessageReceived: event.data },
  });
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'x-svc-event-id': event.id,
    'x-svc-attempt': '1',
    'x-svc-timestamp': String(SECONDS),
    'x-svc-signature': signatureOf(SECRET, SECONDS, body),
  });
});

test('6.3: a test event has no cursor, and its message lies bare', async () => {
  const { got, sender, history } = await setUp();
  await sender.deliver(history.next('webhook.ping', { data: { message: 'hello' } }));
  const body: unknown = JSON.parse(got[0]?.body.toString() ?? '');
  expect(body).toMatchObject({ type: 'webhook.ping', cursor: null, session_id: null, data: { message: 'hello' } });
});

test('3.3: a delivery is tried 8 times, then abandoned; each attempt is signed at its own moment', async () => {
  const { got, clock, attempts, sender, make } = await setUp((one, response) => {
    clock.at += 1_000;
    inTurn(500)(one, response);
  });
  const [delivered] = await sender.deliverAll(make(1));
  expect(delivered).toMatchObject({ outcome: 'abandoned', attempts: 8, statuses: Array(8).fill(500) });
  expect(got.map(({ headers }) => headers['x-svc-attempt'])).toEqual(['1', '2', '3', '4', '5', '6', '7', '8']);
  expect(got.map(({ headers }) => Number(headers['x-svc-timestamp']) - SECONDS)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(new Set(got.map(({ headers }) => headers['x-svc-delivery-id'])).size).toBe(1);
  expect(attempts.map(({ attempt, answer }) => [attempt, answer])).toEqual(got.map((_, i) => [i + 1, 500]));
});

test('3.3: the waits are none, 30 s, 2, 10 and 30 min, 1, 2 and 4 h', () => {
  expect(WAITS_MS.map((ms) => ms / 60_000)).toEqual([0, 0.5, 2, 10, 30, 60, 120, 240]);
});

test('3.3: while a delivery waits for its next attempt, others go on', async () => {
  const { got, sender, make } = await setUp(inTurn(500, 204), { speed: 60 });
  const [a, b] = make(2);
  if (!a || !b) throw new Error('two events are needed');
  const first = sender.deliver(a);
  await vi.waitFor(() => expect(got).toHaveLength(1));
  await Promise.all([first, sender.deliver(b)]);
  expect(got.map(idOf)).toEqual([a.id, b.id, a.id]);
});

test('3.3: a delivery that is accepted at last is tried no more', async () => {
  const { sender, history } = await setUp(inTurn(503, 401, 200));
  expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'delivered', statuses: [503, 401, 200] });
});

test('6.3: any 2xx is success; a redirect is a failure and is not followed', async () => {
  const { got, sender, history } = await setUp(({ number }, response) => {
    response.writeHead(number === 1 ? 307 : 299, number === 1 ? { location: '/elsewhere' } : {}).end('ignored');
  });
  expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'delivered', statuses: [307, 299] });
  expect(got).toHaveLength(2);
});

test('6.3: an answer that does not come in time is a failure', async () => {
  const { sender, history } = await setUp(
    ({ number }, response) => {
      if (number > 1) response.writeHead(204).end();
    },
    { timeoutMs: 500 },
  );
  expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'delivered', statuses: ['timeout', 204] });
});

test('6.3: a connection that breaks is a failure', async () => {
  const { sender, history } = await setUp((one, response) => {
    if (one.number === 1) response.destroy();
    else inTurn(204)(one, response);
  });
  expect(await sender.deliver(history.next())).toMatchObject({ outcome: 'delivered', statuses: ['unreachable', 204] });
});

test('6.3: of an answer no more than 16 KiB are read, and it is a success all the same', async () => {
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
  const { got, sender, make } = await setUp(inTurn(500));
  const outcomes = await sender.deliverAll(make(3));
  expect(outcomes.map(({ outcome, attempts }) => [outcome, attempts])).toEqual([
    ['abandoned', 8],
    ['disabled', 7],
    ['disabled', 0],
  ]);
  expect(got).toHaveLength(15);
});

test('3.2: a success begins the count anew', async () => {
  const { sender, make } = await setUp(({ number }, response) =>
    response.writeHead(number % 15 === 0 ? 204 : 500).end(),
  );
  const outcomes = await sender.deliverAll(make(6));
  expect(outcomes.map(({ outcome }) => outcome)).toEqual(
    Array.from({ length: 3 }, () => ['abandoned', 'delivered']).flat(),
  );
});

test('a forged delivery is signed with another secret, refused once, and no failure of the webhook', async () => {
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

test('6.3: the same event can come several times, each under a delivery id of its own', async () => {
  const { got, sender, history } = await setUp();
  const event = history.next();
  expect(await sender.deliver(event, { copies: 3 })).toMatchObject({ outcome: 'delivered', statuses: [204, 204, 204] });
  expect(new Set(got.map(idOf))).toEqual(new Set([event.id]));
  expect(new Set(got.map(({ headers }) => headers['x-svc-delivery-id'])).size).toBe(3);
});

test('6.3: a delivery can be signed by a clock that is off', async () => {
  const { got, sender, history } = await setUp();
  await sender.deliver(history.next(), { ageSeconds: 301 });
  await sender.deliver(history.next(), { ageSeconds: -301 });
  expect(got.map(({ headers }) => Number(headers['x-svc-timestamp']) - SECONDS)).toEqual([-301, 301]);
});

test('without a plan, events are delivered one by one and in order', async () => {
  const { got, most, sender, make } = await setUp();
  const events = make(20);
  const outcomes = await sender.deliverAll(events);
  expect(got.map(idOf)).toEqual(events.map(({ id }) => id));
  expect(outcomes.map(({ event }) => event)).toEqual(events);
  expect(most()).toBe(1);
});

test('a plan shuffles within its window, drops, doubles and forges its shares', async () => {
  const { got, sender, make } = await setUp(({ headers, body }, response) => {
    response.writeHead(headers['x-svc-signature'] === signatureOf(SECRET, SECONDS, body) ? 204 : 401).end();
  });
  const events = make(400);
  const outcomes = await sender.deliverAll(events, {
    window: 10,
    dropped: 0.1,
    doubled: 0.2,
    forged: 0.1,
    concurrency: 8,
  });
  const count = (wanted: string) => outcomes.filter(({ outcome }) => outcome === wanted).length;
  const twice = 400 - count('dropped');
  expect(count('dropped')).toBeGreaterThan(20);
  expect(count('dropped')).toBeLessThan(60);
  expect(count('delivered') - twice).toBeGreaterThan(40);
  expect(count('refused')).toBeGreaterThan(20);
  expect(got).toHaveLength(count('delivered') + count('refused'));

  const places = outcomes.map(({ event }) => events.indexOf(event));
  expect(places).not.toEqual(places.toSorted((a, b) => a - b));
  let furthest = 0;
  for (const place of places) {
    expect(furthest - place).toBeLessThanOrEqual(10);
    furthest = Math.max(furthest, place);
  }
});

test('the same seed makes the same plan', async () => {
  const plan = { window: 5, dropped: 0.2, doubled: 0.2, forged: 0.2, concurrency: 4 };
  const [one, same, other] = await Promise.all(
    [1, 1, 2].map(async (seed) => {
      const { sender, make } = await setUp(inTurn(204), { seed });
      return (await sender.deliverAll(make(50), plan)).map(({ event, outcome }) => [event.id, outcome]);
    }),
  );
  expect(same).toEqual(one);
  expect(other).not.toEqual(one);
});

test('a plan says how many deliveries are under way at once', async () => {
  const waiting: ServerResponse[] = [];
  const { most, sender, make } = await setUp((_, response) => {
    // Nobody is answered before four are there.
    if (waiting.push(response) === 4) for (const one of waiting.splice(0)) one.writeHead(204).end();
  });
  const outcomes = await sender.deliverAll(make(8), { concurrency: 4 });
  expect(outcomes.every(({ outcome }) => outcome === 'delivered')).toBe(true);
  expect(most()).toBe(4);
});

test.each([
  ['X-Acme-', 'x-acme-signature'],
  ['X-Svc-', 'x-svc-signature'],
])('the prefix %s is the one of the headers', async (prefix, header) => {
  const { got, sender, history } = await setUp(inTurn(204), { prefix });
  await sender.deliver(history.next());
  expect(Object.keys(got[0]?.headers ?? {}).filter((name) => name.endsWith('-signature'))).toEqual([header]);
});
