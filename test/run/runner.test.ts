// The runner with a real store: order when events arrive shuffled, failures, stray errors and drains. Tests set the
// clock; only the interval between turns is real time.
import { AsyncLocalStorage } from 'node:async_hooks';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Context, KitEvent } from '../../src/kit.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import type { RunOptions } from '../../src/run/runner-options.ts';
import { startRunner, type Runner } from '../../src/run/runner.ts';
import type { Scope } from '../../src/run/stray-errors.ts';
import { RetryAfter, Skip } from '../../src/kit.ts';
import type { Store } from '../../src/store/store.ts';
import type { ShownState } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import {
  createClock,
  createFolder,
  createLines,
  createStore,
  delivery,
  handlerOf,
  T0,
  until,
  type Sent,
  noService,
} from './fixture.ts';
import { onPostgres, storeKind } from '../stores.ts';

interface Stage {
  store: Store;
  clock: ReturnType<typeof createClock>;
  lines: Record<string, unknown>[];
  runner: Runner;
  accept: (...sent: Sent[]) => Promise<void>;
  /** Advances the clock by `ms` and wakes the runner. */
  pass: (ms: number) => void;
  tasks: () => Promise<Record<ShownState, number>>;
  /** Resolves when all events were fanned out, and no task is running or due. */
  rest: () => Promise<void>;
}

async function stage(
  handlers: Partial<Loaded>[],
  options: Partial<RunOptions> = {},
  store = createStore(),
): Promise<Stage> {
  const clock = createClock();
  const { log, lines } = createLines();
  const runner = await startRunner({
    store: store.work,
    handlers: handlers.map((handler) => handlerOf(handler)),
    serviceFor: noService,
    clock,
    log,
    boot: 1,
    concurrency: 32,
    windowMs: 250,
    ...options,
  });
  let drained = false;
  const drain = runner.drain.bind(runner);
  runner.drain = async (limitMs) => {
    drained = true;
    await drain(limitMs);
  };
  onTestFinished(async () => {
    if (!drained) await drain(0);
  });
  return {
    store,
    clock,
    lines,
    runner,
    async accept(...sent) {
      await store.ingest.accept({ readings: sent.map(delivery), now: clock.now() });
      runner.wake();
    },
    pass(ms) {
      clock.at += ms;
      runner.wake();
    },
    tasks: async () => (await store.read.status(clock.now())).tasks,
    async rest() {
      await until(async () => {
        const { unassigned, tasks } = await store.read.status(clock.now());
        if (unassigned > 0 || tasks.running > 0) return false;
        const { tasks: waiting } = await store.read.tasks({ state: 'ready', limit: 1_000 }, clock.now());
        return waiting.every(({ dueAt }) => Date.parse(dueAt) > clock.now());
      }, 'the runner to rest');
    },
  };
}

function noting(fields: Partial<Loaded> = {}): { handler: Partial<Loaded>; handled: string[] } {
  const handled: string[] = [];
  return { handler: { handle: (event) => void handled.push(event.key), ...fields }, handled };
}

test('an event that was erased before it was fanned out gets no task, and delays no other event', async () => {
  const store = createStore();
  const readings = [delivery({ cursor: 1 }), delivery({ cursor: 2, data: { of: 'theirs' } }), delivery({ cursor: 3 })];
  await store.ingest.accept({ readings, now: T0 });
  await store.admin.eraseEvents((body) => Buffer.from(body).includes('theirs'), 0, 10, T0, false);
  const { handler, handled } = noting({ order: 'arrival' });
  const { rest, tasks } = await stage([handler], {}, store);
  await rest();
  expect(handled).toEqual(['c:1', 'c:3']);
  expect(await tasks()).toMatchObject({ done: 2, dead: 0 });
});

test('E60: a handler whose file is fixed catches up in order, page by page, while others go on and events arrive', async () => {
  const store = createStore();
  const MISSED = 700;
  const files = { of: new Map([['mine', '/h/mine.ts']]), broken: [] };
  const other = noting({ name: 'other', order: 'arrival', lane: 'none' });
  const mine = noting({ name: 'mine', order: 'arrival' });
  const before = await stage([mine.handler, other.handler], { files }, store);
  await before.accept({ cursor: 1 });
  await before.rest();
  await before.runner.drain(0);

  const without = await stage([other.handler], { files: { of: new Map(), broken: ['/h/mine.ts'] } }, store);
  await without.accept(...Array.from({ length: MISSED }, (_, n) => ({ cursor: n + 2 })));
  await without.rest();
  await without.runner.drain(0);
  expect(mine.handled).toEqual(['c:1']);

  const after = await stage([mine.handler, other.handler], { files }, store);
  for (let n = 1; n <= 50; n++) await after.accept({ cursor: MISSED + 1 + n });
  const all = Array.from({ length: MISSED + 51 }, (_, n) => `c:${n + 1}`);
  await until(() => mine.handled.length >= all.length && other.handled.length >= all.length, 'all to be handled');
  expect(mine.handled).toEqual(all);
  expect(new Set(other.handled).size).toBe(all.length);
});

