// A turn: what is due, in which order, and what its end makes of a lane.
import { expect, test } from 'vitest';
import { erase } from '../../src/operations/store/erase.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { claimed, openWorld, failed, over, WINDOW } from './fixture.ts';

test('within the window a lane runs in cursor order, however events arrive', async () => {
  const world = await (await openWorld()).begin();
  await world.accept({ cursor: 10 }, { cursor: 9 });
  world.now += WINDOW - 1;
  await world.accept({ cursor: 8 });
  expect(await world.settle()).toEqual([]);
  world.now += WINDOW;
  expect(await world.cursors(await claimed(world))).toEqual(['8', '9', '10']);
});

test('cursors are compared as numbers', async () => {
  const world = await (await openWorld([{ name: 'h', order: 'arrival' }])).begin();
  await world.accept({ cursor: 100 }, { cursor: 9 }, { cursor: 20 });
  expect(await world.cursors(await claimed(world))).toEqual(['9', '20', '100']);
});

test('a head in back-off holds its lane, although later tasks are due', async () => {
  const world = await (await openWorld()).begin();
  await world.accept({ cursor: 1 }, { cursor: 2 });
  world.now += WINDOW;
  const claim = await claimed(world);
  expect(await world.turn([failed(claim, world.now + 500)])).toMatchObject({ claims: [], nextAt: world.now + 500 });
  world.now += 499;
  expect(await world.settle()).toEqual([]);
  world.now += 1;
  const again = await claimed(world);
  expect(await world.cursors(again)).toEqual(['1', '2']);
  expect(again.tasks[0]).toMatchObject({ attempts: 1, failedAt: world.now - 500 });
});

test('a task that steps aside frees its lane, runs late, and makes lower ones late', async () => {
  const world = await (await openWorld()).begin();
  await world.accept({ cursor: 5 }, { cursor: 6 });
  world.now += WINDOW;
  const claim = await claimed(world);
  const [next] = await world.settle([failed(claim, world.now + 10_000, { aside: true })]);
  expect(await world.cursors(next)).toEqual(['6']);
  await world.accept({ cursor: 4 });
  await world.settle(next ? [over(next)] : []);
  world.now += WINDOW;
  const lower = await claimed(world);
  expect(lower.tasks[0]?.late).toBe(true);
  await world.settle([over(lower)]);
  world.now += 10_000;
  const aside = await claimed(world);
  expect([await world.cursors(aside), aside.tasks[0]?.late]).toEqual([['5'], true]);
  await world.settle([over(aside)]);
  expect(await world.number('select count(*) from lanes where id < 0')).toBe(0);
});

test('a chain leaves off where it was left, and what it did not run keeps its attempts', async () => {
  const world = await (await openWorld([{ name: 'h', order: 'arrival' }])).begin();
  await world.accept({ cursor: 1 }, { cursor: 2 }, { cursor: 3 });
  const claim = await claimed(world);
  const [first] = claim.tasks;
  await world.turn([{ claim, outcomes: [{ event: first?.event ?? 0, as: 'done', error: null }], free: false }]);
  expect(await world.settle()).toEqual([]);
  const [rest] = await world.settle([{ claim, outcomes: [], free: true }]);
  expect([await world.cursors(rest), rest?.tasks[0]?.attempts]).toEqual([['2', '3'], 0]);
});

test('a handler that is behind claims only what no lower arrival can precede', async () => {
  const world = await (await openWorld()).begin();
  await world.accept({ cursor: 1_000 });
  world.now += WINDOW;
  await world.accept(...Array.from({ length: 255 }, (_, n) => ({ cursor: 2_000 + n })), { cursor: 5 });
  world.now += 10 * WINDOW;
  const { claims, more } = await world.turn();
  expect([await world.cursors(claims[0]), more]).toEqual([['1000'], true]);
});

test('strict tasks wait for the watermark, which only replay moves', async () => {
  const world = await (await openWorld([{ name: 'h', order: 'strict' }])).begin();
  await world.exec("insert into state values ('watermark', '\"1\"')");
  await world.accept({ cursor: 2 }, { cursor: 4 });
  world.now += 1_000_000;
  expect((await world.turn()).held).toBe(true);
  await world.store.ingest.accept({ readings: [], proves: { from: '1' as never, to: '3' as never } });
  expect(await world.cursors(await claimed(world))).toEqual(['2']);
});

test('a paused handler takes up events and begins nothing; a missing one keeps its position and catches up', async () => {
  const world = await (
    await openWorld([
      { name: 'a', order: 'arrival' },
      { name: 'b', order: 'arrival' },
    ])
  ).begin();
  await world.pause('a', true);
  await world.load(world.defs.slice(0, 1));
  await world.accept({ cursor: 1 });
  expect(await world.settle()).toEqual([]);
  expect(await world.all('select name, waiting from handlers order by name')).toEqual([
    { name: 'a', waiting: 1 },
    { name: 'b', waiting: 0 },
  ]);
  await world.load();
  expect((await world.settle()).map(({ handler }) => handler)).toEqual([world.ids.get('b')]);
  await world.pause('a', false);
  expect(await world.settle()).toHaveLength(1);
});

