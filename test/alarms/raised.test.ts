// The posts of alarms when ALERT_URL answers slowly, late, or not at all.
import type { ServerResponse } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { createRaised, type Firing, type Raised } from '../../src/alarms/raised.ts';
import { createNotifier, type Notifier } from '../../src/alarms/notifier.ts';
import type { News } from '../../src/alarms/post.ts';
import { StoreError } from '../../src/store/store.ts';
import { COMPOSE, listenForAlerts } from './alert-endpoint.ts';
import { createClock, createStoreFile, createTestLog, type TestClock } from '../reconcile/harness.ts';

interface Bench {
  raised: Raised;
  clock: TestClock;
  notifier: Notifier;
  url: string;
  posts: string[];
  /** The answers that are held back while `slow` is set. */
  open: ServerResponse[];
  slow: boolean;
  again: () => Raised;
}

async function setUp(): Promise<Bench> {
  const { url, posts, close } = await listenForAlerts((res) => {
    if (bench.slow) bench.open.push(res);
    else res.end();
  });
  onTestFinished(close);
  const clock = createClock();
  const { log } = createTestLog();
  const notifier = createNotifier({ url, compose: COMPOSE, clock, log });
  const again = (): Raised => createRaised({ clock, log, notifier });
  const bench: Bench = { raised: again(), clock, notifier, url, posts, open: [], slow: false, again };
  return bench;
}

const about = (detail: string): News => ({ name: 'gap_open', since: '2026-01-31T12:00:00.000Z', detail });

const firing = (...alarms: [name: string, detail: string, level?: number, news?: number][]): Map<string, Firing> =>
  new Map(alarms.map(([name, detail, level = 1, news = 0]) => [name, { detail, level, news }]));

test('E40: while ALERT_URL does not answer, alarms are still raised, updated and ended; then the newest is posted', async () => {
  const bench = await setUp();
  const { raised } = bench;
  bench.slow = true;
  raised.update(firing(['disk_low', '500 MB']));
  const notifying = raised.notify();
  await expect.poll(() => bench.posts).toEqual(['disk_low: 500 MB']);
  raised.update(firing(['disk_low', '200 MB', 2], ['gap_open', 'one']));
  raised.update(firing(['disk_low', '100 MB', 3]));
  expect(raised.up().map(({ detail }) => detail)).toEqual(['100 MB']);
  bench.slow = false;
  bench.open.pop()?.end();
  await notifying;
  await raised.notify();
  expect(bench.posts).toEqual(['disk_low: 500 MB', 'disk_low: 100 MB']);
});

test('an alarm that ends during its first post gets its all-clear', async () => {
  const bench = await setUp();
  const { raised } = bench;
  bench.slow = true;
  raised.update(firing(['disk_low', '500 MB']));
  const notifying = raised.notify();
  await expect.poll(() => bench.open.length).toBe(1);
  raised.update(new Map());
  bench.slow = false;
  bench.open.pop()?.end();
  await notifying;
  await raised.notify();
  expect(bench.posts).toEqual(['disk_low: 500 MB', 'disk_low: all clear']);
  expect(raised.up()).toEqual([]);
});

test('an alarm that is raised again during the post of its all-clear is posted again', async () => {
  const bench = await setUp();
  const { raised } = bench;
  raised.update(firing(['disk_low', '500 MB']));
  await raised.notify();
  raised.update(new Map());
  bench.slow = true;
  const notifying = raised.notify();
  await expect.poll(() => bench.open.length).toBe(1);
  raised.update(firing(['disk_low', '400 MB']));
  bench.slow = false;
  bench.open.pop()?.end();
  await notifying;
  await raised.notify();
  expect(bench.posts.at(-1)).toBe('disk_low: 400 MB');
});

test('E41: a level whose post failed is posted when ALERT_URL answers again, even if the level has fallen', async () => {
  const bench = await setUp();
  const { raised, clock, notifier, url } = bench;
  raised.update(firing(['failure_run', '3 in a row', 2]));
  await raised.notify();
  notifier.use('http://127.0.0.1:1/', COMPOSE);
  raised.update(firing(['failure_run', '15 in a row', 5]));
  await raised.notify();
  raised.update(firing(['failure_run', 'lately, 15 in a row', 1]));
  notifier.use(url, COMPOSE);
  clock.time += 2_000;
  await raised.notify();
  expect(bench.posts).toEqual(['failure_run: 3 in a row', 'failure_run: lately, 15 in a row']);
});

test('the store keeps over a restart which alarms were posted; a write that failed is repeated later', async () => {
  const bench = await setUp();
  const file = createStoreFile();
  onTestFinished(() => file.remove());
  const failing = new StoreError('busy', 'locked');
  const busy = () => Promise.reject(failing);
  const locked = { alarms: { ...file.store.alarms, raise: busy, told: busy } };
  bench.raised.update(firing(['dead_letters', 'many', 3, 7]));
  await bench.raised.notify();
  await expect(bench.raised.save(locked)).rejects.toThrow('locked');
  await bench.raised.save(file.store);
  const raised = bench.again();
  raised.restore(await file.store.alarms.raised());
  raised.update(firing(['dead_letters', 'many', 3, 7]));
  await raised.notify();
  expect(bench.posts).toHaveLength(1);
  raised.update(new Map());
  await raised.notify();
  await raised.save(file.store);
  expect(bench.posts.at(-1)).toBe('dead_letters: all clear');
  expect(await file.store.alarms.raised()).toEqual([]);
});

test('E40: an alarm that was raised before the store could be read is not posted twice', async () => {
  const bench = await setUp();
  const file = createStoreFile();
  onTestFinished(() => file.remove());
  bench.raised.update(firing(['disk_low', '20 MB', 5]));
  await bench.raised.notify();
  await bench.raised.save(file.store);
  const raised = bench.again();
  raised.update(firing(['disk_low', '20 MB', 5]));
  raised.restore(await file.store.alarms.raised());
  await raised.notify();
  expect(bench.posts).toHaveLength(1);
});

test('a new ALERT_URL is used at once, without the pause of the old one', async () => {
  const bench = await setUp();
  const { notifier, url } = bench;
  notifier.use('http://127.0.0.1:1/', COMPOSE);
  expect(await notifier.post(about('one'))).toBe(false);
  expect(await notifier.post(about('two')), 'a pause').toBe(false);
  notifier.use(url, COMPOSE);
  expect(await notifier.post(about('three'))).toBe(true);
  expect(bench.posts).toEqual(['gap_open: three']);
});
