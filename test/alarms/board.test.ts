// What people are told of alarms, by an ALERT_URL that really listens: slowly, late, or not at all.
import type { ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { createBoard, type Board, type Held } from '../../src/alarms/board.ts';
import { createNotifier, type Notifier } from '../../src/alarms/notifier.ts';
import { StoreError } from '../../src/store/store.ts';
import { listenForAlerts } from './alert-endpoint.ts';
import { createClock, createStoreFile, createTestLog, type TestClock } from '../reconcile/harness.ts';

interface Bench {
  board: Board;
  clock: TestClock;
  notifier: Notifier;
  url: string;
  posts: string[];
  /** Answers that are kept back, while `slow` is set. */
  open: ServerResponse[];
  slow: boolean;
  again: () => Board;
}

async function setUp(): Promise<Bench> {
  const { url, posts, close } = await listenForAlerts((res) => {
    if (bench.slow) bench.open.push(res);
    else res.end();
  });
  onTestFinished(close);
  const clock = createClock();
  const { log } = createTestLog();
  const notifier = createNotifier({ url, clock, log });
  const again = (): Board => createBoard({ clock, log, notifier });
  const bench: Bench = { board: again(), clock, notifier, url, posts, open: [], slow: false, again };
  return bench;
}

const holding = (...alarms: [name: string, detail: string, level?: number, news?: number][]): Map<string, Held> =>
  new Map(alarms.map(([name, detail, level = 1, news = 0]) => [name, { detail, level, news }]));

test('E40: while ALERT_URL keeps its answer back, alarms are raised, graver and over all the same; the newest is told next', async () => {
  const bench = await setUp();
  const { board } = bench;
  bench.slow = true;
  board.hold(holding(['disk_low', '500 MB']));
  const telling = board.tell();
  await expect.poll(() => bench.posts).toEqual(['disk_low: 500 MB']);
  board.hold(holding(['disk_low', '200 MB', 2], ['gap_open', 'one']));
  board.hold(holding(['disk_low', '100 MB', 3]));
  expect(board.up().map(({ detail }) => detail)).toEqual(['100 MB']);
  bench.slow = false;
  bench.open.pop()?.end();
  await telling;
  await board.tell();
  expect(bench.posts).toEqual(['disk_low: 500 MB', 'disk_low: 100 MB']);
});

test('an alarm that is over before its first post was taken has its all-clear', async () => {
  const bench = await setUp();
  const { board } = bench;
  bench.slow = true;
  board.hold(holding(['disk_low', '500 MB']));
  const telling = board.tell();
  await expect.poll(() => bench.open.length).toBe(1);
  board.hold(new Map());
  bench.slow = false;
  bench.open.pop()?.end();
  await telling;
  await board.tell();
  expect(bench.posts).toEqual(['disk_low: 500 MB', 'disk_low: all clear']);
  expect(board.up()).toEqual([]);
});

test('an alarm that comes back while its all-clear is on the way is told again', async () => {
  const bench = await setUp();
  const { board } = bench;
  board.hold(holding(['disk_low', '500 MB']));
  await board.tell();
  board.hold(new Map());
  bench.slow = true;
  const telling = board.tell();
  await expect.poll(() => bench.open.length).toBe(1);
  board.hold(holding(['disk_low', '400 MB']));
  bench.slow = false;
  bench.open.pop()?.end();
  await telling;
  await board.tell();
  expect(bench.posts.at(-1)).toBe('disk_low: 400 MB');
});

test('E41: a level that ALERT_URL missed is told when it answers again, though the level has fallen', async () => {
  const bench = await setUp();
  const { board, clock, notifier, url } = bench;
  board.hold(holding(['failure_run', '3 in a row', 2]));
  await board.tell();
  notifier.useUrl('http://127.0.0.1:1/');
  board.hold(holding(['failure_run', '15 in a row', 5]));
  await board.tell();
  board.hold(holding(['failure_run', 'lately, 15 in a row', 1]));
  notifier.useUrl(url);
  clock.time += 2_000;
  await board.tell();
  expect(bench.posts).toEqual(['failure_run: 3 in a row', 'failure_run: lately, 15 in a row']);
});

test('what was told outlasts a restart by the store; what the store did not take is written later', async () => {
  const bench = await setUp();
  const file = createStoreFile();
  onTestFinished(() => file.remove());
  const failing = new StoreError('busy', 'locked');
  const locked = { ...file.store, raise: () => Promise.reject(failing), told: () => Promise.reject(failing) };
  bench.board.hold(holding(['dead_letters', 'many', 3, 7]));
  await bench.board.tell();
  await expect(bench.board.save(locked)).rejects.toThrow('locked');
  await bench.board.save(file.store);
  const board = bench.again();
  board.restore(await file.store.raised());
  board.hold(holding(['dead_letters', 'many', 3, 7]));
  await board.tell();
  expect(bench.posts).toHaveLength(1);
  board.hold(new Map());
  await board.tell();
  await board.save(file.store);
  expect(bench.posts.at(-1)).toBe('dead_letters: all clear');
  expect(await file.store.raised()).toEqual([]);
});

test('E40: what was judged before the store could be read is not told twice when it can', async () => {
  const bench = await setUp();
  const file = createStoreFile();
  onTestFinished(() => file.remove());
  bench.board.hold(holding(['disk_low', '20 MB', 5]));
  await bench.board.tell();
  await bench.board.save(file.store);
  const board = bench.again();
  board.hold(holding(['disk_low', '20 MB', 5]));
  board.restore(await file.store.raised());
  await board.tell();
  expect(bench.posts).toHaveLength(1);
});

test('a new ALERT_URL is used at once, whatever the old one did', async () => {
  const bench = await setUp();
  const { notifier, url } = bench;
  notifier.useUrl('http://127.0.0.1:1/');
  expect(await notifier.post('one')).toBe(false);
  expect(await notifier.post('two'), 'a pause').toBe(false);
  notifier.useUrl(url);
  expect(await notifier.post('three')).toBe(true);
  expect(bench.posts).toEqual(['three']);
});
