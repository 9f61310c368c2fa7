// What keep does to a real store: it keeps the log short, prunes, samples, holds room free and writes alarms down.
import Database from 'better-sqlite3';
import { existsSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from '../../src/base/log.ts';
import { createAlarms } from '../../src/keep/alarms.ts';
import { createBallast, makeRoom } from '../../src/keep/ballast.ts';
import { createCheckpoints, logBytes } from '../../src/keep/checkpoint.ts';
import { createPruning } from '../../src/keep/prune.ts';
import { createSamples } from '../../src/keep/samples.ts';
import { deliver, startKit, until } from '../harness.ts';
import { report } from '../operations/fixture.ts';
import { createWorld, type World } from '../store/fixture.ts';

const DAY = 86_400_000;
const log = createLog('keep', 'silent');
const parts = (world: World) => {
  const config = { RETENTION_DAYS: 30, storePath: world.file };
  return { db: world.people, config, log };
};
const names = (world: World): unknown => world.rows('select name from alarms');

test('a foreign reader lets the log grow, which is an alarm; when it ends, the log is cut', async () => {
  const world = await createWorld([]).begin();
  await report(world);
  const [checkpoint, alarms] = [createCheckpoints(world.file, world.people), createAlarms(parts(world))];
  const reader = new Database(world.file);
  onTestFinished(() => void reader.close());
  reader.exec('begin; select * from events');
  for (let n = 0; n < 70; n++) await world.accept({ data: { text: 'x'.repeat(2 ** 20) } });
  await checkpoint();
  await alarms();
  expect([logBytes(world.file) > 64 * 2 ** 20, names(world)]).toEqual([true, [{ name: 'log_large' }]]);
  reader.exec('commit');
  await checkpoint();
  await alarms();
  expect([logBytes(world.file) < 2 ** 20, names(world)]).toEqual([true, []]);
});

/** Events without tasks, one a day. */
function fill(world: World, days: number): void {
  world.store.db.raw.exec(`with recursive n (n) as (select 1 union all select n + 1 from n where n < ${days})
    insert into events (cursor, type, received_at, origin, origins) select n, 'A', n * ${DAY}, 1, 1 from n`);
  world.now = days * DAY;
}

const left = (world: World): number => world.count('select count(*) from events');

test('pruning goes on page by page, past events that must stay, and then rests for an hour', async () => {
  const world = await createWorld([]).begin();
  fill(world, 1_200);
  world.store.db.raw.exec(`insert into tasks (event, handler, lane, cursor, due_at) select seq, 1, 1, cursor, 1
    from events where seq <= 600`);
  const prune = createPruning(parts(world));
  let pages = 0;
  while ((await prune()) < 3_600_000) pages++;
  expect([pages, left(world), world.count('select min(seq) from events where seq > 600')]).toEqual([2, 631, 1_170]);
  expect(world.count("select value ->> '$' from state where name = 'floor'")).toBe(1_169);
});

test('nothing is pruned while the clock is a day ahead of what is known', async () => {
  const world = await createWorld([]).begin();
  fill(world, 40);
  world.now += 2 * DAY;
  const prune = createPruning(parts(world));
  await prune();
  expect(left(world)).toBe(40);
  world.now -= 2 * DAY;
  await prune();
  expect(left(world)).toBe(31);
});

test('samples are kept one a minute, for a week', async () => {
  const world = await createWorld().begin();
  const sample = createSamples(parts(world));
  await world.accept({ cursor: 1 });
  expect(await sample()).toBe(60_000 - (world.now % 60_000));
  await sample();
  expect(world.rows('select at, events, waiting from samples')).toEqual([{ at: 960_000, events: 1, waiting: 0 }]);
  world.now += 8 * DAY;
  await sample();
  expect(world.count('select count(*) from samples')).toBe(1);
});

test('room is held free, given up on a full disk, and taken again', async () => {
  const { file } = await createWorld([]).begin();
  const ballast = createBallast(file);
  ballast();
  expect(existsSync(`${file}-ballast`)).toBe(true);
  makeRoom(file);
  expect(existsSync(`${file}-ballast`)).toBe(false);
  ballast();
  expect(existsSync(`${file}-ballast`)).toBe(true);
});

test('a keep that is killed comes back, as does a run while it loads, and deliveries are taken meanwhile', async () => {
  const once = "execSync('[ -e run-died ] || { touch run-died; kill -9 $PPID; }')";
  const source = `import { execSync } from 'node:child_process';\n${once};\nexport default { on: '*', handle() {} };`;
  const kit = await startKit({ handlers: { 'dies-once.js': source } });
  expect((await kit.status()).events).toBe(0);
  const [pid = 0] = kit.pids('keep/main');
  process.kill(pid, 'SIGKILL');
  expect(await deliver(kit.url, { cursor: '1', type: 'Other' })).toBe(204);
  await until('it to be handled', async () => (await kit.status()).tasks.done === 1);
  expect([kit.pids('keep/main').includes(pid), await kit.stop()]).toEqual([false, 0]);
});
