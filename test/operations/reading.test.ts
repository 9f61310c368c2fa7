// What people look at: lists by filter, the story of one event, quarantine, and the status of a real store.
import { expect, test } from 'vitest';
import type { Origin } from '../../src/wire/event.ts';
import { createWorld, failed, over, WINDOW, type World } from '../store/fixture.ts';
import { ask, report } from './fixture.ts';

type Row = Record<string, unknown>;

async function worldOf(...events: object[]): Promise<World> {
  const world = await createWorld().begin();
  for (const event of events) {
    await world.accept(event);
    world.now += 1_000;
  }
  return world;
}

async function keys(world: World, args: object): Promise<unknown[]> {
  return (await ask<Row[]>(world, 'events', args)).map(({ key }) => key);
}

const THREE = [
  { id: 'a', cursor: 1, type: 'A', session: 's1', data: { from: '+1', body: 'good morning' } },
  { id: 'b', cursor: 2, type: 'B', session: 's2', data: { from: '+12', body: 'MORNING' } },
  { id: 'c', type: 'A', session: 's2' },
];

test.each<[string, object, string[]]>([
  ['all, newest first', {}, ['i:c', 'c:2', 'c:1']],
  ['a number of them', { limit: '1' }, ['i:c']],
  ['those before one', { before: '3' }, ['c:2', 'c:1']],
  ['a type', { type: 'A' }, ['i:c', 'c:1']],
  ['a session', { session: 's2' }, ['i:c', 'c:2']],
  ['a sender, exactly', { sender: '+1' }, ['c:1']],
  ['a text', { text: 'morning' }, ['c:1']],
  ['those since a time', { since: '1970-01-01T00:16:41Z' }, ['i:c', 'c:2']],
  ['those until a time', { until: '1970-01-01T00:16:41' }, ['c:2', 'c:1']],
  ['those with an outcome', { outcome: 'dead' }, ['c:2']],
])('events are listed by %s', async (_, args, expected) => {
  const world = await worldOf(...THREE);
  world.now += WINDOW;
  await world.settle((await world.settle()).map((claim) => over(claim)));
  world.store.db.raw.exec('update tasks set state = 3 where event = 2');
  expect(await keys(world, args)).toEqual(expected);
});

test('a rare event is found behind many others', async () => {
  const world = await worldOf({ cursor: 1, session: 'rare' });
  world.store.db.raw.exec(`with recursive n (n) as (select 2 union all select n + 1 from n where n < 25000)
    insert into events (seq, cursor, type, received_at, origin, origins) select n, n, 'B', 1, 1, 1 from n`);
  expect(await keys(world, { session: 'rare' })).toEqual(['c:1']);
  expect(await keys(world, { type: 'B', before: '4' })).toEqual(['c:3', 'c:2']);
});

test('an event is explained: how it came, and for each handler what it did and waits for', async () => {
  const world = await worldOf({ id: 'a', cursor: 1 });
  await world.accept({ cursor: 1, origin: 'replay' as Origin });
  const [claim] = await world.settle();
  if (claim) await world.settle([failed(claim, world.now + 60_000)]);
  const told = await ask<{ event: Row; tasks: Row[] }>(world, 'explain', { event: 'a' });
  expect(told.event).toMatchObject({ key: 'c:1', origin: 'webhook', origins: ['webhook', 'replay'], deliveries: 1 });
  expect(told.event['receivedAt']).toBe('1970-01-01T00:16:40.000Z');
  const waitsFor = 'waits until 1970-01-01T00:17:41.000Z, to be tried again';
  const failures = [{ n: 1, at: '1970-01-01T00:16:41.000Z', error: 'no' }];
  expect(told.tasks).toMatchObject([{ handler: 'h', state: 'waiting', waitsFor, failures }]);
});

