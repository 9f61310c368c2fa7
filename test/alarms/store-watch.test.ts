// Alarms about writes, on a real file with real locks: when one is raised, with which text, and when it ends.
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { evaluate } from '../../src/alarms/rules/rule.ts';
import { WRITES } from '../../src/alarms/rules/store.ts';
import { watchStore, type StoreWatch, type WriteTrouble } from '../../src/receive/store-watch.ts';
import { remedyOf } from '../../src/store/sqlite/fault.ts';
import { StoreError } from '../../src/store/store.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { createClock, createStoreFile, type TestClock } from '../reconcile/harness.ts';

type Around = Pick<WriteTrouble, 'waiting' | 'failureRun' | 'writer' | 'recovers'>;
const AROUND: Around = { waiting: 0, failureRun: 0, writer: 4_711, recovers: true };
const SELF = { role: 'receive', pid: 1, started: '', boot: 0 };

interface Bench {
  store: Parameters<typeof watchStore>[0];
  path: string;
  watch: StoreWatch;
  clock: TestClock;
  /** If it is set, each write throws it. */
  fault: Error | undefined;
  /** Writes, and then evaluates the rules, as the main process does. */
  look: (ms?: number, around?: Partial<Around>) => Promise<string>;
}

function setUp(): Bench {
  const file = createStoreFile();
  onTestFinished(() => file.remove());
  const clock = createClock();
  const failing =
    <Args extends unknown[], Result>(work: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      if (bench.fault) throw bench.fault;
      return work(...args);
    };
  const real = file.store;
  const { ingest, state, processes } = real;
  const store = {
    ingest: { accept: failing(ingest.accept.bind(ingest)), sync: failing(ingest.sync.bind(ingest)) },
    state: { ...state, note: failing(state.note.bind(state)) },
    processes: { ...processes, beat: failing(processes.beat.bind(processes)) },
  };
  const watch = watchStore(store, clock);
  const bench: Bench = {
    path: file.path,
    store,
    watch,
    clock,
    fault: undefined,
    async look(ms = 250, around = {}) {
      clock.time += ms;
      await watch.writes.note({}).catch(() => {});
      await watch.writes.beat(SELF, clock.time).catch(() => {});
      return wordsOf(watch, around);
    },
  };
  return bench;
}

function wordsOf(watch: StoreWatch, around: Partial<Around> = {}): string {
  const trouble = watch.trouble();
  if (!trouble) return '';
  const firing = evaluate(WRITES, { ...AROUND, ...around, ...trouble, remedy: remedyOf(trouble.code) });
  return [...firing].map(([name, { level, detail }]) => `${name} ${level}: ${detail}`).join('\n');
}

function lock(path: string, how: 'immediate' | 'exclusive'): () => void {
  const db = new Database(path, { timeout: 5_000 });
  db.exec(`begin ${how}`);
  return () => {
    db.exec('rollback');
    db.close();
  };
}

const sqlite = (code: string): StoreError =>
  new StoreError('unwritable', `cannot be used: ${code}`, Object.assign(new Error('sqlite'), { code }));

test.each(['immediate', 'exclusive'] as const)(
  'E40: a lock (%s) raises an alarm after two seconds. It names the holder, and ends five seconds after the lock',
  async (how) => {
    const { path, look, clock } = setUp();
    expect(await look()).toBe('');
    const release = lock(path, how);
    expect(await look(250)).toBe('');
    expect(await look(1_900)).toBe('');
    clock.time += 50;
    const words = await look(50);
    expect(words).toMatch(/^store_unwritable 1: .*locked by process 4711.* 0 deliveries wait.*End the process/);
    release();
    await look(250);
    expect(await look(4_900), 'it may come back at once').toMatch(/^store_unwritable/);
    expect(await look(200)).toBe('');
  },
);

test('short locks, again and again, raise no alarm', async () => {
  const { path, look } = setUp();
  for (let n = 0; n < 20; n++) {
    const release = lock(path, 'immediate');
    expect(await look(1_500)).toBe('');
    release();
    expect(await look(500)).toBe('');
  }
});