test('a task that is retried after its body was purged is a dead letter that says so', async () => {
  const store = createStore();
  const skipping = {
    on: new Set(['Thing']),
    order: 'arrival' as const,
    handle: () => {
      throw new Skip('not mine');
    },
  };
  const { accept, rest, tasks, runner } = await stage([skipping], {}, store);
  await accept({ cursor: 1 });
  await until(async () => (await tasks()).skipped === 1, 'the skip');
  // `purge` never removes the body of the newest event, so the test first accepts an event newer than the skipped one.
  await accept({ cursor: 2, type: 'Other' });
  await store.keep.purge(T0 + 1_000, null, 100);
  const { tasks: skipped } = await store.read.tasks({ state: 'skipped', limit: 1 }, T0);
  await store.admin.retry(
    skipped.map(({ id }) => id),
    T0,
  );
  runner.wake();
  await rest();
  const { tasks: dead } = await store.read.tasks({ state: 'dead', limit: 1 }, T0);
  expect(dead[0]?.error).toContain('purged after PAYLOAD_RETENTION_DAYS');
});

test('E51: a drain spends no attempt of tasks that are claimed and have not begun', async () => {
  const gate = Promise.withResolvers<void>();
  const handle = (event: KitEvent): Promise<void> | void => (event.key === 'c:150' ? gate.promise : undefined);
  const store = createStore();
  const { accept, runner, tasks } = await stage(
    [{ order: 'arrival', lane: 'none', handle }],
    { concurrency: 1 },
    store,
  );
  await accept(...Array.from({ length: 400 }, (_, n) => ({ cursor: n + 1 })));
  await until(async () => (await tasks()).running > 10, 'claims ahead');
  await runner.drain(0);
  const { tasks: waiting } = await store.read.tasks({ state: 'ready', limit: 1_000 }, T0);
  expect(waiting.length).toBeGreaterThan(10);
  expect(waiting.every(({ attempts, error }) => attempts === 0 && error === null)).toBe(true);
});

test('the event loop is not blocked while many handlers commit', async () => {
  let commits = 0;
  let most = 0;
  const handle = async (_: KitEvent, ctx: Context): Promise<void> =>
    ctx.complete(() => {
      most = Math.max(most, ++commits);
    });
  const path = join(createFolder(), 'events.db');
  storeKind.open(path, { owner: true }).close();
  const store = storeKind.open(path, { synchronous: 'NORMAL' });
  const handler = { lane: 'none', order: 'arrival', handle } as const;
  const { accept, tasks } = await stage([handler], { concurrency: 4 }, store);
  let tick = setImmediate(function next() {
    commits = 0;
    tick = setImmediate(next);
  });
  onTestFinished(() => clearImmediate(tick));
  await accept(...Array.from({ length: 200 }, (_, index) => ({ cursor: index + 1 })));
  await until(async () => (await tasks()).done === 200);
  expect(most).toBeLessThan(20);
});

test('ctx.complete also commits if the handler does not await it', async () => {
  const path = join(createFolder(), 'events.db');
  storeKind.open(path, { owner: true }).close();
  const store = storeKind.open(path, { synchronous: 'NORMAL' });
  let commits = 0;
  const handle = (_: KitEvent, ctx: Context): void => void ctx.complete(() => void commits++);
  const { accept, tasks } = await stage([{ order: 'arrival', handle }], {}, store);
  await accept({ cursor: 1 }, { cursor: 2 });
  await until(async () => (await tasks()).done === 2);
  expect(commits).toBe(2);
});

