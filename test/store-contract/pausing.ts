// Pauses of handlers, and the figures that people see of each handler.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import type { Settlement } from '../../src/store/work.ts';
import { moveTasks } from '../../src/admin/move.ts';
import { cursorOf, done, ended, failed, present, range, ROOM, T0, tasksOf, type Desk, type Suite } from './harness.ts';

export function pausing(suite: Suite<Store>): void {
  let store: Store;
  let desk: Desk;
  beforeEach(() => void ({ store, desk } = suite));

  const claimed = async (handlers = [desk.handler]): Promise<string[]> =>
    (await desk.turn({ room: ROOM, handlers })).claims.map(cursorOf);
  const figures = async () =>
    Object.fromEntries((await store.read.handlers(desk.now)).map(({ name, ...figure }) => [name, figure]));

  describe('a paused handler', () => {
    test('claims nothing, its running attempts end, and after the pause its lanes go on in order', async () => {
      await desk.arrive('a', [1, 2]);
      const [running] = await desk.claim();
      await store.admin.pause('first', 'a bot', T0);
      await desk.arrive('a', [3]);
      expect((await desk.settle([done(present(running))])).fenced).toBe(0);
      expect(await claimed()).toEqual([]);
      expect(await store.admin.resume('first', desk.now)).toBe(true);
      expect(await desk.workOff()).toEqual([['2'], ['3']]);
    });

    test('does not delay another handler, and no time is awaited for it', async () => {
      const second = present((await store.work.register(['first', 'second'])).get('second'));
      await desk.accept('a', [1]);
      const { from, events } = await store.work.pending(10);
      await store.admin.pause('first', null, T0);
      const tasks = [desk.handler, second].flatMap((handler) => tasksOf(events, handler, T0));
      const handlers = [desk.handler, second];
      const { claims, nextAt } = await desk.turn({ fanOut: { from, upTo: 1, tasks }, room: ROOM, handlers });
      expect(claims.map(({ handler }) => handler)).toEqual([second]);
      expect(nextAt).toBeNull();
    });

    test('runs no isolated task either', async () => {
      await desk.arrive('a', [1]);
      await desk.arrive('b', [2]);
      await desk.claim();
      await store.processes.giveBack([], T0);
      await store.admin.pause(null, null, T0);
      expect(await store.processes.isolatedDue(T0, ['first'])).toBe(false);
      expect(await store.work.claimIsolated(T0, 2, [desk.handler])).toBeUndefined();
      await store.admin.resume(null, desk.now);
      expect(await store.processes.isolatedDue(T0, ['first'])).toBe(true);
    });

    test('keeps the place of a failed task in its lane, however long the pause', async () => {
      await desk.arrive('a', [10, 20, 30]);
      await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 1_000, holdMs: 120_000 })));
      await store.admin.pause('first', null, T0 + 500);
      desk.now = T0 + 3_600_000;
      expect(await claimed()).toEqual([]);
      await store.admin.resume('first', desk.now);
      expect(await desk.workOff()).toEqual([['10'], ['20'], ['30']]);
    });

    test.each([0, 3_600_000])(
      'keeps the place of a task whose process crashed, after a pause of %i ms',
      async (pauseMs) => {
        await desk.arrive('a', [10, 20]);
        expect((await desk.claim()).map(cursorOf)).toEqual(['10']);
        await store.processes.giveBack([], T0, { how: 'SIGKILL', after: () => ({ delayMs: 1_000, holdMs: 120_000 }) });
        desk.boot = 2;
        await store.admin.pause('first', null, T0);
        desk.now = T0 + 1_000 + pauseMs;
        await store.admin.resume('first', desk.now);
        // The next turn comes before the other process has begun the task.
        expect(await claimed()).toEqual([]);
        const isolated = present(await store.work.claimIsolated(desk.now, 3, [desk.handler]));
        expect(cursorOf(isolated)).toBe('10');
        await store.work.complete(isolated, desk.now, () => {});
        expect(await claimed()).toEqual(['20']);
      },
    );

    test('stays paused under the new name that its tasks are moved to, and not under the old one', async () => {
      await desk.arrive('a', [1]);
      await store.admin.pause('first', 'it answers twice', T0);
      const second = present((await store.work.register(['second'])).get('second'));
      desk.now = T0 + 60_000;
      await moveTasks(store, { from: 'first', to: 'second' }, { now: () => desk.now, monotonic: () => desk.now });
      expect(await claimed([second])).toEqual([]);
      const paused = { since: '2026-01-01T00:00:00.000Z', reason: 'it answers twice', all: false };
      expect(await figures()).toMatchObject({ first: { paused: null }, second: { waiting: 1, paused } });
    });

    test.each(['first', null])(
      'starts paused under its new name, and goes on in order: a pause of %s',
      async (name) => {
        await desk.arrive('a', [10, 20]);
        await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 1_000, holdMs: 120_000 })));
        await store.work.setup(() => {}, { handler: 'first', step: 1, digest: 'd1', now: T0 });
        await store.admin.pause(name, 'a rename', T0 + 500);
        const move = () =>
          moveTasks(store, { from: 'first', to: 'second' }, { now: () => desk.now, monotonic: () => desk.now });
        expect(await move()).toEqual({ moved: 0, steps: 1, paused: true });
        const second = present((await store.work.register(['second'])).get('second'));
        await desk.accept('a', [30]);
        const { from, events } = await store.work.pending(10);
        await desk.turn({ fanOut: { from, upTo: events.at(-1)?.seq ?? 0, tasks: tasksOf(events, second, T0) } });
        desk.now = T0 + 3_600_000;
        expect(await claimed([second])).toEqual([]);
        expect(await move()).toEqual({ moved: 2, steps: 0, paused: true });
        expect(await claimed([second])).toEqual([]);
        await store.admin.resume(name && 'second', desk.now);
        const order: string[] = [];
        for (let settle: Settlement[] = [], n = 0; n < 4; n++) {
          const { claims } = await desk.turn({ settle, room: ROOM, handlers: [second] });
          order.push(...claims.map(cursorOf));
          settle = claims.map(done);
        }
        expect(order).toEqual(['10', '20', '30']);
      },
    );

    test('can go on under a name that no handler has ever had', async () => {
      await store.admin.pause('mistyped', null, T0);
      expect(await store.admin.resume('mistyped', T0)).toBe(true);
      await store.admin.pause(null, null, T0);
      expect(await store.admin.resume('mistyped', T0)).toBe(false);
      expect((await figures())['first']?.paused?.all).toBe(true);
    });

    test('stays paused in another process, and keeps the time of its first pause', async () => {
      await store.admin.pause('first', 'why', T0);
      const other = suite.another();
      await other.admin.pause('first', 'again', T0 + 60_000);
      expect((await other.read.handlers(T0))[0]?.paused).toEqual({
        since: '2026-01-01T00:00:00.000Z',
        reason: 'why',
        all: false,
      });
      await desk.arrive('a', [1]);
      expect(await claimed()).toEqual([]);
    });
  });

  describe('a pause of all handlers', () => {
    test('also stops a handler that is loaded later', async () => {
      await store.admin.pause(null, null, T0);
      const later = present((await store.work.register(['first', 'later'])).get('later'));
      await desk.accept('a', [1]);
      const { from, events } = await store.work.pending(10);
      await desk.turn({ fanOut: { from, upTo: 1, tasks: tasksOf(events, later, T0) } });
      expect(await claimed([desk.handler, later])).toEqual([]);
      expect((await figures())['later']?.paused?.all).toBe(true);
    });

    test('leaves the others paused if one handler goes on, and ends with all of them', async () => {
      await store.work.register(['first', 'second']);
      await store.admin.pause(null, 'a bot', T0);
      expect(await store.admin.resume('first', desk.now)).toBe(true);
      const paused = async () =>
        Object.entries(await figures()).map(([name, figure]) => [name, figure.paused !== null]);
      expect(await paused()).toEqual([
        ['first', false],
        ['second', true],
      ]);
      expect(await store.admin.resume(null, desk.now)).toBe(true);
      expect(await store.admin.resume(null, desk.now)).toBe(false);
      expect((await paused()).some(([, is]) => is)).toBe(false);
    });

    test.each(['constructor', '__proto__', '*', 'toString'])(
      'concerns a handler named %s as any other',
      async (name) => {
        const id = present((await store.work.register([name])).get(name));
        await desk.accept('a', [1]);
        const { from, events } = await store.work.pending(10);
        await desk.turn({ fanOut: { from, upTo: 1, tasks: tasksOf(events, id, T0) } });
        expect((await figures())[name === '__proto__' ? 'x' : name]?.paused ?? null).toBeNull();
        await store.admin.pause(name, null, T0);
        expect(await claimed([id])).toEqual([]);
        await store.admin.resume(name, desk.now);
        expect(await claimed([id])).toEqual(['1']);
      },
    );
  });

  describe('the figures of a handler', () => {
    test('follow its tasks through every change', async () => {
      await desk.arrive('a', [1, 2, 3]);
      desk.now = T0 + 5_000;
      expect((await figures())['first']).toEqual({ loaded: true, paused: null, waiting: 3, oldestSeconds: 5, dead: 0 });
      const [one] = await desk.claim(1);
      await desk.settle([ended(present(one), 'dead')]);
      expect((await figures())['first']).toMatchObject({ waiting: 2, dead: 1 });
      await store.admin.retry(await store.admin.matching({ state: 'dead' }, desk.now), desk.now);
      expect((await figures())['first']).toMatchObject({ waiting: 3, dead: 0 });
      await store.admin.discard(await store.admin.matching({ state: 'ready' }, desk.now), 'a test', desk.now);
      expect((await figures())['first']).toMatchObject({ waiting: 0, oldestSeconds: null });
    });

    test('are known beside a long backlog of another handler', async () => {
      for (let from = 1; from <= 10_001; from += 2_500) await desk.arrive('a', range(from, from + 2_499));
      await store.admin.pause('first', null, T0);
      const second = present((await store.work.register(['first', 'second'])).get('second'));
      await desk.accept('b', [20_000]);
      const { from, events } = await store.work.pending(10);
      await desk.turn({ fanOut: { from, upTo: from + 1, tasks: tasksOf(events, second, T0) } });
      const [claim] = (await desk.turn({ room: ROOM, handlers: [second] })).claims;
      await desk.settle([failed(claim, { dueAt: T0 + 60_000, holdMs: 120_000 })]);
      desk.now = T0 + 7_200_000;
      expect((await figures())['second']).toMatchObject({ waiting: 1, oldestSeconds: 7_200 });
      expect((await store.read.handler('second', desk.now))?.failing).toMatchObject([{ tasks: 1 }]);
    });

    test('count tasks for the handler that they were given to', async () => {
      await desk.arrive('a', [1, 2]);
      await store.work.register(['second']);
      await store.admin.giveTo(await store.admin.matching({ handler: 'first' }, T0), 'second', T0);
      expect(await figures()).toMatchObject({ first: { waiting: 0 }, second: { waiting: 2 } });
    });

    test('are kept apart from those of a handler whose name holds dots', async () => {
      const dotted = present((await store.work.register(['first', 'a.b.c'])).get('a.b.c'));
      await desk.accept('a', [1]);
      const { from, events } = await store.work.pending(10);
      await desk.turn({ fanOut: { from, upTo: 1, tasks: tasksOf(events, dotted, T0) } });
      const [claim] = (await desk.turn({ room: ROOM, handlers: [dotted] })).claims;
      await desk.settle([done(Object.assign(present(claim), { tookMs: 7 }))]);
      await store.read.sample(T0);
      const [sample] = await store.read.samples(T0, T0, 10_000);
      const took = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
      expect(sample?.handlers).toEqual({ 'a.b.c': { succeeded: 1, failed: 0, took } });
      expect(await store.read.counters()).toMatchObject({ 'took.10.a.b.c': 1, 'took.sum_us.a.b.c': 7_000 });
    });
  });

  test('a done task runs again only if it is asked for, and not without the body of its event', async () => {
    await desk.arrive('a', [1, 2]);
    await desk.workOff();
    const ids = await store.admin.matching({ state: 'done', ids: [4097, 8193] }, T0);
    expect(await store.admin.matching({ state: 'done' }, T0)).toEqual([]);
    expect(ids).toEqual([4097, 8193]);
    expect(await store.admin.retry(ids, T0)).toBe(0);
    expect(await store.admin.retry(ids.slice(0, 1), T0, true)).toBe(1);
    expect(await desk.workOff()).toEqual([['1']]);
    expect(await store.admin.matching({ state: 'done', ids, receivedBefore: T0 }, T0)).toEqual([]);
    await store.admin.eraseEvents(() => true, 0, 10, T0, false);
    expect(await store.admin.matching({ state: 'done', ids }, T0)).toEqual([]);
    expect(await store.admin.retry(ids, T0, true)).toBe(0);
  });

  test('waiting tasks are selected by the time when their event was received', async () => {
    await desk.arrive('a', [1]);
    desk.now = T0 + 60_000;
    await desk.arrive('b', [2]);
    await store.work.register(['first', 'second']);
    const older = (by: number) => store.admin.matching({ state: 'ready', receivedBefore: by }, desk.now);
    expect(await older(T0)).toEqual([]);
    expect(await older(T0 + 1)).toEqual([4097]);
    expect(await older(T0 + 60_001)).toEqual([4097, 8193]);
    const { tasks } = await store.read.tasks({ receivedBefore: T0 + 1 }, desk.now);
    expect(tasks.map(({ key }) => key)).toEqual(['c:1']);
    // The clock was set back, took one event, and was corrected.
    desk.now = T0 - 3_600_000;
    await desk.arrive('c', [3]);
    desk.now = T0 + 60_000;
    expect(await older(T0)).toEqual([12_289]);
  });

  test('what a handler is busy with: failures by cause, its slowest tasks, its lanes', async () => {
    expect(await store.read.handler('nobody', T0)).toBeUndefined();
    await desk.arrive('a', [1, 2]);
    await desk.arrive('b', [3]);
    const claims = await desk.claim();
    const errors = claims.map((claim) => {
      return { claim, state: 'ready', error: `Error: no ${cursorOf(claim)}`, dueAt: T0, holdMs: 60_000 } as const;
    });
    await desk.settle(errors);
    const { failing, lanes, slowest } = present(await store.read.handler('first', T0));
    expect(failing).toMatchObject([{ tasks: 2, key: 'c:3', error: 'Error: no 3' }]);
    expect(lanes).toMatchObject([{ lane: 'a', waiting: 2 }]);
    expect(slowest).toEqual([]);
    desk.now = T0 + 1_000;
    const [again] = await desk.claim(1);
    desk.now = T0 + 3_500;
    await desk.settle([done(present(again))]);
    expect((await store.read.handler('first', T0))?.slowest).toMatchObject([
      { key: 'c:1', state: 'done', tookMs: 2_500 },
    ]);
  });

  test('filters offer the types, sessions and handlers that exist', async () => {
    await desk.arrive('a', [1, 2]);
    await desk.arrive('b', [3]);
    expect(await store.read.offers()).toEqual({ types: ['Thing'], sessions: ['b', 'a'], handlers: ['first'] });
    expect(await store.read.extent()).toEqual({ oldestAt: T0, prunedAt: null });
  });

  test('each event of a list has the state of its tasks', async () => {
    await desk.arrive('a', [1, 2]);
    await desk.settle((await desk.claim()).map(done));
    await desk.accept('b', [3]);
    const { events } = await store.read.events({ limit: 10 }, T0);
    expect(events.map(({ key, outcomes }) => [key, outcomes])).toEqual([
      ['c:3', []],
      ['c:2', [{ handler: 'first', state: 'ready' }]],
      ['c:1', [{ handler: 'first', state: 'done' }]],
    ]);
  });
}
