// An alarm that gets worse is posted again, once for each level. An alarm whose level goes up and down is not. A step
// of the wall clock does not cause or prevent a post.
import { expect, onTestFinished, test } from 'vitest';
import { createAlarms } from '../../src/alarms/alarms.ts';
import { COMPOSE, listenForAlerts } from './alert-endpoint.ts';
import { fanOut, deliver, end, type Ops } from '../ops/harness.ts';
import { createStoreFile, createTestLog, START, type StoreFile } from '../reconcile/harness.ts';

const MB = 1024 ** 2;
const MINUTE = 60_000;
const DAY = 86_400_000;

interface Bench extends StoreFile {
  clock: { time: number; passed: number; now(): number; monotonic(): number };
  free: number;
  posts: string[];
  /** Evaluates the rules once, and posts alarms as `keep` does. */
  look: () => Promise<void>;
  /** Does the same as `look`, after `run` and `keep` have shown a sign of life. */
  turn: () => Promise<void>;
  /** Repeats `turn` for `ms` milliseconds, at the interval of `keep`. */
  pass: (ms: number, every?: number) => Promise<void>;
  restart: () => void;
  told: (name: string) => string[];
}

async function setUp(): Promise<Bench> {
  const file = createStoreFile();
  const { url: alertUrl, posts, close } = await listenForAlerts();
  onTestFinished(() => {
    close();
    file.remove();
  });
  // The wall clock can be set while no time passes.
  const clock = { time: START, passed: 0, now: () => clock.time, monotonic: () => clock.passed };
  const begin = () =>
    createAlarms({
      store: file.store,
      clock,
      log: createTestLog().log,
      alertUrl,
      compose: COMPOSE,
      freeBytes: () => bench.free,
    });
  let alarms: ReturnType<typeof begin>;
  const bench: Bench = {
    ...file,
    clock,
    free: 100_000 * MB,
    posts,
    look: async () => {
      await alarms.step();
      await alarms.notify();
    },
    turn: async () => {
      const beat = { pid: 1, started: '', boot: 1 };
      await file.store.processes.beat({ role: 'keep', ...beat }, clock.time);
      await file.store.processes.beat({ role: 'run', ...beat }, clock.time);
      await bench.look();
    },
    async pass(ms, every = 2_000) {
      for (let gone = 0; gone < ms; gone += every) {
        clock.time += every;
        clock.passed += every;
        await bench.turn();
      }
    },
    restart: () => void (alarms = begin()),
    told: (name) => posts.filter((text) => text.startsWith(`${name}: `)),
  };
  bench.restart();
  return bench;
}

const lettersOf = (bench: Bench, error: (n: number) => string) => {
  const ops = bench as unknown as Ops;
  let cursor = 1;
  return async (count: number, handler = 'answer'): Promise<void> => {
    for (let n = 0; n < count; n++) await deliver(ops, { cursor: String(cursor++) });
    const [id = 0] = await fanOut(ops, [handler]);
    for (let n = 0; n < count; n++) await end(ops, id, 'dead', error(cursor));
  };
};

test('E41: disk_low is posted once at each halving of the free space, down to zero', async () => {
  const bench = await setUp();
  for (let free = 512; free >= 0; free -= 8) {
    bench.free = free * MB + 1;
    await bench.pass(2_000);
  }
  bench.free = 0;
  await bench.pass(10_000);
  expect(bench.told('disk_low').map((text) => /(\d+ MB|nothing)/.exec(text)?.[0])).toEqual([
    '504 MB',
    '248 MB',
    '120 MB',
    '56 MB',
    '24 MB',
    '8 MB',
    'nothing',
  ]);
});

test('E41: disk_low does not flap around a limit, and is posted again after its level had clearly fallen', async () => {
  const bench = await setUp();
  for (let n = 0; n < 12; n++) {
    bench.free = (n % 2 ? 250 : 260) * MB;
    await bench.pass(4 * MINUTE, 40_000);
  }
  expect(bench.told('disk_low')).toHaveLength(2);
  for (let n = 0; n < 20; n++) {
    bench.free = (n % 2 ? 505 : 520) * MB;
    await bench.pass(10_000);
  }
  expect(bench.told('disk_low'), 'it is not over at the threshold').toHaveLength(2);
  bench.free = 20 * MB;
  await bench.pass(2_000);
  bench.free = 400 * MB;
  await bench.pass(2 * MINUTE, 20_000);
  bench.free = 20 * MB;
  await bench.pass(2_000);
  expect(bench.told('disk_low')).toHaveLength(4);
  bench.free = 5_000 * MB;
  await bench.pass(4_000);
  expect(bench.posts.at(-1)).toBe('disk_low: all clear');
});

test('E41: dead_letters is posted at 1, 10 and 100, also over a restart of `keep`', async () => {
  const bench = await setUp();
  const kill = lettersOf(bench, () => 'Error: no');
  for (const more of [1, 4, 5, 30, 50, 20]) {
    await kill(more);
    await bench.pass(2_000);
    bench.restart();
    await bench.pass(2_000);
  }
  const counts = bench.told('dead_letters').map((text) => /(\d+) tasks|a task/.exec(text)?.[0]);
  expect(counts).toEqual(['a task', '10 tasks', '110 tasks']);
});