describe('order', () => {
  test('is perfect for events that arrive within the window, in any order', async () => {
    const { handler, handled } = noting();
    const { accept, pass, tasks, rest, clock } = await stage([handler]);
    await accept({ cursor: 5 }, { cursor: 3 });
    clock.at += 100;
    await accept({ cursor: 1 });
    clock.at += 100;
    await accept({ cursor: 4 }, { cursor: 2 });
    await until(async () => (await tasks()).ready + (await tasks()).held === 5, 'five tasks');
    expect(handled).toEqual([]);
    pass(50);
    await until(() => handled.length === 5, 'all to be handled');
    await rest();
    expect(handled).toEqual(['c:1', 'c:2', 'c:3', 'c:4', 'c:5']);
  });

  test("with 'arrival': no event waits, and an event that arrives late runs late", async () => {
    const seen: [string, boolean][] = [];
    const handle = (event: KitEvent, ctx: Context): void => void seen.push([event.key, ctx.late]);
    const { accept } = await stage([{ order: 'arrival', handle }]);
    await accept({ cursor: 5 });
    await until(() => seen.length === 1);
    await accept({ cursor: 3 });
    await until(() => seen.length === 2);
    expect(seen).toEqual([
      ['c:5', false],
      ['c:3', true],
    ]);
  });

  test('an event at or below the watermark does not wait for the window', async () => {
    const { handler, handled } = noting();
    const { store, runner } = await stage([handler]);
    const readings = [delivery({ cursor: 2 }), delivery({ cursor: 1 })];
    await store.ingest.accept({ readings, now: T0, watermark: '2' as Cursor });
    runner.wake();
    await until(() => handled.length === 2);
    expect(handled).toEqual(['c:1', 'c:2']);
  });

  test('a lane never runs two tasks at once, lanes do not wait for each other, and the number of attempts is limited', async () => {
    let most = 0;
    const atWork = new Set<string | null>();
    const doubled: unknown[] = [];
    const handled: string[] = [];
    const handle = async (event: KitEvent): Promise<void> => {
      if (atWork.has(event.sessionId)) doubled.push(event.key);
      atWork.add(event.sessionId);
      most = Math.max(most, atWork.size);
      await new Promise(setImmediate);
      atWork.delete(event.sessionId);
      handled.push(event.key);
    };
    const { accept } = await stage([{ order: 'arrival', handle }], { concurrency: 4 });
    await accept(...Array.from({ length: 120 }, (_, i) => ({ cursor: i + 1, session: `s${i % 12}` })));
    await until(() => handled.length === 120, 'all to be handled');
    expect(doubled).toEqual([]);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThan(20);
  });

  test('a slow handler with a backlog does not keep other handlers from running', async () => {
    const gates: (() => void)[] = [];
    const slow = {
      name: 'a-slow',
      lane: 'none',
      handle: () => new Promise<void>((resolve) => gates.push(resolve)),
    } as const;
    const quick = noting({ name: 'quick', lane: 'none', on: new Set(['Other']) });
    const { accept } = await stage(
      [
        { ...slow, order: 'arrival' },
        { ...quick.handler, order: 'arrival' },
      ],
      { concurrency: 4 },
    );
    await accept(...Array.from({ length: 20 }, (_, i) => ({ cursor: i + 1 })));
    await until(() => gates.length === 4, 'all places to be taken');
    await accept({ cursor: 100, type: 'Other' });
    for (let freed = 0; freed < 10 && quick.handled.length === 0; freed++) {
      gates.shift()?.();
      await until(() => gates.length === 4 || quick.handled.length > 0, 'the place to be taken');
    }
    expect(quick.handled).toEqual(['c:100']);
    for (const gate of gates) gate();
  });

  test('held tasks are counted until their window is over', async () => {
    const { accept, runner, pass } = await stage([noting().handler]);
    await accept({ cursor: 1 }, { cursor: 2 });
    await until(() => runner.state().held === 2, 'two to be held');
    pass(250);
    expect(runner.state().held).toBe(0);
  });

  test('strict: a shuffled burst runs in cursor order, up to the watermark', async () => {
    const { handler, handled } = noting({ order: 'strict' });
    const { accept, runner, store, lines } = await stage([handler]);
    for (const cursor of [5, 2, 4, 1]) await accept({ cursor });
    await until(() => runner.state().held === 4, 'four to be held');
    const prove = async (watermark: number, sent: Sent[] = []): Promise<void> => {
      await store.ingest.accept({ readings: sent.map(delivery), now: T0, watermark: String(watermark) as Cursor });
      runner.wake();
    };
    await prove(2);
    await until(() => handled.length === 2);
    await prove(5, [{ cursor: 3 }]);
    await until(() => handled.length === 5);
    expect(handled).toEqual(['c:1', 'c:2', 'c:3', 'c:4', 'c:5']);
    expect(runner.state().held).toBe(0);
    expect(lines.filter((line) => line['late'] === true || 'unproven' in line)).toEqual([]);
  });

  test('strict: an event that replay does not show runs unproven, and its log line has `unproven`', async () => {
    const seen: [string, boolean][] = [];
    const handle = (event: KitEvent, ctx: Context): void => void seen.push([event.key, ctx.unproven]);
    const { accept, runner, store, lines } = await stage([{ order: 'strict', handle }]);
    await accept({ cursor: 1 });
    await until(() => runner.state().held === 1, 'one to be held');
    await store.state.note({}, { searched: 1 });
    runner.wake();
    await until(() => lines.some(({ verdict }) => verdict === 'done'));
    expect(seen).toEqual([['c:1', true]]);
    expect(lines.filter(({ verdict }) => verdict === 'done')).toMatchObject([{ key: 'c:1', unproven: true }]);
  });

  test('strict: only events above the watermark make replay read on at once', async () => {
    let asked = 0;
    const { handler, handled } = noting({ order: 'strict' });
    const { accept, store, runner } = await stage([handler], { onUnproven: () => asked++ });
    await store.ingest.accept({ readings: [delivery({ cursor: 1 })], now: T0, watermark: '1' as Cursor });
    await accept({ cursor: null });
    await until(() => handled.length === 2);
    expect(asked).toBe(0);
    await accept({ cursor: 3 }, { cursor: 2 });
    await until(() => runner.state().held === 2, 'two to be held');
    expect(asked).toBe(1);
  });
});

