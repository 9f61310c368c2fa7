// What people change: lanes and counters stay right, and nothing is changed without a filter.
import { expect, test } from 'vitest';
import { createWorld, failed, over, WINDOW, type World } from '../store/fixture.ts';
import { ask, counted, report } from './fixture.ts';

/** Handler h has taken up an event for each type, cursors from 1 on, all in one lane. */
async function worldWith(as: 'done' | 'dead' | 'waiting' = 'waiting', types = ['A', 'A', 'B']): Promise<World> {
  const world = await createWorld().begin();
  await world.accept(...types.map((type, n) => ({ type, cursor: n + 1, id: `e${n + 1}` })));
  await world.settle();
  if (as === 'waiting') return world;
  world.now += WINDOW;
  await world.settle((await world.settle()).map((claim) => over(claim, as)));
  return world;
}

/** The cursors that handler h gets now. */
async function claimed(world: World): Promise<(string | null)[]> {
  world.now += WINDOW;
  return (await Promise.all((await world.settle()).map((claim) => world.cursors(claim)))).flat();
}

const right = (world: World): void => expect(counted(world)[0]).toEqual(counted(world)[1]);

test('a dead letter that is retried is due now, with all its attempts', async () => {
  const world = await worldWith('dead', ['A']);
  world.store.db.raw.exec('update tasks set attempts = 5, crashes = 4');
  expect(await ask(world, 'retry', { handler: 'h', event: 'e1' })).toEqual({ retried: 1 });
  expect(world.count('select count(*) from tasks where state + attempts + crashes = 0 and rerun = 1')).toBe(1);
  right(world);
  expect(await claimed(world)).toEqual(['1']);
});

test.each([
  [{ event: '1' }, { retried: 1 }],
  [{ all: 'true' }, { failing: 1 }],
])('a task in back-off that is retried by %j does not wait for it', async (which, answer) => {
  const world = await worldWith('waiting', ['A']);
  world.now += WINDOW;
  const [claim] = await world.settle();
  if (claim) await world.settle([failed(claim, world.now + 3_600_000)]);
  const failing = await ask(world, 'retry', { handler: 'h', ...which });
  expect([failing, await claimed(world)]).toMatchObject([answer, ['1']]);
});

test('many dead letters are retried as a rerun behind live work, those of the filter alone', async () => {
  const world = await worldWith('dead');
  await ask(world, 'retry', { handler: 'h', type: 'A', perMinute: '600' });
  expect(world.rows('select only, per_minute as pace from reruns')).toEqual([{ only: 'dead', pace: 600 }]);
  expect((await world.reruns.page([1]))?.events.map(({ cursor }) => cursor)).toEqual(['1', '2']);
});

test('an error is meant as it stands, and not as a pattern', async () => {
  const world = await worldWith('dead');
  world.store.db.raw.exec("update tasks set error = iif(cursor = 1, '50% of it', '50 of it')");
  await ask(world, 'retry', { handler: 'h', error: '50%' });
  expect((await world.reruns.page([1]))?.events.map(({ cursor }) => cursor)).toEqual(['1']);
});

test('discarded tasks end as skipped, and their lane goes on with the next one', async () => {
  const world = await worldWith();
  expect(await ask(world, 'discard', { handler: 'h', type: 'A' })).toEqual({ discarded: 2 });
  right(world);
  expect(await claimed(world)).toEqual(['3']);
});

test('discarding reaches beyond the stretch that one transaction passes', async () => {
  const world = await worldWith('waiting', ['A']);
  world.store.db.raw.exec(`with recursive n (n) as (select 2 union all select n + 1 from n where n < 5000)
    insert into events (seq, cursor, type, received_at, origin, origins) select n, n, 'B', 1, 1, 1 from n;
    insert into tasks (event, handler, lane, cursor, due_at) select seq, 1, seq, cursor, 1 from events where seq > 1;
    update handlers set waiting = 5000`);
  expect(await ask(world, 'discard', { handler: 'h', type: 'B' })).toEqual({ discarded: 4_999 });
  right(world);
});

