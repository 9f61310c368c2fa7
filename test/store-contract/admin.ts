// Changes of tasks by people: retry, discard, or move to another handler. Tasks keep their lanes, and running tasks are
// not changed.
import { beforeEach, describe, expect, test } from 'vitest';
import { changeInSteps } from '../../src/admin/in-steps.ts';
import type { Store } from '../../src/store/store.ts';
import type { TaskFilter } from '../../src/store/read.ts';
import type { Claim } from '../../src/store/work.ts';
import { cursorOf, done, ended, failed, present, range, ROOM, T0, tasksOf, type Desk, type Suite } from './harness.ts';

export function fixing(suite: Suite<Store>): void {
  let store: Store;
  let desk: Desk;
  beforeEach(() => void ({ store, desk } = suite));

  describe('retry', () => {
    test('gives a dead task a new budget of attempts, in the order of its lane', async () => {
      await desk.arrive('a', [10, 20]);
      await desk.settle((await desk.claim()).map((claim) => ended(claim, 'dead')));
      expect(await retry(store, { state: 'dead' })).toBe(1);
      const claims = await desk.claim();
      expect(claims).toMatchObject([{ event: { cursor: '10' }, attempt: 1 }]);
      await desk.settle(claims.map(done));
      expect((await desk.claim()).map(cursorOf)).toEqual(['20']);
    });

    test('makes a waiting task due at once, back in the lane that it had stepped aside from', async () => {
      await desk.arrive('a', [10, 20]);
      await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 3_600_000, holdMs: 0 })));
      const running = await desk.claim();
      expect(running.map(cursorOf)).toEqual(['20']);
      expect(await retry(store, { state: 'ready' })).toBe(1);
      expect(await desk.claim()).toEqual([]);
      await desk.settle(running.map(done));
      expect(await desk.claim()).toMatchObject([{ event: { cursor: '10' }, alone: false, late: true }]);
    });

    test('changes only the tasks with these ids, or of this handler, and no running task', async () => {
      await desk.arrive(null, [1, 2, 3]);
      await desk.settle((await desk.claim()).slice(0, 2).map((claim) => ended(claim, 'dead')));
      const { tasks } = await store.read.tasks({ state: 'dead' }, T0);
      expect(await retry(store, { handler: 'another' })).toBe(0);
      expect(await retry(store, { ids: [] })).toBe(0);
      expect(await retry(store, { ids: tasks.slice(0, 1).map(({ id }) => id) })).toBe(1);
      expect((await store.read.status(T0)).tasks).toMatchObject({ dead: 1, running: 1, ready: 1 });
      expect(await retry(store, {})).toBe(2);
    });

    test('retries any number of tasks, each once', async () => {
      await desk.arrive(null, range(1, 2_500));
      await desk.settle((await desk.claim(10_000)).map((claim) => ended(claim, 'dead')));
      await desk.settle((await desk.claim(10_000)).map((claim) => ended(claim, 'dead')));
      const { dead } = (await store.read.status(T0)).tasks;
      expect(dead).toBeGreaterThan(2_000);
      expect(await retry(store, { state: 'dead' })).toBe(dead);
      expect((await store.read.status(T0)).tasks.dead).toBe(0);
    });

    test('puts a dead task whose lane was swept away into no other lane', async () => {
      await desk.arrive('a', [1]);
      await desk.settle((await desk.claim()).map((claim) => ended(claim, 'dead')));
      await store.keep.sweep(T0 + 1);
      await desk.arrive('b', [2]);
      expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
      expect((await store.read.event('1', T0))?.tasks[0]?.lane).not.toBe('b');
      await retry(store, { state: 'dead' });
      expect((await desk.claim()).map(cursorOf)).toEqual(['1']);
    });
  });

  describe('what a page has shown', () => {
    const dead = async () => desk.settle((await desk.claim()).map((claim) => ended(claim, 'dead')));
    const matching = async (changedBy: number, now: number) =>
      (await store.admin.matching({ state: 'dead', changedBy }, now)).length;

    test('includes dead letters from an hour in which the clock was ahead', async () => {
      desk.now = T0 + 3_600_000;
      await desk.arrive('a', [1]);
      await dead();
      const corrected = T0 + 1_000;
      await store.work.clockStepped(corrected - desk.now, corrected);
      expect(await matching(corrected, corrected + 5_000)).toBe(1);
    });

    test('includes no dead letter that has changed since', async () => {
      await desk.arrive('a', [1]);
      await desk.arrive('b', [2]);
      desk.now = T0 + 1_000;
      await dead();
      expect([await matching(T0, desk.now), await matching(T0 + 1_000, desk.now)]).toEqual([0, 2]);
    });
  });

  describe('discard', () => {
    test('skips waiting and dead tasks with the reason, and their lane goes on', async () => {
      await desk.arrive('a', [10, 20, 30]);
      const first = await desk.claim();
      const { tasks } = await store.read.tasks({}, T0);
      const second = tasks.flatMap(({ key, id }) => (key === 'c:20' ? [id] : []));
      expect(await discard(store, { ids: second }, 'not wanted')).toBe(1);
      await desk.settle(first.map((claim) => ended(claim, 'dead')));
      expect(await discard(store, { state: 'dead' }, 'given up')).toBe(1);
      expect(await desk.claim()).toMatchObject([{ event: { cursor: '30' }, late: false }]);
      const skipped = (await store.read.tasks({ state: 'skipped' }, T0)).tasks;
      expect(skipped.map(({ error }) => error)).toEqual(['discarded: not wanted', 'discarded: given up']);
    });

    test('of a failed task that holds its lane lets the lane go on at once', async () => {
      await desk.arrive('a', [10, 20]);
      await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 60_000, holdMs: 60_000 })));
      const [, head] = (await store.read.tasks({}, T0)).tasks;
      await discard(store, { ids: [head?.id ?? 0] }, 'no');
      expect((await desk.claim()).map(cursorOf)).toEqual(['20']);
    });

    test('of a later task makes the earlier tasks of its lane neither late nor released', async () => {
      await desk.arrive('a', [10, 30], T0 + 250);
      const [later] = (await store.read.tasks({}, T0)).tasks;
      expect(later?.key).toBe('c:30');
      await discard(store, { ids: [later?.id ?? 0] }, 'no');
      expect(await desk.claim()).toEqual([]);
      desk.now = T0 + 250;
      expect(await desk.claim()).toMatchObject([{ event: { cursor: '10' }, late: false }]);
    });

    test('of held tasks leaves released tasks unchanged', async () => {
      await desk.arrive('a', [1]);
      await desk.arrive('b', [2], T0 + 60_000);
      expect((await store.read.tasks({ state: 'held' }, T0)).tasks.map(({ key }) => key)).toEqual(['c:2']);
      expect(await discard(store, { state: 'held' }, 'no')).toBe(1);
      expect((await desk.claim()).map(cursorOf)).toEqual(['1']);
    });

    test('does not change running tasks', async () => {
      await desk.arrive('a', [1]);
      const claims = await desk.claim();
      expect(await discard(store, {}, 'no')).toBe(0);
      expect((await desk.settle(claims.map(done))).fenced).toBe(0);
    });
  });

  describe('tasks of a handler that was renamed', () => {
    test('move to its new name, into lanes with the same progress; done and running tasks stay', async () => {
      await desk.arrive('a', [1, 5]);
      await desk.settle((await desk.claim()).map(done));
      await desk.settle((await desk.claim()).map((claim) => ended(claim, 'dead')));
      await desk.arrive('a', [3, 7]);
      await desk.arrive('b', [9]);
      const atWork = await desk.claim();
      expect(atWork.map(cursorOf).toSorted()).toEqual(['3', '9']);
      const second = present((await store.work.register(['second'])).get('second'));
      const give = (ids: number[]): Promise<number> => store.admin.giveTo(ids, 'second', T0);
      expect(await changeInSteps(await store.admin.matching({ handler: 'first' }, T0), give)).toBe(2);
      expect((await desk.settle(atWork.map(done))).fenced).toBe(0);
      expect(await store.admin.giveLanes('first', 'second', 0, 10, T0)).toBeNull();
      const { tasks } = await store.read.tasks({ handler: 'second' }, T0);
      expect(tasks.map(({ key, lane, state }) => [key, lane, state])).toEqual([
        ['c:7', 'a', 'ready'],
        ['c:5', 'a', 'dead'],
      ]);
      expect(await desk.workOff()).toEqual([]);
      expect(await retry(store, { handler: 'second', state: 'dead' })).toBe(1);
      await desk.accept('b', [8]);
      const { from, events } = await store.work.pending(10);
      const fanOut = { from, upTo: events.at(-1)?.seq ?? 0, tasks: tasksOf(events, second, T0) };
      const { claims } = await desk.turn({ fanOut, handlers: [second], room: ROOM });
      expect(new Map(claims.map((claim) => [cursorOf(claim), claim.late]))).toEqual(
        new Map([
          ['5', false],
          ['8', true],
        ]),
      );
      const rest = await desk.turn({ settle: claims.map(done), handlers: [second], room: ROOM });
      expect(rest.claims.map(cursorOf)).toEqual(['7']);
    });

    test('are skipped, with the reason, if the new name already has a task of the event', async () => {
      const second = present((await store.work.register(['first', 'second'])).get('second'));
      await desk.accept('a', [1]);
      const { from, events } = await store.work.pending(10);
      const tasks = [desk.handler, second].flatMap((handler) => tasksOf(events, handler, T0));
      await desk.turn({ fanOut: { from, upTo: 1, tasks } });
      const ids = await store.admin.matching({ handler: 'first' }, T0);
      expect(await store.admin.giveTo(ids, 'second', T0)).toBe(0);
      expect((await store.read.tasks({ handler: 'first' }, T0)).tasks).toMatchObject([
        { state: 'skipped', error: 'second has its own task of this event' },
      ]);
      expect((await store.read.tasks({ handler: 'second' }, T0)).tasks).toMatchObject([{ state: 'ready' }]);
    });

    test('and all other handlers are listed by name, each with whether it is loaded', async () => {
      await store.work.register(['second']);
      expect(await store.read.handlers(T0)).toMatchObject([
        { name: 'first', loaded: false },
        { name: 'second', loaded: true },
      ]);
    });
  });

  test('a chain is recalled if another process changes its lane', async () => {
    await desk.arrive('a', [10, 20, 30]);
    const claims = (await desk.turn({ room: ROOM, chains: new Map([[desk.handler, 2]]) })).claims;
    await store.admin.discard(await store.admin.matching({ state: 'ready' }, T0), 'for a test', T0);
    await desk.turn({ room: 1 });
    expect(claims.map(({ chain }) => chain.recalled)).toEqual([true, true]);
  });

  test('after an erasure, what had been claimed and not begun goes back, and is skipped with no attempt spent', async () => {
    await desk.arrive('a', [10, 20, 30]);
    const { claims } = await desk.turn({ room: ROOM, chains: new Map([[desk.handler, 3]]) });
    await store.admin.eraseEvents((body) => !String(Buffer.from(body)).includes('"30"'), 0, 10, T0, false);
    await desk.turn({ room: 1 });
    expect(claims.map(({ chain }) => chain.recalled)).toEqual([true, true, true]);
    const [first, ...rest] = claims;
    const back = rest.map((claim) => ({ ...failed(claim, { dueAt: T0, holdMs: 0 }), error: null, spent: false }));
    await desk.settle([done(first), ...back]);
    expect((await desk.claim()).map(cursorOf)).toEqual(['30']);
    expect((await store.read.tasks({ state: 'skipped' }, T0)).tasks).toMatchObject([
      { key: 'c:20', error: 'erased', attempts: 0 },
    ]);
  });

  test('a running task whose event was erased is not tried again', async () => {
    await desk.arrive('a', [10]);
    const claims = await desk.claim();
    await store.admin.eraseEvents(() => true, 0, 10, T0, false);
    await desk.settle(claims.map((claim) => failed(claim, { dueAt: T0, holdMs: 0 })));
    expect(await desk.claim()).toEqual([]);
    expect((await store.read.tasks({}, T0)).tasks).toMatchObject([{ state: 'skipped', error: 'erased', attempts: 1 }]);
  });

  describe('a note', () => {
    let claim: Claim;
    beforeEach(async () => {
      await desk.arrive('a', [10]);
      claim = present((await desk.claim())[0]);
      await store.work.noteTask(claim, 'begun', '"15550100"', T0);
    });

    test('stays when a dead letter is retried', async () => {
      await desk.settle([ended(claim, 'dead')]);
      await store.admin.retry([claim.task], T0);
      expect((await desk.claim()).map((again) => again.notes)).toEqual([{ begun: '"15550100"' }]);
    });

    test('goes when the event is erased', async () => {
      await desk.settle([ended(claim, 'dead')]);
      await store.admin.eraseEvents(() => true, 0, 10, T0, false);
      await store.admin.retry([claim.task], T0);
      expect((await desk.claim()).map((again) => again.notes)).toEqual([{}]);
    });

    test('follows its task to another handler', async () => {
      await desk.settle([ended(claim, 'dead')]);
      const second = present((await store.work.register(['second'])).get('second'));
      await store.admin.giveTo([claim.task], 'second', T0);
      await store.admin.retry(await store.admin.matching({ handler: 'second' }, T0), T0);
      const { claims } = await desk.turn({ room: 1, handlers: [second] });
      expect(claims.map((again) => again.notes)).toEqual([{ begun: '"15550100"' }]);
    });
  });

  test('a retry by a person starts with the first attempt and no crashes', async () => {
    const crash = {
      how: 'exit code 7',
      after: (_: string, __: number, crashes: number) =>
        crashes >= 3 ? ('dead' as const) : { delayMs: 10, holdMs: 60_000 },
    };
    await desk.arrive(null, [1]);
    await desk.claim();
    for (let boot = 2; boot < 5; boot++) {
      await store.processes.giveBack([], desk.now, crash);
      desk.now += 100;
      await store.work.claimIsolated(desk.now, boot, [desk.handler]);
    }
    const { tasks } = await store.read.tasks({ state: 'dead', limit: 10 }, desk.now);
    await store.admin.retry(
      tasks.map(({ id }) => id),
      desk.now,
    );
    await desk.claim();
    expect(await store.processes.giveBack([], desk.now, crash)).toMatchObject([{ attempt: 1, dead: false }]);
  });
}

async function retry(store: Store, filter: TaskFilter): Promise<number> {
  return changeInSteps(await store.admin.matching(filter, T0), (ids) => store.admin.retry(ids, T0));
}

async function discard(store: Store, filter: TaskFilter, reason: string): Promise<number> {
  return changeInSteps(await store.admin.matching(filter, T0), (ids) => store.admin.discard(ids, reason, T0));
}