test('E41: a new cause of dead letters is posted without the message of its error, once a minute at the most', async () => {
  const bench = await setUp();
  const letters = ['boom', 'broken pipe', 'no such user', 'out of paper', 'gone', 'late', 'odd'];
  let cursor = 0;
  const next = async (
    handler: string,
    error = `Error: ${letters[cursor]} for +55 11 99999-8888 (5511999998888) "Ana Lima"`,
  ): Promise<void> => {
    const ops = bench as unknown as Ops;
    await deliver(ops, { cursor: String(10_000 + cursor++) });
    const [id = 0] = await fanOut(ops, [handler]);
    await end(ops, id, 'dead', error);
  };
  await next('answer');
  await bench.pass(2_000);
  await bench.pass(2 * MINUTE);
  await next('forward');
  await bench.pass(2_000);
  expect(bench.told('dead_letters')).toHaveLength(2);
  expect(bench.told('dead_letters')[1]).toContain('newest cause: forward, Error.');
  expect(bench.told('dead_letters').join()).not.toContain('broken');
  for (let n = 0; n < 5; n++) {
    await next('answer');
    await bench.pass(6_000);
  }
  await bench.pass(5 * MINUTE);
  expect(bench.told('dead_letters')).toHaveLength(3);
  expect(bench.told('dead_letters')[2]).toContain('newest cause: answer, Error.');
  // What a sender wrote may look like a class and a place.
  await next('forward', 'AnaLima5511999998888: the bot refused (5511999998888/ana-lima/rua-7:42)');
  await bench.pass(120 * MINUTE);
  expect(bench.told('dead_letters').at(-1)).toContain('newest cause: forward.');
  expect(bench.posts.join('\n')).not.toMatch(/\d{4}|Ana/);
});

test('E41: a failure run that reaches 15 within one step is posted once, with the remedy at the service', async () => {
  const bench = await setUp();
  await bench.pass(2_000);
  await bench.store.state.note({}, { failure_run: 15 });
  await bench.pass(10_000);
  expect(bench.told('failure_run')).toEqual([expect.stringMatching(/15 .*switched the webhook off: enable it/)]);
});

test('E41: failure_run is posted at 3, 10, 13 and 15, and again for a later run', async () => {
  const bench = await setUp();
  const climb = async (): Promise<void> => {
    for (let run = 1; run <= 17; run++) {
      await bench.store.state.note({}, { failure_run: run });
      await bench.pass(2_000);
    }
  };
  await climb();
  await bench.store.state.note({ failure_runs: 1 }, { failure_run: 0 });
  await bench.pass(2 * MINUTE);
  await climb();
  const counts = bench.told('failure_run').map((text) => Number(/\d+/.exec(text)?.[0]));
  expect(counts).toEqual([3, 10, 13, 15, 3, 10, 13, 15]);
});

test.each([
  ['conflict', 'conflicts'],
  ['cursor_regression', 'regressions'],
  ['replay_blind', 'unseen'],
] as const)('E41: %s is posted again when its counter has grown tenfold', async (name, counter) => {
  const bench = await setUp();
  await bench.pass(2_000);
  for (const more of [1, 1, 8, 40, 60]) {
    await bench.store.state.note({ [counter]: more }, { blind: '["MessageSent"]' });
    await bench.pass(2_000);
  }
  expect(bench.told(name)).toHaveLength(3);
});

test('E41: gap_open is posted at each new gap up to the fourth, and then at the eighth', async () => {
  const bench = await setUp();
  for (let n = 1; n <= 9; n++) {
    bench.exec(
      `insert into gaps (after, up_to, reason, opened_at) values (${n}0, ${n}5, 'reset', ${bench.clock.time})`,
    );
    await bench.pass(2_000);
  }
  // The level rises at 1, 2, 3, 4 and 8 gaps.
  const named = bench.told('gap_open').map((text) => /gap (\d+):/.exec(text)?.[1]);
  expect(named, 'each post names the newest').toEqual(['1', '2', '3', '4', '8']);
});

test.each([60 * DAY, -60 * DAY])(
  'E41: a step of the clock by %d ms neither adds a reminder nor delays one',
  async (step) => {
    const bench = await setUp();
    bench.free = 400 * MB;
    await bench.pass(2_000);
    bench.clock.time += step;
    await bench.pass(DAY - 10 * MINUTE, 5 * MINUTE);
    expect(bench.posts).toHaveLength(1);
    await bench.pass(20 * MINUTE, 5 * MINUTE);
    expect(bench.posts).toHaveLength(2);
  },
);

test.each([3_600_000, -3_600_000])(
  'E9: a step of the clock by %d ms neither makes `run` look down nor ends a recent alarm',
  async (step) => {
    const bench = await setUp();
    await bench.pass(30_000);
    await bench.store.state.note({ conflicts: 1 });
    await bench.pass(4_000);
    bench.clock.time += step;
    // The last signs of life have times from before the step, so they seem an hour old, or in the future.
    await bench.look();
    await bench.pass(2 * MINUTE);
    expect(bench.posts).toEqual([expect.stringMatching(/^conflict: /)]);
  },
);

test('E41: after the clock was set back, restarts of `keep` do not delay the reminder', async () => {
  const bench = await setUp();
  bench.free = 400 * MB;
  await bench.pass(2_000);
  bench.clock.time -= 60 * DAY;
  for (let hours = 0; hours < 26; hours += 2) {
    bench.restart();
    await bench.pass(2 * 60 * MINUTE, 5 * MINUTE);
  }
  expect(bench.posts).toHaveLength(2);
});