test('a page that was read before its rerun was stopped puts nothing back', async () => {
  const world = await worldWith('done');
  await ask(world, 'rerun', { handler: 'h', type: 'A' });
  const page = await world.reruns.page([1]);
  await ask(world, 'rerun', { handler: 'h', stop: 'true' });
  if (page) await world.reruns.apply(world.boot, page, world.plan(1, page.events));
  expect(world.rows('select tasks, ended_at is null as open from reruns')).toEqual([{ tasks: 0, open: 0 }]);
  expect(await claimed(world)).toEqual([]);
});

test('a rerun hands over the events of a stretch again', async () => {
  const world = await worldWith('done');
  await ask(world, 'rerun', { handler: 'h', from: '2', to: '2' });
  const page = await world.reruns.page([1]);
  expect(page?.events.map(({ cursor }) => cursor)).toEqual(['2']);
  if (page) await world.reruns.apply(world.boot, page, world.plan(1, page.events));
  right(world);
  expect(await claimed(world)).toEqual(['2']);
});

test('a forgotten handler leaves nothing behind, and no other handler loses anything', async () => {
  const world = await createWorld([{ name: 'gone' }, { name: 'stays' }]).begin();
  await world.accept({ cursor: 1 });
  await world.settle();
  await world.load([{ name: 'stays' }]);
  const list = await ask<{ name: string }[]>(world, 'handlers', { forget: 'gone' });
  expect(list.map(({ name }) => name)).toEqual(['stays']);
  expect(world.count('select count(*) from tasks join lanes on lanes.id = tasks.lane')).toBe(1);
  right(world);
});

test('a wish to read history is left for keep', async () => {
  const world = await worldWith();
  await report(world);
  await ask(world, 'reconcile', { from: '2' });
  expect(world.value("select value from state where name = 'reconcile_asked'")).toBe(
    JSON.stringify({ at: world.now, from: '2' }),
  );
});

const pause = (world: World) => world.pause('h', true);
const breakIt = (world: World) => world.load([{ name: 'h' }], [{ name: 'h' }]);
test.each<[string, string, object, ((world: World) => unknown) | null, RegExp]>([
  ['discarding without a filter', 'discard', { handler: 'h' }, null, /^say which: --event/],
  ['retrying without a filter', 'retry', { handler: 'h' }, null, /^say which: --event/],
  [
    'retrying one event with a pace',
    'retry',
    { handler: 'h', event: '1', perMinute: '60' },
    null,
    /^--event names one/,
  ],
  [
    'retrying one event with a filter',
    'retry',
    { handler: 'h', event: '1', type: 'B' },
    null,
    /^--event names one task/,
  ],
  ['a rerun of a paused handler', 'rerun', { handler: 'h', all: true }, pause, /^h is paused: run npx kit resume h/],
  [
    'a retry of a broken handler',
    'retry',
    { handler: 'h', all: true },
    breakIt,
    /^h is broken \(broken\): correct its file/,
  ],
  ['a rerun of a missing handler', 'rerun', { handler: 'h', all: true }, (world) => world.load([]), /^h is missing/],
  ['an unknown handler', 'pause', { handler: 'x' }, null, /^there is no handler x: there are h$/],
  ['forgetting a handler that works', 'handlers', { forget: 'h' }, null, /^h has a file and works/],
  ['history that is not read', 'reconcile', {}, null, /^history is not read: set API_BASE_URL/],
  [
    'history that was pruned',
    'reconcile',
    { from: '4' },
    async (world) => {
      await report(world);
      world.store.db.raw.exec("insert into state values ('floor', '\"5\"')");
    },
    /^pruning has removed everything up to 5/,
  ],
])('%s is refused, with what to do', async (_, name, args, make, words) => {
  const world = await worldWith('done');
  await make?.(world);
  await expect(ask(world, name, args)).rejects.toThrow(words);
  expect(world.count('select count(*) from reruns')).toBe(0);
});

test('a rerun by cursors above 2^53 takes exactly the one that was named', async () => {
  const world = await worldWith('done');
  const high = '9007199254740993';
  world.store.db.raw.exec(`update events set cursor = ${high} - 2 + seq where seq < 3`);
  await ask(world, 'rerun', { handler: 'h', from: high, to: high });
  expect((await world.reruns.page([1]))?.events.map(({ cursor }) => cursor)).toEqual([high]);
});
