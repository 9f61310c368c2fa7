// A rerun handles each event of its range once more, in order, and after new events.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import type { Claim } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import {
  createDesk,
  cursorOf,
  done,
  ended,
  present,
  range,
  ROOM,
  T0,
  tasksOf,
  type Desk,
  type Suite,
} from './harness.ts';

export function reruns(suite: Suite<Store>): void {
  const { another } = suite;
  let store: Store;
  let desk: Desk;
  beforeEach(() => void ({ store, desk } = suite));

  describe('a rerun', () => {
    const EVER = '0' as Cursor;

    async function ask(from: Cursor | number = EVER, to: Cursor | number | null = null): Promise<number> {
      const span = await store.admin.range(from, to);
      const asked = { handler: 'first', type: null, from: 'then', to: null, events: 0, range: span };
      return store.admin.askRerun(asked, desk.now);
    }

    /** Runs a turn as `run` does: a page of the rerun becomes tasks, and due tasks are claimed. */
    async function feed(limit = 100, room = ROOM): Promise<Claim[] | null> {
      const page = await store.work.rerun([desk.handler], limit);
      if (!page) return null;
      const tasks = tasksOf(page.events, desk.handler, desk.now).map((task) => ({ ...task, rerun: page.id }));
      return (await desk.turn({ rerun: { page, tasks }, room })).claims;
    }

    async function finish(limit?: number): Promise<string[]> {
      const given: string[] = [];
      for (let claims = await feed(limit); claims; claims = await feed(limit))
        for (; claims.length > 0; claims = await desk.claim()) {
          given.push(...claims.map(cursorOf));
          await desk.settle(claims.map(done));
        }
      return given;
    }

    test('gives every event once more, in cursor order, whatever its order of arrival and its outcome', async () => {
      await desk.arrive('a', [30, 9, 10, 20]);
      const claims = await desk.claim();
      await desk.settle(claims.map((claim) => ended(claim, 'dead')));
      await desk.workOff();
      const id = await ask();
      expect(await finish(2)).toEqual(['9', '10', '20', '30']);
      expect(await store.admin.reruns(1)).toMatchObject([
        { id, state: 'ended', seen: 4, made: 4, kept: 0, untried: 0 },
      ]);
      expect((await store.read.status(T0)).tasks).toMatchObject({ done: 4, dead: 0 });
    });

    test('continues where it was left, in any process, and no page becomes tasks twice', async () => {
      await desk.arrive('a', range(1, 10));
      await desk.workOff();
      await ask();
      const page = present((await store.work.rerun([desk.handler], 4)) ?? undefined);
      const tasks = tasksOf(page.events, desk.handler, T0).map((task) => ({ ...task, rerun: page.id }));
      const other = await createDesk(another());
      await other.turn({ rerun: { page, tasks } });
      await desk.turn({ rerun: { page, tasks } });
      expect(await store.admin.reruns(1)).toMatchObject([{ made: 4, kept: 0, untried: 4 }]);
      expect(await store.work.rerun([desk.handler], 4)).toBeNull();
      await desk.workOff();
      expect(await finish(4)).toEqual(['5', '6', '7', '8', '9', '10']);
    });

    test('leaves waiting and running tasks alone, and counts them', async () => {
      await desk.arrive('a', [1]);
      await desk.workOff();
      await desk.arrive('b', [2]);
      await desk.arrive('c', [3]);
      const [atWork] = await desk.claim(1);
      await ask();
      const claims = present((await feed(100, 0)) ?? undefined);
      expect(claims).toEqual([]);
      expect(await store.admin.reruns(1)).toMatchObject([{ made: 1, kept: 2, seen: 3 }]);
      expect((await desk.settle([done(atWork)])).fenced).toBe(0);
      await desk.workOff();
    });

    test('runs after events that arrive meanwhile, and delays none of their lanes', async () => {
      await desk.arrive('a', range(1, 50));
      await desk.workOff();
      await ask();
      await feed(50, 0);
      await desk.arrive('a', [60]);
      const claims = await desk.claim(2);
      expect(claims.map(cursorOf)).toEqual(['60', '1']);
      expect(claims.map(({ rerun }) => rerun > 0)).toEqual([false, true]);
      expect(claims.map(({ late }) => late)).toEqual([false, false]);
      await desk.settle(claims.map(done));
      await desk.workOff();
    });

    test('gets no more places than its limit, and the turn returns no time for it', async () => {
      for (const cursor of range(1, 5)) await desk.arrive(`lane-${cursor}`, [cursor]);
      await desk.workOff();
      await ask();
      await feed(50, 0);
      const { claims, nextAt } = await desk.turn({ room: ROOM, reruns: 2 });
      expect(claims).toHaveLength(2);
      expect(nextAt).toBeNull();
      await desk.settle(claims.map(done));
      await desk.workOff();
    });

    test('of events without a cursor gets no more places than it is given, and comes after new events', async () => {
      await desk.arrive(null, [null, null, null, null, null]);
      await desk.workOff();
      await ask(T0);
      await feed(50, 0);
      await desk.arrive(null, [null]);
      const { claims, nextAt } = await desk.turn({ room: ROOM, reruns: 2 });
      expect(claims.map(({ rerun }) => rerun > 0)).toEqual([false, true, true]);
      expect(nextAt).toBeNull();
      await desk.settle(claims.map(done));
      expect((await desk.workOff()).flat()).toHaveLength(3);
    });

    test('ends at its bounds (cursors as numbers, times by receipt), and leaves out events that arrived after the request', async () => {
      await desk.arrive('a', [9, 10, 11]);
      desk.now += 1_000;
      await desk.arrive('a', [100]);
      await desk.workOff();
      await ask('10' as Cursor, '11' as Cursor);
      expect(await finish()).toEqual(['10', '11']);
      await ask(desk.now);
      expect(await finish()).toEqual(['100']);
      await ask(T0, desk.now);
      await desk.arrive('a', [12]);
      await desk.workOff();
      expect(await finish()).toEqual(['9', '10', '11']);
    });

    test('includes events without a cursor if no cursor bounds it', async () => {
      await desk.arrive('a', [1, null]);
      await desk.workOff();
      await ask('1' as Cursor);
      expect(await finish()).toEqual(['1']);
      await ask(T0);
      expect((await finish()).toSorted()).toEqual(['1', 'null']);
    });

    test('leaves out events whose body was purged', async () => {
      await desk.arrive('a', [1, 2, 3]);
      await desk.workOff();
      await store.keep.purge(T0 + 1, null, 1);
      expect(await store.admin.survey(await store.admin.range(EVER, null), 'Thing', null, 10)).toEqual({
        types: [{ type: 'Thing', events: 3, purged: 1 }],
        next: null,
      });
      await ask();
      expect(await finish()).toEqual(['2', '3']);
      expect(await store.admin.reruns(1)).toMatchObject([{ seen: 3, made: 2, purged: 1 }]);
    });

    test('that is cancelled makes no more tasks, and its waiting tasks are returned', async () => {
      await desk.arrive('a', range(1, 10));
      await desk.workOff();
      const id = await ask();
      await feed(4, 0);
      const page = { id, handler: desk.handler, from: { cursor: 4n, event: -1 }, upTo: { cursor: 9n, event: 0 } };
      const waiting = present((await store.admin.cancelRerun(id, T0)) ?? undefined);
      await desk.turn({ rerun: { page: { ...page, last: false, events: [], purged: 0 }, tasks: [] } });
      expect(waiting).toHaveLength(4);
      expect(await store.work.rerun([desk.handler], 4)).toBeNull();
      expect(await store.admin.discard(waiting, 'enough', T0)).toBe(4);
      expect(await desk.workOff()).toEqual([]);
      expect(await store.admin.reruns(1)).toMatchObject([{ state: 'cancelled', made: 4 }]);
      expect(await store.admin.cancelRerun(id + 1, T0)).toBeNull();
    });

    test('of a strict handler runs events that the watermark has passed, and the events above it wait', async () => {
      await desk.arrive('a', [1, 2]);
      await desk.workOff();
      await store.ingest.accept({ readings: [], now: T0, watermark: '1' as Cursor });
      await ask();
      const page = present((await store.work.rerun([desk.handler], 9)) ?? undefined);
      const strict = { strict: true, rerun: page.id };
      const tasks = tasksOf(page.events, desk.handler, T0).map((task) => ({ ...task, ...strict }));
      const { claims, unproven } = await desk.turn({ rerun: { page, tasks }, room: ROOM });
      expect(claims.map(cursorOf)).toEqual(['1']);
      expect(unproven).toBe(1);
      await desk.settle(claims.map(done));
      await store.ingest.accept({ readings: [], now: T0, watermark: '2' as Cursor });
      expect(await desk.workOff()).toEqual([['2']]);
    });
  });
}
