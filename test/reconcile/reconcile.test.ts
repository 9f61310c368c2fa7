// Replay: what a pass stores and proves, what it does when the service lies or has forgotten, and how often it calls.
import { tell } from '../../src/operations/store/open.ts';
import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { createLog } from '../../src/base/log.ts';
import { loadConfig } from '../../src/config.ts';
import { Reconciler } from '../../src/reconcile/reconciler.ts';
import { readFacts } from '../../src/operations/store/facts.ts';
import { StoreError, type IngestStore } from '../../src/store/store.ts';
import { positionOf, untoldGaps } from '../../src/reconcile/store.ts';
import { ServiceError } from '../../src/service/errors.ts';
import { TOO_LARGE } from '../../src/service/exchange.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { until } from '../harness.ts';
import { createWorld, WINDOW } from '../store/fixture.ts';
import { gaps, OVERLAP, item, page, refuses, says, startService, stored, watermark, type Lie } from './service.ts';

const upTo = (n: number, from = 1): number[] => Array.from({ length: n - from + 1 }, (_, k) => from + k);

test('a pass reads to the end, and proves the end only when it has been stored for a window', async () => {
  const world = createWorld();
  const service = await startService({ cursors: upTo(5), page: 2 });
  const { pass } = service.reader(world);
  expect(await pass()).toBe('waiting for the first event');
  await world.accept({ cursor: 1 });
  await pass();
  expect(service.asked).toEqual(['1', '3']);
  expect([stored(world), watermark(world)]).toEqual([upTo(5), '3']);
  world.now += WINDOW;
  await pass();
  expect(watermark(world)).toBe('5');
});

test('what becomes visible behind the watermark is found by the overlap', async () => {
  const world = createWorld();
  const history = { cursors: [1, 2, 4, 5] };
  const { pass } = (await startService(history)).reader(world, null);
  await pass();
  world.now += WINDOW;
  await pass();
  expect(watermark(world)).toBe('5');
  history.cursors.push(3);
  await pass();
  expect(stored(world)).toEqual([1, 2, 4, 5]);
  await pass(true);
  expect(stored(world)).toEqual(upTo(5));
  world.now += 2 * OVERLAP;
  history.cursors.push(-1);
  await pass(true);
  expect(watermark(world)).toBe('5');
});

test.each<[string, Lie, number | null, number[]]>([
  ['no JSON', says('<html>'), 200, [1]],
  ['another shape', says({ events: {}, has_more: false }), 200, [1]],
  ['no word about more', says({ events: [item('9')] }), 200, [1]],
  ['a cut answer', (response) => response.writeHead(200).write('{') && response.destroy(), 0, [1]],
  ['a redirect', says('', 302, { location: 'http://127.0.0.1:1/' }), 302, [1]],
  ['a limit', refuses(429, 'RATE_LIMITED'), 429, [1]],
  ['a fault', says('down', 503), 503, [1]],
  ['a key that is refused', refuses(401, 'API_KEY_INVALID'), 401, [1]],
  ['items in another order, doubled, and old ones', says(page('3', '2', '3', '1')), null, [1, 2, 3]],
  ['a cursor that is no text', says(page(2, '3')), null, [1, 3]],
  ['an item that is none', says({ ...page('2'), events: [null, 7, item('2')] }), null, [1, 2]],
])('%s moves nothing that was not shown, and the next pass has it all', async (_, lie, status, now) => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const { pass } = (await startService({ cursors: upTo(4) }, [lie])).reader(world);
  const fault = await pass().catch((error: ServiceError) => error.status);
  expect(fault).toBe(status);
  expect([stored(world), watermark(world)]).toEqual([now, '1']);
  await pass();
  world.now += WINDOW;
  await pass();
  expect([stored(world), watermark(world)]).toEqual([upTo(4), '4']);
});