test('the first handlers have all events, and a new one those after the newest of its start', async () => {
  const world = await openWorld([{ name: 'a' }]);
  await world.accept({ cursor: 1 });
  await world.begin();
  world.defs.push({ name: 'b' });
  await world.load();
  await world.accept({ cursor: 2 });
  world.now += WINDOW;
  expect(await Promise.all((await world.settle()).map((claim) => world.cursors(claim)))).toEqual([['1', '2'], ['2']]);
});

test('no claim takes more of a lane than its chain, nor more tasks than there is room for', async () => {
  const world = await (
    await openWorld([{ name: 'h', order: 'arrival', lane: ({ cursor }) => `lane ${Number(cursor) % 3}` }])
  ).begin();
  await world.accept(...Array.from({ length: 30 }, (_, n) => ({ cursor: n + 1 })));
  const { claims } = await world.turn([], { tasks: 4, chain: 2 });
  expect(claims.map(({ tasks }) => tasks.length)).toEqual([2, 2]);
});

test('a strict handler that is behind begins nothing, because a lower cursor may stand in the next page', async () => {
  const world = await (await openWorld([{ name: 'h', order: 'strict' }])).begin();
  await world.accept(...Array.from({ length: 256 }, (_, n) => ({ cursor: 1_000 + n })), { cursor: 5 });
  await world.store.ingest.accept({ readings: [], proves: { from: null, to: '2000' as never } });
  expect(await world.turn()).toMatchObject({ claims: [], more: true });
  expect((await world.cursors(await claimed(world)))[0]).toBe('5');
});

test('RetryAfter costs no attempt, and the first failure is remembered', async () => {
  const world = await (await openWorld([{ name: 'h', order: 'arrival' }])).begin();
  await world.accept({ cursor: 1 });
  const claim = await claimed(world);
  const [again] = await world.settle([failed(claim, world.now, { spent: false })]);
  expect(again?.tasks[0]).toMatchObject({ attempts: 0, failedAt: world.now });
  const first = world.now;
  world.now += 50;
  const [third] = await world.settle(again ? [failed(again, world.now)] : []);
  expect(third?.tasks[0]).toMatchObject({ attempts: 1, failedAt: first });
});

test('a window or an arrival handler lets go of tasks that waited for the watermark', async () => {
  const world = await (await openWorld([{ name: 'h', order: 'strict' }])).begin();
  await world.accept({ cursor: 2 });
  expect(await world.settle()).toEqual([]);
  for (const def of world.defs) def.order = 'arrival';
  expect(await world.cursors(await claimed(world))).toEqual(['2']);
});

test('what was looked at before another turn is not fanned out again', async () => {
  const world = await (await openWorld([{ name: 'h', order: 'arrival' }])).begin();
  await world.accept({ cursor: 1 });
  const seen = await world.store.work.look([...world.ids.values()]);
  const [claim] = await world.settle();
  await world.accept({ cursor: 2 });
  await world.settle(claim ? [over(claim)] : []);
  const position = (): Promise<number> => world.number('select position from handlers');
  const before = await position();
  await world.turn([], { seen });
  expect([await position(), await world.number('select count(*) from tasks')]).toEqual([before, 2]);
});

test('a task of a rerun that fails steps aside at once, so that it holds up nothing', async () => {
  const world = await (await openWorld()).begin();
  await world.accept({ cursor: 1 }, { cursor: 2 });
  world.now += WINDOW;
  await world.settle([over(await claimed(world))]);
  await world.rerun('h');
  const claim = await claimed(world);
  const next = await world.settle([failed(claim, world.now + 9_000)]);
  expect([await world.cursors(claim), next.length, await world.cursors(next[0])]).toEqual([['1', '2'], 1, ['2']]);
});

test('an event that is erased before its turn leaves no error of a lane function', async () => {
  const world = await (await openWorld()).begin();
  await world.accept({ cursor: 1 });
  const look = await world.store.work.look([...world.ids.values()]);
  await erase(world.people, { event: 1 });
  const [handler = 0] = world.ids.values();
  const task = { handler, event: 1, cursor: '1' as Cursor, receivedAt: 0, lane: null, dead: 'bad number +1555' };
  const fanOut = [{ handler, from: 0, upTo: 1, tasks: [task] }];
  const rooms = [{ handler, order: 'arrival' as const, windowMs: 0, chain: 1, tasks: 1 }];
  await world.store.work.turn({ boot: world.boot, look, ended: [], fanOut, rooms, claim: 1, suspects: false });
  expect(await world.all('select state, error from tasks')).toEqual([{ state: 3, error: 'erased' }]);
});
