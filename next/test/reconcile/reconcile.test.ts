// Replay: what a pass stores and proves, what it does when the service lies or has forgotten, and how often it calls.
import { expect, test } from 'vitest';
import { backoffMs, createBudget } from '../../src/reconcile/budget.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
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
  const { pass } = (await startService(history)).reader(world, 'start');
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

test.each<[string, Lie, string | null, number[]]>([
  ['no JSON', says('<html>'), 'passing', [1]],
  ['another shape', says({ events: {}, has_more: false }), 'passing', [1]],
  ['no word about more', says({ events: [item('9')] }), 'passing', [1]],
  ['a cut answer', (response) => response.writeHead(200).write('{') && response.destroy(), 'passing', [1]],
  ['a redirect', says('', 302, { location: 'http://127.0.0.1:1/' }), 'passing', [1]],
  ['a limit', refuses(429, 'RATE_LIMITED'), 'passing', [1]],
  ['a fault', says('down', 503), 'passing', [1]],
  ['a key that is refused', refuses(401, 'API_KEY_INVALID'), 'final', [1]],
  ['items in another order, doubled, and old ones', says(page('3', '2', '3', '1')), null, [1, 2, 3]],
  ['a cursor that is no text', says(page(2, '3')), null, [1, 3]],
  ['an item that is none', says({ ...page('2'), events: [null, 7, item('2')] }), null, [1, 2]],
])('%s moves nothing that was not shown, and the next pass has it all', async (_, lie, kind, now) => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const { pass } = (await startService({ cursors: upTo(4) }, [lie])).reader(world);
  const fault = await pass().catch((error: { kind: string }) => error.kind);
  expect(fault).toBe(kind);
  expect([stored(world), watermark(world)]).toEqual([now, '1']);
  await pass();
  world.now += WINDOW;
  await pass();
  expect([stored(world), watermark(world)]).toEqual([upTo(4), '4']);
});

test('a service that promises more and shows none is asked once more, then later', async () => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const lie = says({ ...page(), has_more: true });
  const onward = says({ ...page(), has_more: true, next_cursor: '3' });
  const service = await startService({ cursors: upTo(4) }, [lie, lie, onward]);
  const { pass } = service.reader(world);
  await expect(pass()).rejects.toMatchObject({ kind: 'passing' });
  await pass();
  expect(service.asked).toEqual(['1', '1', '1', '3']);
  // Nobody has shown 2 and 3.
  expect(watermark(world)).toBe('1');
});

test('never more items are taken than were asked for', async () => {
  const service = await startService({ cursors: [] }, [says(page('1', '2', '3'))]);
  expect(await service.read(null, 2)).toMatchObject({ cursors: ['1', '2'], hasMore: true });
});

test.each([
  ['says so', { cursors: upTo(60, 41), oldest: 40 }, 40],
  ['refuses numbers that were never events', { cursors: upTo(60, 41), knows: [45, 50, 60] }, 45],
])('what a service that %s no longer has is a gap, told once to handlers', async (_, history, end) => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const service = await startService({ cursors: [] });
  await service.reader(world).pass();
  await world.accept(...[45, 50, 60].map((cursor) => ({ cursor })));
  const { pass, store } = (await startService(history)).reader(world);
  await pass();
  expect(gaps(world)).toEqual([{ after: 1, upTo: end, closed: 0 }]);
  expect(stored(world)).toEqual(
    [1, ...upTo(60, Math.max(41, end + 1)), ...(end === 45 ? [45] : [])].toSorted((a, b) => a - b),
  );
  for (let round = 0; round < 2; round++) await world.store.ingest.accept({ readings: await store.gapEvents() });
  expect(world.rows('select id, type from events where cursor is null')).toEqual([{ id: 'gap:1', type: 'kit.gap' }]);
});

test('with no cursor that the service knows, the gap ends at the next event', async () => {
  const world = createWorld();
  await world.accept({ cursor: 1 });
  const history = { cursors: [70, 71], oldest: 70 };
  const { pass } = (await startService(history)).reader(world);
  expect(await pass()).toMatch('waiting for the next event');
  expect(gaps(world)).toEqual([{ after: 1, upTo: null, closed: 0 }]);
  await world.accept({ cursor: 70 });
  await pass();
  expect(gaps(world)).toEqual([{ after: 1, upTo: 70, closed: 0 }]);
  expect(stored(world)).toEqual([1, 70, 71]);
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

test('calls stay within a sixth of the limit, and waits double up to a minute', () => {
  let now = 0;
  const budget = createBudget(60, () => now);
  const calls = Array.from({ length: 12 }, () => budget.take());
  expect(calls).toEqual([...Array.from({ length: 10 }, () => 0), 6_000, 6_000]);
  now = 6_000;
  expect([budget.take(), budget.take()]).toEqual([0, 6_000]);
  expect([0, 1, 2, 20].map((failures) => backoffMs(failures, 1))).toEqual([1_000, 2_000, 4_000, 60_000]);
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