test('a service that promises more and shows none is asked later', async () => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const lie = says({ ...page(), has_more: true });
  const onward = says({ ...page(), has_more: true, next_cursor: '3' });
  const service = await startService({ cursors: upTo(4) }, [lie, onward]);
  const { pass } = service.reader(world);
  await expect(pass()).rejects.toMatchObject({ code: 'unreadable' });
  await pass();
  expect(service.asked).toEqual(['1', '1', '3']);
  // Nobody has shown 2 and 3.
  expect(watermark(world)).toBe('1');
});

test('never more items are taken than were asked for', async () => {
  const service = await startService({ cursors: [] }, [says(page('1', '2', '3'))]);
  expect(await service.read(null, 2)).toMatchObject({ cursors: ['1', '2'], hasMore: true });
});

test.each([
  ['says so', { cursors: upTo(60, 41), oldest: 40 }, 40],
  ['refuses numbers that were never events', { cursors: upTo(60, 41), knows: upTo(60, 41) }, 40],
  ['wants a cursor', { cursors: upTo(60, 41), knows: [45, 50, 60], wantsCursor: true }, 45],
])('what a service that %s no longer has is a gap, told once to handlers', async (_, history, end) => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const service = await startService({ cursors: [] });
  await service.reader(world).pass();
  await world.accept(...[45, 50, 60].map((cursor) => ({ cursor })));
  const { pass } = (await startService(history)).reader(world);
  await pass();
  expect(gaps(world)).toEqual([{ after: 1, upTo: end, closed: 0 }]);
  expect(stored(world)).toEqual(
    [1, ...upTo(60, Math.max(41, end + 1)), ...(end === 45 ? [45] : [])].toSorted((a, b) => a - b),
  );
  for (let round = 0; round < 2; round++)
    await world.store.ingest.accept({ readings: await untoldGaps(world.people, world.now) });
  expect(world.rows('select id, type from events where cursor is null')).toEqual([{ id: 'gap:1', type: 'kit.gap' }]);
});

test('what expires while a pass looks for the beginning is a gap, too', async () => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const history = { cursors: upTo(60, 41), oldest: 40 };
  const none = [undefined, undefined] as unknown as Lie[];
  const expire: Lie = (response) => {
    Object.assign(history, { cursors: upTo(60, 51), oldest: 50 });
    refuses(400, 'EVENT_CURSOR_INVALID')(response);
  };
  const { pass } = (await startService(history, [...none, expire])).reader(world);
  await expect(pass()).rejects.toThrow('EVENT_CURSOR_INVALID');
  await pass();
  expect(gaps(world)).toEqual([
    { after: 1, upTo: 40, closed: 0 },
    { after: 41, upTo: 50, closed: 0 },
  ]);
  expect(stored(world)).toEqual([1, 41, ...upTo(60, 51)]);
});

test('if the service shows nothing, the gap ends at the next event', async () => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const history = { cursors: [70, 71], oldest: 70, wantsCursor: true };
  const { pass } = (await startService(history)).reader(world);
  expect(await pass()).toMatch('waiting for the next event');
  expect(gaps(world)).toEqual([{ after: 1, upTo: null, closed: 0 }]);
  await world.accept({ cursor: 70 });
  await pass();
  expect(gaps(world)).toEqual([{ after: 1, upTo: 70, closed: 0 }]);
  expect(stored(world)).toEqual([1, 70, 71]);
});

test('a gap without an end closes when the service knows the watermark again', async () => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const history = { cursors: [] as number[], oldest: 2 };
  const { pass } = (await startService(history)).reader(world);
  await pass();
  Object.assign(history, { cursors: upTo(3), oldest: 0 });
  await untoldGaps(world.people, world.now, (await pass()) === null);
  expect([gaps(world), stored(world)]).toEqual([[{ after: 1, upTo: null, closed: 1 }], upTo(3)]);
});

test('a stretch that is read again closes its gap', async () => {
  const world = createWorld();
  await world.accept({ cursor: 1 }, { cursor: 5 });
  const history = { cursors: [6], oldest: 5 };
  const { pass, again } = (await startService(history)).reader(world);
  await pass();
  expect(gaps(world)).toMatchObject([{ closed: 0 }]);
  Object.assign(history, { oldest: 0, cursors: upTo(6) });
  await again(1);
  expect([gaps(world), stored(world)]).toMatchObject([[{ closed: 1 }], upTo(6)]);
});

