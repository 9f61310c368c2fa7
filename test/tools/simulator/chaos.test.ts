import { expect, onTestFinished, test } from 'vitest';
import { createChaos } from '../../../src/tools/simulator/chaos.ts';
import { FAULTS, type FaultName } from '../../../src/tools/simulator/faults.ts';
import { createSimulatedService } from '../../../src/tools/simulator/service.ts';
import { createEndpoint, inTurn } from './endpoint.ts';

const COUNT = 2_000;
const draw = (seed: number) => {
  const chaos = createChaos({ seed, on: true });
  return Array.from({ length: COUNT }, () => chaos.ways());
};

test('the seed alone decides what happens to deliveries; the number of calls does not matter', () => {
  const one = draw(1);
  const chaos = createChaos({ seed: 1, on: true });
  const same = Array.from({ length: COUNT }, () => {
    chaos.fault();
    return chaos.ways();
  });
  expect(same).toEqual(one);
  expect(draw(2)).not.toEqual(one);
});

test('deliveries are dropped, duplicated, shuffled, delayed and forged in their shares', () => {
  const ways = draw(1);
  const share = (holds: (way: (typeof ways)[number]) => boolean) => ways.filter(holds).length / COUNT;
  const own = (way: (typeof ways)[number]) => way.filter(({ forged }) => !forged);
  expect(share((way) => own(way).length === 0)).toBeCloseTo(0.05, 1);
  expect(share((way) => own(way).length === 2)).toBeCloseTo(0.1, 1);
  expect(share((way) => way.some(({ forged }) => forged))).toBeCloseTo(0.05, 1);
  expect(share((way) => own(way).some(({ afterMs = 0 }) => afterMs > 0))).toBeCloseTo(0.31, 1);
  expect(share((way) => own(way).some(({ afterMs = 0 }) => afterMs > 2_000))).toBeGreaterThan(0);
});

test('chaos that is off changes nothing', () => {
  const chaos = createChaos({ seed: 1 });
  expect(chaos.ways()).toEqual([{}]);
  expect(chaos.fault()).toBeUndefined();
});

async function setUp() {
  const service = createSimulatedService({ seed: 1, speed: Infinity, addresses: { loopback: true } });
  const { key, secret } = service.keys.create({ name: 'tests', scopes: ['events:read'], validDays: null });
  const base = await service.listen();
  onTestFinished(() => service.close());
  const events = service.happen(4);
  const [first, ...page] = events.map(({ cursor }) => cursor ?? '');

  async function replay(name: FaultName) {
    service.chaos.next(name);
    const response = await fetch(`${base}/rpc/ReplayEvents`, {
      method: 'POST',
      redirect: 'manual',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify({ request: { after_cursor: first } }),
    });
    return response;
  }
  return { service, key, replay, first: first ?? '', page };
}

interface Page {
  events: { cursor: string; json_payload: string }[];
  next_cursor: string;
  has_more: boolean;
}

test.each<[FaultName, number, string?]>([
  ['429', 429, 'RATE_LIMITED'],
  ['500', 500],
  ['503', 503],
  ['504', 504, 'RPC_DEADLINE_EXCEEDED'],
  ['uncertain-sent', 503, 'OUTCOME_UNCERTAIN'],
  ['uncertain-unsent', 503, 'OUTCOME_UNCERTAIN'],
  ['deadline-unsent', 504, 'RPC_DEADLINE_EXCEEDED'],
  ['cursor-invalid', 400, 'EVENT_CURSOR_INVALID'],
  ['not-found', 404],
  ['too-large', 413, 'PAYLOAD_TOO_LARGE'],
])('7.2: the fault %s of the simulator answers a call with the status %i', async (name, status, reason) => {
  const { replay } = await setUp();
  const response = await replay(name);
  const { error } = (await response.json()) as { error: { reason?: string } };
  expect([response.status, error.reason, response.headers.has('retry-after')]).toEqual([status, reason, false]);
});

