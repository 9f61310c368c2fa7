// Pruning: what may go, and what must stay.
import { prune } from '../../src/keep/prune.ts';
import { expect, test } from 'vitest';
import { createWorld, over, WINDOW, type World } from './fixture.ts';

const left = (world: World): unknown[] =>
  world.rows('select cast(cursor as text) as c from events order by seq').map((row) => (row as { c: string }).c);

async function handled(world: World, ...cursors: number[]): Promise<void> {
  await world.accept(...cursors.map((cursor) => ({ cursor })));
  world.now += WINDOW;
  const claims = await world.settle();
  await world.settle(claims.map((claim) => over(claim)));
}

test('old, handled events go, with their tasks and idle lanes, and the floor tells', async () => {
  const world = await createWorld().begin();
  await handled(world, 1, 2);
  await prune(world.people, world.now + 1);
  expect([left(world), world.count('select count(*) from tasks'), world.count('select count(*) from lanes')]).toEqual([
    [],
    0,
    0,
  ]);
  expect(world.rows("select value from state where name = 'floor'")).toEqual([{ value: '"2"' }]);
  expect(world.rows('select done, waiting from handlers')).toEqual([{ done: 0, waiting: 0 }]);
});

test.each<[string, (world: World) => unknown]>([
  ['received later', (world) => (world.now -= 10 * WINDOW)],
  ['above the watermark', (world) => world.store.db.raw.exec("insert into state values ('watermark', '\"0\"')")],
  [
    'above the position of a missing handler',
    (world) =>
      world.store.db.raw.exec("insert into handlers (name, file, state, position) values ('gone', '', 'missing', 0)"),
  ],
  ['with a waiting task', (world) => world.store.db.raw.exec('update tasks set state = 0')],
])('an event stays that is %s', async (_, make) => {
  const world = await createWorld().begin();
  await handled(world, 1);
  make(world);
  await prune(world.people, world.now);
  expect(left(world)).toEqual(['1']);
});

test('a lane above the floor stays, because it still says what is late', async () => {
  const world = await createWorld().begin();
  await handled(world, 5);
  const at = world.now;
  world.now += 1_000;
  await handled(world, 9);
  await prune(world.people, at + 1);
  await world.accept({ cursor: 7 });
  world.now += WINDOW;
  const [claim] = await world.settle();
  expect([left(world), claim?.tasks[0]?.late]).toEqual([['9', '7'], true]);
});