test('a gap that the service cannot fill is closed when a person reads again from there', async () => {
  const world = createWorld();
  await world.accept({ cursor: 1 }, { cursor: 5 });
  const { pass, again } = (await startService({ cursors: [6], oldest: 5 })).reader(world);
  await pass();
  await again(0);
  expect(gaps(world)).toMatchObject([{ closed: 0 }]);
  await again(1);
  expect([gaps(world), stored(world)]).toMatchObject([[{ closed: 1 }], [1, 5, 6]]);
});

test('a replayed event is the one that the webhook brought', async () => {
  const world = createWorld();
  await world.accept({ id: 'a', cursor: 2, type: 'A', session: 's', data: { session_id: 's' } });
  const { pass } = (await startService({ cursors: upTo(3) })).reader(world, '1' as Cursor);
  await pass();
  expect(world.rows('select cursor, id from events order by cursor')).toEqual([
    { cursor: 2, id: 'a' },
    { cursor: 3, id: null },
  ]);
});

test('a page that is too large is asked for with fewer events', async () => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const service = await startService({ cursors: upTo(3) });
  const { read } = service;
  const limits: number[] = [];
  service.read = (after, limit) => {
    limits.push(limit);
    const large = new ServiceError({ code: 'unreadable', reason: TOO_LARGE, message: 'too large' });
    return limit > 10 ? Promise.reject(large) : read(after, limit);
  };
  await service.reader(world).pass();
  expect([limits, stored(world)]).toEqual([[1_000, 100, 10], upTo(3)]);
});

test('a refused key stops passes until a person asks; a fault of the store is told; what is asked in vain is told', async () => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const { access } = await startService({ cursors: upTo(3), knows: upTo(3) }, [refuses(403, 'RPC_METHOD_FORBIDDEN')]);
  const env = { WEBHOOK_SECRET: 'whsec_a', API_BASE_URL: access.baseUrl, API_KEY: access.apiKey };
  let isLocked = true;
  const accept: IngestStore['accept'] = (batch) =>
    isLocked ? Promise.reject(new StoreError('busy', 'it is locked')) : world.store.ingest.accept(batch);
  const options = {
    ingest: { accept },
    db: world.people,
    config: loadConfig(env),
    clock: systemClock,
    log: createLog('test', 'silent'),
  };
  const reconciler = new Reconciler(options);
  onTestFinished(() => reconciler.stop());
  async function told(state: string): Promise<unknown> {
    let reason: unknown;
    await until(state, async () => {
      const { reconcile } = (await readFacts(world.people)).state;
      const now = reconcile as { state: string; reason: string | null } | undefined;
      reason = now?.reason;
      return now?.state === state;
    });
    return reason;
  }
  expect(await told('stopped')).toBe(
    'ReplayEvents: 403 FAILED (RPC_METHOD_FORBIDDEN): see API_KEY, which needs events:read',
  );
  await tell(world.people, 'reconcile_asked', { at: 1, from: '9' });
  expect(await told('backing-off')).toBe('it is locked');
  isLocked = false;
  expect(await told('idle')).toBe('the service does not have the events after 9');
  expect(stored(world)).toEqual(upTo(3));
  // What came before the first pass that succeeded is no sign that the webhook is off.
  expect((await readFacts(world.people)).state).toMatchObject({ reconcile: { recovered: 2, recoveredAt: null } });
});

test('a triggered event with a cursor is neither where replay begins nor the newest that it looks for', async () => {
  const world = createWorld();
  await world.accept({ cursor: 9_000, id: 'kit_1' });
  await world.accept({ cursor: 5, id: 'e5' });
  const { lowest, newest } = await positionOf(world.people);
  expect([lowest, newest]).toEqual(['5', '5']);
});