describe('fan-out', () => {
  test('an event becomes a task of each handler that wants it, and no task if none does', async () => {
    const all = noting({ name: 'all', order: 'arrival' });
    const some = noting({ name: 'some', order: 'arrival', on: new Set(['Other']) });
    const { accept, rest, tasks } = await stage([all.handler, some.handler]);
    await accept({ cursor: 1 }, { cursor: 2, type: 'Other' });
    await until(() => all.handled.length === 2 && some.handled.length === 1);
    await rest();
    expect(await tasks()).toMatchObject({ done: 3 });
  });

  test('without handlers events are stored and get no tasks', async () => {
    const { accept, store, rest, tasks } = await stage([]);
    await accept({ cursor: 1 });
    await rest();
    expect((await store.read.status(T0)).unassigned).toBe(0);
    expect(await tasks()).toMatchObject({ held: 0, ready: 0, done: 0 });
  });

  test('a new handler starts at the current event', async () => {
    const path = join(createFolder(), 'events.db');
    const first = await stage([noting({ order: 'arrival' }).handler], {}, createStore(path));
    await first.accept({ cursor: 1 });
    await until(async () => (await first.tasks()).done === 1);
    await first.runner.drain(0);
    const fresh = noting({ name: 'fresh', order: 'arrival' });
    const second = await stage([noting({ order: 'arrival' }).handler, fresh.handler], { boot: 2 }, createStore(path));
    await second.accept({ cursor: 2 });
    await until(() => fresh.handled.length > 0);
    await second.rest();
    expect(fresh.handled).toEqual(['c:2']);
  });

  test('a lane function that throws is reported, and the session is the lane', async () => {
    let faults = 0;
    const lane = (): string => {
      throw new Error('no');
    };
    const { handler, handled } = noting({ lane, order: 'arrival' });
    const { accept, store } = await stage([handler], { onLaneFault: () => faults++ });
    await accept({ cursor: 1, session: 'mine' });
    await until(() => handled.length === 1);
    expect(faults).toBe(1);
    expect((await store.read.tasks({}, T0)).tasks).toMatchObject([{ lane: 'mine' }]);
  });

  test('a lane function that returns no string is named with its line, and the type of what it returned', async () => {
    const { handler, handled } = noting({ lane: () => 42 as unknown as string, order: 'arrival' });
    const file = import.meta.filename;
    const { accept, lines } = await stage([{ ...handler, file }]);
    await accept({ cursor: 1, session: 'mine' });
    await until(() => handled.length === 1);
    const [line] = lines.filter(({ msg }) => String(msg).startsWith('lane function'));
    expect(line?.['msg']).toBe(
      'lane function returned a value of type number, not a string; using the session as lane',
    );
    expect(line?.['at']).toMatch(/runner\.test\.ts:\d+$/);
  });

  test.each([
    ['a lone surrogate', '\ud800', '\ufffd'],
    ['a NUL', 'a\0b', 'a\ufffdb'],
    ['a pair of surrogates at the end of its longest name', `${'x'.repeat(499)}\u{1f600}`, `${'x'.repeat(499)}\ufffd`],
  ])('a lane whose name has %s has the name that the store can keep', async (_, name, kept) => {
    const { handler, handled } = noting({ lane: (event) => String(event.data['lane']), order: 'arrival' });
    const { accept, store, rest } = await stage([handler]);
    await accept({ cursor: 1, data: { lane: name } }, { cursor: 2, data: { lane: name } });
    await rest();
    expect(handled).toEqual(['c:1', 'c:2']);
    expect((await store.read.tasks({}, T0)).tasks).toMatchObject([{ lane: kept }, { lane: kept }]);
  });

  test.each(['\ud800', 'a\0b'])('a session that a store would change is none: %j', async (session) => {
    const { handler, handled } = noting({ lane: 'session', order: 'strict' });
    const { accept, store, rest } = await stage([handler]);
    await accept({ cursor: 1, session, data: { session_id: session } });
    await store.ingest.accept({ readings: [], now: T0, watermark: '1' as Cursor });
    await rest();
    expect(handled).toEqual(['c:1']);
    expect((await store.read.tasks({}, T0)).tasks).toMatchObject([{ lane: '' }]);
  });
});

