// E8: no task waits without the row of its lane. The schema refuses such a task. A sweep notifies processes that keep
// lanes in memory. A start repairs a file in which rows of lanes were deleted by hand.
import Database from 'better-sqlite3';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import type { Store } from '../../src/store/store.ts';
import { createDesk, cursorOf, done, failed, present, T0, tasksOf, type Desk } from '../store-contract/harness.ts';

const DAY_MS = 86_400_000;

let path: string;
let desk: Desk<Store>;
const opened: { close(): unknown }[] = [];

function open(): Store {
  const store = openSqlite(path, { owner: true });
  opened.push(store);
  return store;
}

function raw(): Database.Database {
  const db = new Database(path);
  opened.push(db);
  return db;
}

beforeEach(async () => {
  path = join(mkdtempSync(join(tmpdir(), 'kit-lanes-')), 'events.db');
  desk = await createDesk(open());
});

afterEach(() => {
  for (const one of opened.splice(0)) one.close();
  rmSync(join(path, '..'), { recursive: true, force: true });
});

test.each([0, DAY_MS, -DAY_MS, 60 * DAY_MS, -60 * DAY_MS])(
  'E8: a lane that was swept away while its id was in memory is created again, with the clock set by %i ms',
  async (step) => {
    await desk.arrive('a', [1]);
    await desk.workOff();
    await desk.store.keep.sweep(T0 + 1);
    desk.now += step;
    await desk.arrive('a', [2, 3]);
    const restarted = await createDesk(open());
    restarted.now = desk.now;
    expect((await restarted.claim()).map(cursorOf)).toEqual(['2']);
    expect((await restarted.store.read.event('3', T0))?.tasks[0]?.lane).toBe('a');
  },
);

test('E8: a lane that was swept away while its last task was still in memory is created again', async () => {
  await desk.arrive('a', [1]);
  const [claim] = await desk.claim();
  await desk.settle([failed(claim, { dueAt: T0 + 40 * DAY_MS + 10_000, holdMs: 50 * DAY_MS })]);
  await desk.claim();
  desk.now += 40 * DAY_MS;
  const other = open();
  await other.admin.discard([present(claim).task], 'for a test', desk.now);
  // The handler is at its rate limit, so no turn looks at the lane.
  const limits = new Map([[desk.handler, 0]]);
  await desk.turn({ room: 9, limits });
  await other.keep.sweep(desk.now - 30 * DAY_MS);
  await desk.accept('a', [2]);
  const { from, events } = await desk.store.work.pending(9);
  await desk.turn({
    room: 9,
    limits,
    fanOut: { from, upTo: from + 1, tasks: tasksOf(events, desk.handler, desk.now) },
  });
  expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
});

test('a sweep leaves no progress of lanes that are gone, also of a task that ends after its lane was swept', async () => {
  await desk.arrive('a', [1]);
  const [first] = await desk.claim();
  await desk.settle([failed(first, { dueAt: T0 + 2, holdMs: 1 })]);
  desk.now += 1;
  await desk.claim();
  desk.now += DAY_MS;
  const [again] = await desk.claim();
  expect(again?.alone).toBe(true);
  await desk.store.keep.sweep(desk.now);
  const db = raw();
  const rows = (table: string): unknown => db.prepare(`select count(*) from ${table}`).pluck().get();
  await desk.settle([done(again)]);
  expect([rows('lanes'), rows('lane_progress')]).toEqual([0, 1]);
  await desk.store.keep.sweep(desk.now + 1);
  expect(rows('lane_progress')).toBe(0);
});

test('E8: the schema refuses a waiting task without its lane, and the deletion of a lane with a waiting task', async () => {
  await desk.arrive('a', [1]);
  const db = raw();
  expect(() => db.exec('delete from lanes')).toThrow('tasks wait in this lane');
  expect(() => db.exec('update tasks set lane = 77')).toThrow('a task without its lane');
  const columns = 'event, handler, lane, alone, cursor, state, strict, release_at, due_at, started_at, changed_at';
  expect(() => db.exec(`insert into tasks (${columns}) values (9, 1, 77, 0, 9, 'ready', 0, 0, 0, 0, 0)`)).toThrow(
    'a task without its lane',
  );
});

test('E8: a start finds tasks whose lane has no row, and runs them in order', async () => {
  await desk.arrive('a', [2, 1]);
  const db = raw();
  db.exec('drop trigger lanes_with_tasks; delete from lanes');
  const restarted = await createDesk(open());
  expect(await restarted.workOff()).toEqual([['1'], ['2']]);
  expect(await restarted.store.read.counters()).toMatchObject({ lanes_restored: 1 });
});
