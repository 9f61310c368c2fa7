// The end of an attempt. A failed task holds its lane for a limited time. Only the holder of the claim can end the
// task, in one commit with the writes of its handler.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import { cursorOf, done, ended, failed, present, query, ROOM, T0, type Desk, type Suite } from './harness.ts';

export function attempts(suite: Suite): void {
  const { another } = suite;
  let store: Store;
  let desk: Desk;
  beforeEach(() => void ({ store, desk } = suite));

  describe('a task that failed', () => {
    test('holds its lane until it runs again', async () => {
      await desk.arrive('a', [10, 20]);
      await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 1_000, holdMs: 5_000 })));
      expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: T0 + 1_000 });
      desk.now = T0 + 1_000;
      const again = await desk.claim();
      expect(again).toMatchObject([{ event: { cursor: '10' }, attempt: 2, error: 'Error: no', late: false }]);
      await desk.settle(again.map(done));
      expect((await desk.claim()).map(cursorOf)).toEqual(['20']);
    });

    test('steps aside when it has held its lane up to the limit since its first failure, and is retried alone', async () => {
      await desk.arrive('a', [10, 20, 30]);
      await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 4_000, holdMs: 5_000 })));
      desk.now = T0 + 4_000;
      await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 60_000, holdMs: 5_000 })));
      expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: T0 + 5_000 });
      desk.now = T0 + 5_000;
      const next = await desk.claim();
      expect(next.map(cursorOf)).toEqual(['20']);
      await desk.settle(next.map(done));
      expect((await desk.claim()).map(cursorOf)).toEqual(['30']);
      desk.now = T0 + 60_000;
      expect(await desk.claim()).toMatchObject([{ event: { cursor: '10' }, attempt: 3, alone: true, late: true }]);
    });

    test.each([3_600_000, 60 * 86_400_000, -3_600_000, -60 * 86_400_000])(
      'F16: waits as long as before if the clock is set by %i ms, in a lane or in none',
      async (ms) => {
        for (const [lane, cursor] of [
          ['a', 10],
          [null, 20],
        ] as const) {
          await desk.arrive(lane, [cursor]);
          await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 2_000, holdMs: 5_000 })));
        }
        // The task of event 30 waits for its window. The task of event 40 fails, and may hold its lane for 2 s.
        await desk.arrive('b', [30], T0 + 2_000);
        await desk.arrive('c', [40]);
        await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 9_000, holdMs: 2_000 })));
        await desk.arrive('c', [50]);
        await store.clockStepped(ms, T0 + ms);
        desk.now = T0 + ms + 1_999;
        expect(await desk.claim()).toEqual([]);
        desk.now++;
        expect((await desk.claim()).map(cursorOf).toSorted()).toEqual(['10', '20', '30', '50']);
        desk.now = T0 + ms + 8_999;
        expect(await desk.claim()).toEqual([]);
        desk.now++;
        expect((await desk.claim()).map(cursorOf)).toEqual(['40']);
      },
    );

    test('in no lane delays no other task', async () => {
      await desk.arrive(null, [1, 2]);
      const [one, two] = await desk.claim();
      await desk.settle([failed(one, { dueAt: T0 + 1_000, holdMs: 5_000 }), done(two)]);
      expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: T0 + 1_000 });
      desk.now = T0 + 1_000;
      expect(await desk.claim()).toMatchObject([{ event: { cursor: '1' }, attempt: 2 }]);
    });

    test('and is dead lets its lane go on', async () => {
      await desk.arrive('a', [10, 20]);
      await desk.settle((await desk.claim()).map((claim) => ended(claim, 'dead')));
      expect(await desk.claim()).toMatchObject([{ event: { cursor: '20' }, late: false }]);
      expect((await store.tasks({ state: 'dead' }, T0)).tasks).toMatchObject([
        { key: 'c:10', error: 'because', attempts: 1 },
      ]);
    });

    test('or was deferred, which does not count as an attempt, gets the same attempt number again', async () => {
      await desk.arrive('a', [10]);
      const later = {
        state: 'ready',
        error: 'later',
        dueAt: T0 + 100,
        holdMs: null,
        spent: false,
        deferredMs: 100,
      } as const;
      await desk.settle((await desk.claim()).map((claim) => ({ claim, ...later })));
      desk.now = T0 + 100;
      expect(await desk.claim()).toMatchObject([{ attempt: 1, deferredMs: 100 }]);
    });
  });

  describe('fencing', () => {
    test('a settlement whose claim is gone writes nothing', async () => {
      await desk.arrive('a', [1]);
      const gone = await desk.claim();
      await store.giveBack([], T0);
      const before = await store.tasks({}, T0);
      expect((await desk.settle(gone.map(done))).fenced).toBe(1);
      expect(await store.tasks({}, T0)).toEqual(before);
      expect(await store.counters()).toMatchObject({ fenced: 1 });
    });

    test('the second of two settlements of one claim writes nothing', async () => {
      await desk.arrive('a', [1]);
      const claims = await desk.claim();
      const result = await desk.settle([...claims.map((claim) => ended(claim, 'dead')), ...claims.map(done)]);
      expect(result.fenced).toBe(1);
      expect((await store.status(T0)).tasks).toMatchObject({ done: 0, dead: 1 });
    });

    test('an attempt that ends after the next one began is fenced, also if it completes', async () => {
      await desk.arrive('a', [1]);
      const [first] = await desk.claim();
      await desk.settle([failed(first, { dueAt: T0, holdMs: 0 })]);
      const [second] = await desk.claim();
      let ran = false;
      expect(await store.complete(present(first), T0, () => void (ran = true))).toBe(false);
      expect(ran).toBe(false);
      expect((await desk.settle([done(first), done(second)])).fenced).toBe(1);
      expect((await store.status(T0)).tasks.done).toBe(1);
    });
  });

  describe('completing', () => {
    beforeEach(() => store.setup((tx) => void tx.run('create table mine (n integer)')));
    const count = (one: Store): Promise<number> =>
      query(one, (tx) => Number(tx.get('select count(*) as n from mine')?.['n']));

    test("commits the handler's own writes with the end of its task", async () => {
      await desk.arrive('a', [1, 2]);
      const [claim] = await desk.claim();
      const held = await store.complete(present(claim), T0, (tx) => {
        expect(tx.run('insert into mine values (?)', 1)).toEqual({ changes: 1 });
        expect(tx.all('select n from mine')).toEqual([{ n: 1 }]);
      });
      expect(held).toBe(true);
      expect(await count(another())).toBe(1);
      expect((await store.status(T0)).tasks).toMatchObject({ done: 1, ready: 1 });
      expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
    });

    test('writes nothing if the work throws, and the task is still running', async () => {
      await desk.arrive('a', [1]);
      const claims = await desk.claim();
      const failing = store.complete(present(claims[0]), T0, (tx) => {
        tx.run('insert into mine values (1)');
        throw new Error('no');
      });
      await expect(failing).rejects.toThrow('no');
      expect(await count(store)).toBe(0);
      expect((await store.status(T0)).tasks).toMatchObject({ done: 0, running: 1 });
      expect((await desk.settle(claims.map(done))).fenced).toBe(0);
    });

    test('a set-up that throws leaves nothing', async () => {
      const failing = store.setup((tx) => {
        tx.run('insert into mine values (1)');
        throw new Error('no');
      });
      await expect(failing).rejects.toThrow('no');
      expect(await count(store)).toBe(0);
    });
  });
}