describe('failure', () => {
  test('a failed attempt is retried after its back-off, until one succeeds', async () => {
    let tries = 0;
    const handle = (): void => {
      if (++tries < 3) throw new Error(`no ${tries}`);
    };
    const { accept, pass, rest, store } = await stage([{ order: 'arrival', handle }]);
    await accept({ cursor: 1 });
    for (const expected of [1, 2]) {
      await until(() => tries === expected);
      await rest();
      pass(60_000);
    }
    await until(() => tries === 3);
    await rest();
    expect((await store.read.tasks({}, T0)).tasks).toMatchObject([{ state: 'done', attempts: 3 }]);
  });

  test('an event that always fails becomes a dead letter and does not affect other events', async () => {
    const handled: string[] = [];
    const handle = (event: KitEvent): void => {
      if (event.key === 'c:2') throw new Error('poison');
      handled.push(event.key);
    };
    const { accept, pass, rest, tasks, lines } = await stage([
      { order: 'arrival', handle, retry: { attempts: 2, firstMs: 10, maxMs: 10 } },
    ]);
    await accept({ cursor: 1 }, { cursor: 2 }, { cursor: 3 }, { cursor: 4, session: 'b' });
    await until(() => handled.length === 2);
    await until(() => lines.some(({ verdict }) => verdict === 'retry'), 'the first failure');
    pass(1_000);
    await until(() => handled.length === 3);
    await rest();
    expect(await tasks()).toMatchObject({ done: 3, dead: 1 });
    expect(handled).toEqual(expect.arrayContaining(['c:1', 'c:3', 'c:4']));
    expect(lines.filter(({ verdict }) => verdict === 'dead')).toMatchObject([{ key: 'c:2', level: 50 }]);
  });

  test('the log has the failure, but no text of strangers', async () => {
    const secret = 'a message from +49 170 1234567';
    const { accept, rest, lines } = await stage([
      { order: 'arrival', handle: () => Promise.reject(new Error(secret)) },
    ]);
    await accept({ cursor: 1, data: { body: secret } });
    await until(() => lines.some(({ verdict }) => verdict === 'retry'));
    await rest();
    expect(JSON.stringify(lines)).not.toContain('1234567');
  });

  test('RetryAfter with a fraction of a millisecond does not end the process', async () => {
    let tries = 0;
    const handle = (): void => {
      if (++tries === 1) throw new RetryAfter(1.5, 'busy');
    };
    const rejections: unknown[] = [];
    const note = (error: unknown): void => void rejections.push(error);
    const others = process.listeners('unhandledRejection');
    process.removeAllListeners('unhandledRejection').on('unhandledRejection', note);
    onTestFinished(() => {
      process.removeAllListeners('unhandledRejection');
      for (const other of others) process.on('unhandledRejection', other);
    });
    const { accept, pass } = await stage([{ order: 'arrival', handle }]);
    await accept({ cursor: 1 });
    await until(() => {
      pass(10);
      return tries === 2 || rejections.length > 0;
    });
    expect(rejections).toEqual([]);
    expect(tries).toBe(2);
  });

  test('F16: a clock that is set back by an hour does not delay tasks for that hour', async () => {
    let tries = 0;
    const failing = { retry: { attempts: 5, firstMs: 1_000, maxMs: 1_000 }, on: new Set(['Failing']) };
    const handled: string[] = [];
    const { accept, pass, rest, clock } = await stage([
      {
        ...failing,
        name: 'failing',
        handle() {
          if (++tries === 1) throw new Error('the first time');
        },
      },
      { name: 'waiting', on: new Set(['Thing']), handle: (event) => void handled.push(event.key) },
    ]);
    await accept({ cursor: 1, type: 'Failing' });
    pass(250);
    await until(() => tries === 1, 'the first attempt');
    await rest();
    await accept({ cursor: 2 });
    await rest();
    expect(handled).toEqual([]);
    clock.stepped = -3_600_000;
    await until(() => {
      pass(10);
      return tries === 2 && handled.length === 1;
    }, 'the second attempt, and the window');
    expect(clock.now()).toBeLessThan(T0);
  });

  test.each([-3_600_000, 3_600_000, 60 * 86_400_000])(
    'F16: an attempt that ended just before the clock was set by %i ms is retried after its usual wait',
    async (stepped) => {
      const gate = Promise.withResolvers<void>();
      let tries = 0;
      const handle = (): Promise<void> | void => (++tries === 1 ? gate.promise : undefined);
      const retry = { attempts: 5, firstMs: 1_000, maxMs: 1_000 };
      const { accept, pass, clock, rest } = await stage([{ order: 'arrival', retry, handle }]);
      await accept({ cursor: 1 });
      await until(() => tries === 1, 'the first attempt');
      gate.reject(new Error('the first time'));
      // Waits until the attempt has ended, before the runner takes its next turn.
      for (let ticks = 0; ticks < 50; ticks++) await Promise.resolve();
      clock.stepped = stepped;
      pass(1);
      await rest();
      pass(400);
      await rest();
      expect(tries).toBe(1);
      await until(() => {
        pass(10);
        return tries === 2;
      }, 'the second attempt');
      expect(clock.at - T0).toBeLessThan(2_000);
    },
  );

  test.each([60 * 86_400_000, -60 * 86_400_000, 3_600_000])(
    'F16: order within the window is perfect, even if the clock is set by %i ms',
    async (stepped) => {
      const { handler, handled } = noting();
      const { accept, pass, rest, clock, store } = await stage([handler]);
      // The first event is fanned out, and the second is only received.
      await accept({ cursor: 5 });
      await rest();
      await store.ingest.accept({ readings: [delivery({ cursor: 4 })], now: clock.now() });
      clock.stepped = stepped;
      pass(200);
      await rest();
      expect(handled).toEqual([]);
      await accept({ cursor: 3 });
      await rest();
      expect(handled).toEqual([]);
      await until(() => {
        pass(10);
        return handled.length === 3;
      }, 'the end of the window');
      expect(handled).toEqual(['c:3', 'c:4', 'c:5']);
      expect(clock.at - T0).toBeLessThan(1_000);
    },
  );

  test('F16: tasks do not wait longer if the clock is set back while run is not running', async () => {
    const store = createStore();
    const first = await stage([noting().handler], {}, store);
    await first.accept({ cursor: 1 });
    await first.rest();
    await store.state.note({}, first.runner.state());
    await first.runner.drain(0);
    const clock = createClock(T0 - 60 * 86_400_000);
    const { handler, handled } = noting();
    const second = await stage([handler], { clock }, store);
    clock.at += 250;
    second.runner.wake();
    await until(() => handled.length === 1, 'the end of the window');
  });

  test('E9: the logged length of an attempt and the rate limit are right, even if the clock is set meanwhile', async () => {
    const gate = Promise.withResolvers<void>();
    const begun: number[] = [];
    const time: { at: number } = { at: 0 };
    const handle = (event: KitEvent): Promise<void> | void => {
      begun.push(time.at);
      if (event.key === 'c:1') return gate.promise;
    };
    const rate = { perMinute: 60 };
    const { accept, pass, clock, lines } = await stage([{ order: 'arrival', lane: 'none', rate, handle }]);
    const go = (ms: number): void => {
      pass(ms);
      time.at = clock.at - T0;
    };
    go(1_000);
    await accept({ cursor: 1 }, { cursor: 2 });
    await until(() => begun.length === 1, 'the first');
    clock.stepped = 3_600_000;
    go(100);
    gate.resolve();
    await until(() => lines.some(({ verdict }) => verdict === 'done'), 'its end');
    expect(lines.find(({ verdict }) => verdict === 'done')).toMatchObject({ ms: 100 });
    await until(() => {
      go(10);
      return begun.length === 2;
    }, 'the second');
    expect(begun[0]).toBe(1_000);
    expect(begun[1]).toBeGreaterThanOrEqual(2_000);
  });

  test('F22: after the time limit of a handler that hangs, another attempt can begin', async () => {
    const handled: string[] = [];
    const handle = (event: KitEvent): Promise<void> | void => {
      if (event.key === 'c:1') return new Promise(() => {});
      handled.push(event.key);
    };
    const { accept, store } = await stage([{ order: 'arrival', timeoutMs: 5, laneHoldMs: 0, handle }], {
      concurrency: 1,
    });
    await accept({ cursor: 1 }, { cursor: 2 });
    await until(() => handled.length === 1, 'the next of the lane');
    expect((await store.read.event('1', T0))?.tasks).toMatchObject([
      { state: 'ready', attempts: 1, error: 'Timeout: no result within 5 ms' },
    ]);
  });

  test('F26: an unhandled rejection fails the attempt that caused it, and no other', async () => {
    const failed: boolean[] = [];
    const scopes = new AsyncLocalStorage<Scope>();
    const handle = async (event: KitEvent): Promise<void> => {
      await new Promise(setImmediate);
      if (event.key !== 'c:1') return;
      failed.push(scopes.getStore()?.fail(new Error('stray')) ?? false);
      await new Promise(() => {});
    };
    const { accept, store, rest } = await stage([{ order: 'arrival', lane: 'none', handle }], { scopes });
    await accept({ cursor: 1 }, { cursor: 2 });
    await until(() => failed.length === 1);
    await rest();
    expect(failed).toEqual([true]);
    expect((await store.read.event('1', T0))?.tasks).toMatchObject([
      { state: 'ready', attempts: 1, error: expect.stringMatching(/^Error: stray \(test/) },
    ]);
    expect((await store.read.event('2', T0))?.tasks).toMatchObject([{ state: 'done' }]);
  });

  // PostgreSQL has no lock of the whole store.
  test.skipIf(onPostgres)('a store that is locked for a while only delays tasks', async () => {
    const path = join(createFolder(), 'events.db');
    storeKind.open(path, { owner: true }).close();
    const store = storeKind.open(path, { busyMs: 1 });
    onTestFinished(() => store.close());
    const { handler, handled } = noting({ order: 'arrival' });
    const { accept, runner, rest, tasks } = await stage([handler], {}, store);
    await accept({ cursor: 1 });
    await until(() => handled.length === 1);
    const lock = storeKind.queries(path);
    lock.exec('begin immediate');
    runner.wake();
    await new Promise(setImmediate);
    lock.exec('commit');
    lock.close();
    await rest();
    expect(await tasks()).toMatchObject({ done: 1 });
    expect(handled).toEqual(['c:1']);
  });
});

describe('completion', () => {
  test("commits the handler's writes with its task", async () => {
    const handle = (_: KitEvent, ctx: Context): Promise<void> =>
      ctx.complete((tx) => void tx.run('insert into mine values (1)'));
    const { accept, rest, store, tasks } = await stage([{ order: 'arrival', handle }]);
    await store.work.setup((tx) => void tx.run('create table mine (n integer)'));
    await accept({ cursor: 1 }, { cursor: 2 });
    await until(async () => (await tasks()).done === 2);
    await rest();
    let rows: unknown;
    await store.work.setup(async (tx) => void (rows = await tx.all('select n from mine')));
    expect(rows).toEqual([{ n: 1 }, { n: 1 }]);
    expect((await store.read.counters())['fenced'] ?? 0).toBe(0);
  });
});

test.each([
  ['returns', async () => {}, 'done'],
  ['calls ctx.complete', (ctx: Context) => ctx.complete(() => {}), 'done'],
  ['throws', () => Promise.reject(new Error('no')), 'retry'],
] as const)('the duration of an attempt is counted if its handler %s', async (_, end, verdict) => {
  const gate = Promise.withResolvers<void>();
  const handle = async (_event: KitEvent, ctx: Context): Promise<void> => {
    await gate.promise;
    await end(ctx);
  };
  const { accept, pass, store, tasks } = await stage([{ name: 'timed', order: 'arrival', handle }]);
  await accept({ cursor: 1 });
  await until(async () => (await tasks()).running === 1);
  pass(150);
  gate.resolve();
  const counted = async (): Promise<Record<string, number>> => store.read.counters();
  await until(async () => (await counted())[`attempts.${verdict}.timed`] === 1);
  expect(await counted()).toMatchObject({ 'took.200.timed': 1, 'took.sum_us.timed': 150_000 });
});

describe('a drain', () => {
  test('lets handlers finish if they can, and makes the other tasks ready again without spending an attempt', async () => {
    let started = 0;
    const handle = (event: KitEvent, ctx: Context): Promise<void> => {
      started++;
      if (event.key === 'c:1') return new Promise(() => {});
      if (event.key === 'c:2') return new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve()));
      return new Promise((_resolve, reject) =>
        ctx.signal.addEventListener('abort', () => reject(new Error('stopped'))),
      );
    };
    const { accept, runner, store, tasks } = await stage([{ order: 'arrival', lane: 'none', handle }]);
    await accept({ cursor: 1 }, { cursor: 2 }, { cursor: 3 });
    await until(() => started === 3);
    await runner.drain(50);
    expect(await tasks()).toMatchObject({ done: 1, ready: 2, running: 0 });
    const waiting = (await store.read.tasks({ state: 'ready' }, T0)).tasks;
    expect(waiting.map(({ attempts, error }) => [attempts, error])).toEqual([
      [0, null],
      [0, null],
    ]);
  });

  test('makes tasks ready again that were claimed and had not begun', async () => {
    const gate = Promise.withResolvers<void>();
    let started = 0;
    const handle = async (): Promise<void> => {
      started++;
      await gate.promise;
    };
    const { accept, runner, tasks } = await stage([{ order: 'arrival', lane: 'none', handle }], { concurrency: 2 });
    await accept(...Array.from({ length: 20 }, (_, i) => ({ cursor: i + 1 })));
    await until(() => started === 2);
    const drained = runner.drain(1_000);
    gate.resolve();
    await drained;
    expect(started).toBe(2);
    expect(await tasks()).toMatchObject({ done: 2, ready: 18, running: 0 });
  });

  test('makes tasks ready again that a turn was claiming', async () => {
    const store = createStore();
    const reached = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    /** A store whose turn answers only when the test lets it. */
    const distant: Store = {
      ...store,
      work: {
        ...store.work,
        async turn(turn) {
          const result = await store.work.turn(turn);
          if (result.claims.length > 0) {
            reached.resolve();
            await gate.promise;
          }
          return result;
        },
      },
    };
    const { handler, handled } = noting({ order: 'arrival' });
    const { accept, runner, tasks } = await stage([handler], {}, distant);
    await accept({ cursor: 1 });
    await reached.promise;
    const drained = runner.drain(50);
    gate.resolve();
    await drained;
    expect(handled).toEqual([]);
    expect(await tasks()).toMatchObject({ ready: 1, running: 0 });
  });

  test('claims no more tasks', async () => {
    const { handler, handled } = noting({ order: 'arrival' });
    const { accept, runner, store } = await stage([handler]);
    await runner.drain(0);
    await accept({ cursor: 1 });
    runner.wake();
    await new Promise(setImmediate);
    expect(handled).toEqual([]);
    expect((await store.read.status(T0)).unassigned).toBe(1);
  });
});