test.each<[string, (world: World) => unknown, RegExp]>([
  ['a paused handler', (world) => world.pause('h', true), /^waits because the handler is paused: npx kit res/],
  [
    'a file that is put right',
    (world) => world.load([{ name: 'h' }], [{ name: 'h' }]),
    /until the handler's file works/,
  ],
  ['the watermark', (world) => world.store.db.raw.exec('update tasks set due_at = 9e15'), /until replay has shown/],
  ['its own process', (world) => world.store.db.raw.exec('update tasks set crashes = 4'), /in a process of its own/],
  ['its turn', () => {}, /^is due: waits for a free place, or for an earlier task of its lane$/],
])('explain says in words that a task waits for %s', async (_, make, words) => {
  const world = await worldOf({ id: 'a', cursor: 1 });
  await world.turn([], { tasks: 0 });
  await make(world);
  world.now += WINDOW;
  const { tasks } = await ask<{ tasks: Row[] }>(world, 'explain', { event: 'c:1' });
  expect(tasks[0]?.['waitsFor']).toMatch(words);
});

test('tasks of one event are listed by the other filters too', async () => {
  const world = await createWorld([{ name: 'a' }, { name: 'b' }]).begin();
  await world.accept({ cursor: 1 });
  await world.settle();
  const list = await ask<Row[]>(world, 'tasks', { event: '1', handler: 'b' });
  expect(list).toMatchObject([{ handler: 'b', state: 'waiting', attempts: 0 }]);
  expect(await ask(world, 'tasks', { event: '1', state: 'dead' })).toEqual([]);
});

test('waiting tasks come oldest first, others newest first, and an event says what became of it', async () => {
  const world = await createWorld([{ name: 'a' }, { name: 'b', on: ['B'] }]).begin();
  await world.accept({ cursor: 1 }, { cursor: 2, type: 'B' });
  await world.settle();
  world.store.db.raw.exec('update tasks set state = 3 where handler = 1 and event = 2');
  const seen = async (args: object): Promise<unknown> =>
    (await ask<Row[]>(world, 'tasks', args)).map(({ handler, key }) => `${String(handler)} ${String(key)}`);
  expect(await seen({ state: 'waiting' })).toEqual(['a c:1', 'b c:2']);
  expect(await seen({})).toEqual(['a c:2', 'b c:2', 'a c:1']);
  const outcomes = (await ask<Row[]>(world, 'events')).map((row) => row['outcomes']);
  expect(outcomes).toEqual([{ a: 'dead', b: 'waiting' }, { a: 'waiting' }]);
});

test('quarantine lists what is no event, and shows its bytes on demand', async () => {
  const world = await worldOf({ cursor: 1, type: 'A' }, { cursor: 1, type: 'B' });
  const [line] = await ask<Row[]>(world, 'quarantine');
  expect(line).toEqual(expect.objectContaining({ id: 1, reason: 'conflict', cursor: '1', copies: 1, event: 1 }));
  expect((await ask<Row>(world, 'quarantine', { id: '1' }))['bytes']).toContain('"type":"B"');
});

test('the status of a store with a conversation that fails names it, and says since when', async () => {
  const world = await worldOf({ cursor: 1 });
  const [claim] = await world.settle();
  if (claim) await world.settle([failed(claim, world.now + 3_600_000)]);
  world.now += 180_000;
  await report(world);
  expect(await ask(world, 'status')).toMatchObject({
    headline: { level: 'warning', text: 'h has failed for 3 min, in 1 lane: npx kit tasks --causes' },
    oldestWaitingSeconds: 180,
    newestCursor: '1',
    events: 1,
    tasks: { waiting: 1, running: 0 },
    handlers: [{ name: 'h', state: 'failing', waiting: 1, dead: 0 }],
  });
});

test('tasks that run are no waiting ones', async () => {
  const world = await worldOf({ cursor: 1 }, { cursor: 2 });
  await world.settle([]);
  expect(await ask(world, 'status')).toMatchObject({ tasks: { waiting: 0, running: 2 }, oldestWaitingSeconds: null });
});

test.each<[string, object, RegExp]>([
  ['events', { colour: 'x' }, /^events has no colour: it takes type, session, /],
  ['status', { constructor: 'x' }, /^status has no constructor: it takes charts$/],
  ['events', { since: '2026-02-31' }, /must be a time, like 2026-01-31/],
  ['rerun', { handler: 'h', from: '1e3' }, /must be a cursor: digits/],
  ['quarantine', { id: '7' }, /^quarantine has no entry 7/],
])('%s refuses %j', async (name, args, words) => {
  await expect(ask(await worldOf(), name, args)).rejects.toThrow(words);
});