test.each<[FaultName, number, (text: string) => boolean]>([
  ['redirect', 302, (text) => text === ''],
  ['html', 200, (text) => text.startsWith('<!doctype')],
  ['empty', 200, (text) => text === ''],
  ['array', 200, (text) => text === '[]'],
  ['half', 200, (text) => text.startsWith('{"events"') && !text.endsWith('}')],
  ['page-types', 200, (text) => text.includes('"has_more":"no"')],
  ['drip', 200, (text) => text.endsWith('}')],
])('the answer with the fault %s is what the name says', async (name, status, fits) => {
  const { replay } = await setUp();
  const response = await replay(name);
  expect(response.status).toBe(status);
  expect(fits(await response.text())).toBe(true);
});

test('the fault cut breaks the connection in the middle of an answer', async () => {
  const { replay } = await setUp();
  await expect(replay('cut').then((response) => response.text())).rejects.toThrow();
});

test.each<[FaultName]>([['flood'], ['gzip']])('the fault %s sends more than a client should read', async (name) => {
  const { replay } = await setUp();
  const response = await replay(name);
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += (chunk as Uint8Array).length;
    if (bytes > 70 * 1024 * 1024) break;
  }
  expect(bytes).toBeGreaterThan(70 * 1024 * 1024);
});

test.each<[FaultName, (page: Page, truth: string[], after: string) => unknown]>([
  ['page-stuck', ({ next_cursor, has_more }, _, after) => has_more && next_cursor === after],
  ['page-back', ({ next_cursor }, _, after) => BigInt(next_cursor) < BigInt(after)],
  ['page-ahead', ({ next_cursor }, truth) => BigInt(next_cursor) > BigInt(truth.at(-1) ?? '')],
  ['page-empty', ({ events, has_more }) => events.length === 0 && has_more],
  ['page-end', ({ next_cursor, has_more }, truth) => !has_more && BigInt(next_cursor) > BigInt(truth.at(-1) ?? '')],
  [
    'page-short',
    ({ events, next_cursor, has_more }, truth) =>
      has_more && events.length === 1 && next_cursor === events[0]?.cursor && next_cursor === truth[0],
  ],
  ['items-reversed', ({ events }, truth) => events[0]?.cursor === truth.at(-1)],
  ['items-repeated', ({ events }, truth) => events.length === 2 * truth.length],
  ['items-old', ({ events }, _, after) => events[0]?.cursor === after],
  ['items-many', ({ events }) => events.length === 1_001],
  ['items-no-cursor', ({ events }) => events[0] && !('cursor' in events[0])],
  ['payload-not-json', ({ events }) => events[0]?.json_payload === 'not JSON'],
  ['payload-no-key', ({ events }) => events[0]?.json_payload === '{}'],
  ['payload-two-keys', ({ events }) => Object.keys(JSON.parse(events[0]?.json_payload ?? '') as object).length === 2],
])('the fault %s changes the page, but not the history', async (name, lies) => {
  const { service, replay, first, page } = await setUp();
  expect(lies((await (await replay(name)).json()) as Page, page, first)).toBe(true);
  expect(service.history.all()).toHaveLength(4);
});

test('6.4, E28: with chaos on, some events are bare', async () => {
  const { service } = await setUp();
  const bare = () => service.happen(100, 'MessageSent').filter((event) => event.bare === 'on').length;
  expect(bare()).toBe(0);
  service.chaos.turn(true);
  const count = bare();
  expect(count).toBeGreaterThan(2);
  expect(count).toBeLessThan(50);
});

test('every call gets the same fault until the test ends the fault', async () => {
  const { service, replay } = await setUp();
  service.chaos.always('503');
  expect((await replay('429')).status).toBe(429);
  const chaos = createChaos({ seed: 1 });
  chaos.always('cursor-invalid');
  expect([chaos.fault(), chaos.fault()]).toEqual([FAULTS['cursor-invalid'], FAULTS['cursor-invalid']]);
  chaos.always();
  expect(chaos.fault()).toBeUndefined();
});

test('6.3: with chaos on, every event that is not dropped is delivered, and forged deliveries are refused', async () => {
  const { service, key } = await setUp();
  const { url, got } = await createEndpoint(inTurn(204));
  await service.webhooks.register(key, { url });
  service.chaos.turn(true);
  const events = service.happen(200);
  await service.webhooks.settled();
  const ids = new Set(got.map(({ body }) => (JSON.parse(body.toString()) as { id: string }).id));
  expect(ids.size).toBeGreaterThan(170);
  expect(ids.size).toBeLessThan(events.length);
  expect(got.length).toBeGreaterThan(ids.size);
});