describe('a rerun', () => {
  test('gives its handler again each event that it wants, beside new events', async () => {
    const { handler, handled } = noting({ on: new Set(['Thing']) });
    const { store, accept, pass, rest, clock } = await stage([handler, { name: 'other' }]);
    await accept(...Array.from({ length: 600 }, (_, n) => ({ cursor: 600 - n, session: `s-${n % 7}` })));
    await accept({ cursor: 700, type: 'Else' });
    pass(250);
    await until(() => handled.length === 600);
    await rest();
    handled.length = 0;
    const range = await store.admin.range(T0, null);
    const asked = { handler: 'one', type: null, from: 'then', to: null, events: 601, range };
    await store.admin.askRerun(asked, clock.now());
    await accept({ cursor: 800, session: 'live' });
    pass(250);
    await until(() => handled.length === 601);
    await rest();
    expect(new Set(handled).size).toBe(601);
    const [rerun] = await store.admin.reruns(1);
    expect(rerun).toMatchObject({ state: 'ended', seen: 601, made: 600, untried: 0 });
    const { tasks } = await store.read.tasks({ handler: 'one', limit: 1_000 }, clock.now());
    expect(tasks.every(({ late, state }) => state === 'done' && !late)).toBe(true);
  });

  test('takes a quarter of the concurrent attempts, so that new events of the handler need not wait', async () => {
    const gate = Promise.withResolvers<void>();
    const begun: string[] = [];
    let waits = false;
    const handle = (event: KitEvent): Promise<void> | void => {
      begun.push(event.key);
      return waits ? gate.promise : undefined;
    };
    const { store, accept, clock, runner } = await stage([{ lane: 'none', order: 'arrival', handle }], {
      concurrency: 8,
    });
    await accept(...Array.from({ length: 10 }, (_, n) => ({ cursor: n + 1 })));
    await until(async () => begun.length === 10 && (await store.read.status(clock.now())).tasks.done === 10);
    waits = true;
    begun.length = 0;
    const asked = { handler: 'one', type: null, from: '1', to: null, events: 10 };
    await store.admin.askRerun({ ...asked, range: await store.admin.range('1' as Cursor, null) }, clock.now());
    runner.wake();
    await until(() => begun.length === 2);
    await accept({ cursor: 11 });
    await until(() => begun.includes('c:11'));
    expect(begun).toHaveLength(3);
    gate.resolve();
    await until(() => begun.length === 11);
  });
});

describe('a rate limit', () => {
  test('lets attempts begin one by one, leaves the other tasks ready, and delays no other handler', async () => {
    const slow = noting({ name: 'slow', lane: 'none', order: 'arrival', rate: { perMinute: 60 } });
    const quick = noting({ name: 'quick', lane: 'none', order: 'arrival' });
    const { accept, pass, tasks } = await stage([slow.handler, quick.handler]);
    await accept(...Array.from({ length: 20 }, (_, n) => ({ cursor: n + 1 })));
    await until(async () => quick.handled.length === 20 && (await tasks()).done === 20);
    expect(slow.handled).toEqual([]);
    expect(await tasks()).toMatchObject({ ready: 20, running: 0, done: 20 });
    for (let begun = 1; begun <= 5; begun++) {
      pass(1_000);
      await until(async () => (await tasks()).done === 20 + begun);
      expect(slow.handled).toHaveLength(begun);
    }
    pass(3_600_000);
    await until(async () => (await tasks()).done === 26);
    await until(async () => (await tasks()).running === 0);
    expect(slow.handled).toHaveLength(6);
    expect((await tasks()).ready).toBe(14);
  });
});