test.each([
  ['SQLITE_FULL', /SQLITE_FULL.*full: make room, see df -h/],
  ['ENOSPC', /ENOSPC.*df -h/],
  ['SQLITE_IOERR_FSYNC', /SQLITE_IOERR_FSYNC.*See the disk \(df -h, dmesg\)/],
  ['SQLITE_READONLY', /SQLITE_READONLY.*read-only: give this user the right/],
  ['SQLITE_CANTOPEN', /SQLITE_CANTOPEN.*cannot be opened/],
  ['SQLITE_CORRUPT', /SQLITE_CORRUPT.*npx kit restore/],
])('E40: the alarm about %s names the remedy for it', async (code, words) => {
  const bench = setUp();
  bench.fault = sqlite(code);
  await bench.look();
  expect(await bench.look(2_000)).toMatch(words);
});

test('E40: a replaced file raises store_replaced at once', async () => {
  const bench = setUp();
  bench.fault = new StoreError('replaced', 'another file was put in its place');
  expect(await bench.look()).toMatch(/^store_replaced 1: .*503\. another file was put/);
});

test('E40: the alarm counts waiting and refused deliveries; each order of magnitude is a level', async () => {
  const bench = setUp();
  bench.fault = sqlite('SQLITE_FULL');
  await bench.look();
  expect(await bench.look(2_000, { waiting: 7 })).toMatch(/^store_unwritable 1: .*7 deliveries wait, 0 were answered/);
  const levels: string[] = [];
  for (let n = 1; n <= 12; n++) {
    bench.watch.refused();
    const words = await bench.look(10, { failureRun: n + 4 });
    levels.push(words[17] ?? '');
    expect(words).toContain(`${n} were answered with 503`);
    expect(words.includes('has switched the webhook off: enable it there')).toBe(n + 4 >= 15);
  }
  expect(levels.join('')).toBe('222222222333');
});

test('E40: deliveries that cannot be synced raise an alarm, even if small writes succeed', async () => {
  const { clock, store, look } = setUp();
  const ingest = { ...store.ingest, accept: () => Promise.reject(sqlite('EIO')) };
  const unsynced = watchStore({ ...store, ingest }, clock);
  for (let n = 0; n < 5; n++) {
    clock.time += 1_000;
    await unsynced.writes.accept({ readings: [], now: clock.time }).catch(() => {});
    await unsynced.writes.note({});
    await unsynced.writes.beat(SELF, clock.time);
  }
  expect(wordsOf(unsynced)).toMatch(/^store_unwritable 1: .*EIO/);
  expect(await look()).toBe('');
});

test('E40: a commit that does not end raises an alarm', async () => {
  const { clock, store } = setUp();
  const gate = Promise.withResolvers<never>();
  const hanging = watchStore({ ...store, ingest: { ...store.ingest, accept: () => gate.promise } }, clock);
  void hanging.writes.accept({ readings: [], now: clock.time }).catch(() => {});
  expect(hanging.trouble()).toBeUndefined();
  clock.time += 2_001;
  clock.time += 2_001;
  expect(wordsOf(hanging)).toMatch(/^store_unwritable 1: .*a write does not end/);
  gate.reject(sqlite('EIO'));
});

test('E40: after a failed commit, an idle kit retries with an empty one, but not on a disk without room', async () => {
  const bench = setUp();
  const { watch, clock } = bench;
  const batch = () => ({ readings: [readDelivery(Buffer.from('{'))], now: clock.time });
  bench.fault = sqlite('SQLITE_FULL');
  await watch.writes.accept(batch()).catch(() => {});
  bench.fault = undefined;
  await watch.retry(() => 1_000);
  expect(watch.failing()).toBe(true);
  await watch.retry(() => 1e9);
  expect(watch.failing()).toBe(false);
  bench.fault = sqlite('EIO');
  await watch.writes.accept(batch()).catch(() => {});
  await watch.retry(() => 1_000);
  expect(watch.failing()).toBe(true);
  bench.fault = undefined;
  await watch.retry(() => 1_000);
  expect(watch.failing()).toBe(false);
});

test.each([3_600_000, -3_600_000])(
  'E9: a step of the wall clock by %d ms raises no alarm, and ends none',
  async (step) => {
    const bench = setUp();
    let wall = bench.clock.time;
    bench.clock.now = () => wall;
    bench.fault = sqlite('SQLITE_FULL');
    await bench.look();
    wall += step;
    expect(await bench.look()).toBe('');
    expect(await bench.look(2_000)).toMatch(/^store_unwritable/);
    wall -= step;
    expect(await bench.look()).toMatch(/^store_unwritable/);
    bench.fault = undefined;
    await bench.look();
    wall += step;
    expect(await bench.look()).toMatch(/^store_unwritable/);
  },
);
