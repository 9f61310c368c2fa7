// Order. The tasks of an event are made once. A lane runs its tasks one at a time, the lowest released cursor first. No
// task is claimed twice, and no lane or handler delays another.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Cursor } from '../../src/wire/cursor.ts';
import {
  createDesk,
  cursorOf,
  done,
  present,
  range,
  ROOM,
  T0,
  tasksOf,
  type Desk,
  type Suite,
  sums,
  laneOf,
  type WorkingStore,
} from './harness.ts';

export function lanes(suite: Suite): void {
  const { another } = suite;
  let store: WorkingStore;
  let desk: Desk;
  beforeEach(() => void ({ store, desk } = suite));

  describe('making tasks', () => {
    test('the tasks of an event are made once, and `pending` does not return the event again', async () => {
      await desk.accept('a', [1, 2]);
      const found = await store.work.pending(1);
      expect(found).toMatchObject({ from: 0, events: [{ key: 'c:1' }] });
      await desk.fanOut();
      expect(await store.work.pending(10)).toMatchObject({ from: 2, events: [] });
      expect((await sums(store)).tasks.ready).toBe(2);
    });

    test('if two processes read the same events, one makes the tasks, and the other makes none', async () => {
      await desk.accept('a', [1, 2]);
      const other = await createDesk(another());
      const [mine, theirs] = [await store.work.pending(10), await other.store.work.pending(10)];
      await desk.turn({ fanOut: { from: mine.from, upTo: 2, tasks: tasksOf(mine.events, desk.handler, T0) } });
      await desk.accept('a', [3]);
      const { claims } = await other.turn({
        fanOut: { from: theirs.from, upTo: 2, tasks: tasksOf(theirs.events, desk.handler, T0) },
        room: ROOM,
      });
      expect(claims.map(cursorOf)).toEqual(['1']);
      expect((await store.work.pending(10)).from).toBe(2);
    });

    test('if tasks cannot be written, `pending` returns their events again', async () => {
      await desk.accept('a', [1]);
      const { from, events } = await store.work.pending(10);
      const tasks = [...tasksOf(events, desk.handler, T0), ...tasksOf(events, 1_000_000, T0)];
      await expect(desk.turn({ fanOut: { from, upTo: 1, tasks } })).rejects.toThrow();
      expect(await store.work.pending(10)).toMatchObject({ from: 0, events: [{ key: 'c:1' }] });
    });

    test('E51: lanes that were created in a transaction are forgotten if it is rolled back', async () => {
      await desk.accept('a', [1]);
      const { from, events } = await store.work.pending(10);
      const tasks = [...tasksOf(events, desk.handler, T0), ...tasksOf(events, 1_000_000, T0)];
      await expect(desk.turn({ fanOut: { from, upTo: 1, tasks } })).rejects.toThrow();
      await desk.fanOut();
      expect((await desk.claim()).map(cursorOf)).toEqual(['1']);
      expect((await store.read.tasks({ limit: 1 }, T0)).tasks).toMatchObject([{ lane: 'a' }]);
    });

    describe('E60: a handler whose file is broken', () => {
      const files = { of: new Map([['first', '/h/first.ts']]), broken: [] as string[] };
      const broken = (...paths: string[]) => ({ of: new Map<string, string>(), broken: paths });
      /** A handler catches up page by page. Calls `more` before each page. Returns the keys of the missed events. */
      async function catchUp(more: () => Promise<void>): Promise<string[]> {
        const made: string[] = [];
        for (;;) {
          const [next] = await store.work.behind();
          if (!next) return made;
          await more();
          const found = await store.work.pending(2);
          const [handler, from_] = next;
          const events = await store.work.missed(from_, found.from, 3);
          const upTo = events.length < 3 ? found.from : (events.at(-1)?.seq ?? 0);
          const joins = upTo === found.from;
          const assigned = found.events.at(-1)?.seq ?? found.from;
          const missed = { handler, from: from_, upTo, joins, tasks: tasksOf(events, handler, T0) };
          const tasks = joins ? tasksOf(found.events, handler, T0) : [];
          const { behind } = await desk.turn({ fanOut: { from: found.from, upTo: assigned, tasks }, missed });
          expect(behind).toBe(joins ? null : upTo);
          made.push(...events.map(({ key }) => key), ...(joins ? found.events.map(({ key }) => key) : []));
        }
      }

      test('waits, and when it is back, gets one task of each event that arrived meanwhile', async () => {
        await store.work.register(['first'], files);
        await desk.arrive('a', [1]);
        await store.work.register([], broken('/h/first.ts'));
        expect(await store.work.behind()).toEqual(new Map());
        await desk.accept('a', range(2, 9));
        await desk.turn({ fanOut: { from: 1, upTo: 9, tasks: [] } });
        await store.work.register([], broken('/h/first.ts'));
        await store.work.register(['first'], files);
        let next = 10;
        const more = () => (next < 14 ? desk.accept('a', [next++]) : Promise.resolve());
        const made = await catchUp(more);
        expect(made).toEqual(range(2, next - 1).map((n) => `c:${n}`));
        expect((await desk.workOff()).flat()).toEqual(range(1, next - 1).map(String));
      });

      test('is gone if its file is deleted, and begins anew if the file comes back', async () => {
        await store.work.register(['first'], files);
        await store.work.register([], broken('/h/other.ts'));
        await store.work.register([], broken());
        await store.work.register(['first'], files);
        expect(await store.work.behind()).toEqual(new Map());
      });

      test('waits if its file is gone and a broken file has a new name; it does not wait for the broken file of another handler', async () => {
        const both = { of: new Map([...files.of, ['second', '/h/second.ts']]), broken: [] };
        await store.work.register(['first', 'second'], both);
        await store.work.register(['second'], { of: new Map([['second', '/h/second.ts']]), broken: ['/h/renamed.ts'] });
        await store.work.register(['first', 'second'], both);
        expect([...(await store.work.behind()).keys()]).toEqual([desk.handler]);
        await store.work.register(['first', 'second'], both);
        await store.work.register([], broken('/h/second.ts'));
        await store.work.register(['first', 'second'], both);
        expect([...(await store.work.behind()).keys()]).not.toContain(desk.handler);
      });
    });

    test('a handler keeps its id, and a new name gets one of its own', async () => {
      const again = await another().work.register(['second', 'first']);
      expect(again.get('first')).toBe(desk.handler);
      expect(again.get('second')).not.toBe(desk.handler);
    });
  });

  describe('lanes', () => {
    test('run one task at a time, the lowest released cursor first', async () => {
      await desk.arrive('a', [30, 9, 10]);
      expect(await desk.workOff()).toEqual([['9'], ['10'], ['30']]);
    });

    test('run in parallel', async () => {
      await desk.arrive('a', [1, 3]);
      await desk.arrive('b', [2, 4]);
      expect(await desk.workOff()).toEqual([
        ['1', '2'],
        ['3', '4'],
      ]);
    });

    test('belong to one handler: two handlers of the same event do not wait for each other', async () => {
      const second = (await store.work.register(['second'])).get('second') ?? 0;
      await desk.accept('a', [1]);
      const { from, events } = await store.work.pending(10);
      const tasks = [desk.handler, second].flatMap((handler) => tasksOf(events, handler, T0));
      const { claims } = await desk.turn({
        fanOut: { from, upTo: 1, tasks },
        room: ROOM,
        handlers: [desk.handler, second],
      });
      expect(claims.map(({ handler }) => handler).toSorted((a, b) => a - b)).toEqual([desk.handler, second]);
    });

    test('a held task is not claimed before its release time, which the turn returns', async () => {
      await desk.arrive('a', [1], T0 + 250);
      expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: T0 + 250 });
      desk.now = T0 + 249;
      expect(await desk.claim()).toEqual([]);
      desk.now = T0 + 250;
      expect((await desk.claim()).map(cursorOf)).toEqual(['1']);
    });

    test('a held task is released as soon as the watermark has passed it, together with lower tasks of its lane', async () => {
      await desk.arrive('a', [1, 2, 4], T0 + 60_000);
      await desk.arrive('b', [3], T0 + 60_000);
      expect(await desk.claim()).toEqual([]);
      await store.ingest.accept({ readings: [], now: T0, watermark: '2' as Cursor });
      expect(await desk.workOff()).toEqual([['1'], ['2']]);
      await store.ingest.accept({ readings: [], now: T0, watermark: '3' as Cursor });
      expect(await desk.workOff()).toEqual([['3']]);
      expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: T0 + 60_000 });
    });

    test('a task in no lane is held as well', async () => {
      await desk.arrive(null, [1], T0 + 250);
      expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: T0 + 250 });
      desk.now = T0 + 250;
      expect(await desk.claim()).toHaveLength(1);
    });

    test('a released task releases every lower task of its lane', async () => {
      await desk.arrive('a', [20], T0 + 100);
      await desk.arrive('a', [10], T0 + 250);
      await desk.arrive('a', [30], T0 + 300);
      desk.now = T0 + 100;
      expect(await desk.workOff()).toEqual([['10'], ['20']]);
    });

    test('a task that arrives below a released, waiting task is released at once and runs before it', async () => {
      await desk.arrive('a', [10, 30]);
      const first = await desk.claim();
      await desk.arrive('a', [20], T0 + 60_000);
      await desk.settle(first.map(done));
      expect(await desk.workOff()).toEqual([['20'], ['30']]);
    });

    test('a task that arrives below a finished one is released at once, and is late', async () => {
      await desk.arrive('a', [20]);
      await desk.workOff();
      await desk.arrive('a', [10], T0 + 60_000);
      const claims = await desk.claim();
      expect(claims).toMatchObject([{ event: { cursor: '10' }, late: true }]);
      await desk.settle(claims.map(done));
      expect((await store.read.tasks({}, T0)).tasks.map(({ key, late }) => [key, late])).toEqual([
        ['c:10', true],
        ['c:20', false],
      ]);
    });

    test('a task that arrives below the running one waits for it, and is late', async () => {
      await desk.arrive('a', [20]);
      const first = await desk.claim();
      await desk.arrive('a', [10], T0 + 60_000);
      expect(await desk.claim()).toEqual([]);
      await desk.settle(first.map(done));
      expect(await desk.claim()).toMatchObject([{ event: { cursor: '10' }, late: true }]);
    });

    test('events without a cursor are in no lane', async () => {
      await desk.arrive('a', [null, null, 1]);
      const claims = await desk.claim();
      expect(claims.map(({ lane, alone }) => [lane === null, alone])).toEqual(
        expect.arrayContaining([
          [true, true],
          [true, true],
          [false, false],
        ]),
      );
      expect(claims).toHaveLength(3);
    });

    test('two processes never claim the same task, nor two tasks of one lane', async () => {
      const other = await createDesk(another());
      other.boot = 2;
      await desk.arrive('a', [1, 2]);
      await desk.arrive(null, [3]);
      expect((await desk.claim()).map(cursorOf).toSorted()).toEqual(['1', '3']);
      expect(await other.claim()).toEqual([]);
    });

    test('a turn claims as many tasks as there is room for, in lanes or in none', async () => {
      await desk.arrive(null, [1, 2, 3, 4]);
      expect(await desk.claim(2)).toHaveLength(2);
      await desk.arrive('a', [5]);
      await desk.arrive('b', [6]);
      expect(await desk.claim(4)).toHaveLength(4);
    });

    test('a lane that was created in a failed turn is not confused with another', async () => {
      await desk.accept('a', [1]);
      const { from, events } = await store.work.pending(10);
      const tasks = [...tasksOf(events, desk.handler, T0), ...tasksOf(events, 1_000_000, T0)];
      await expect(desk.turn({ fanOut: { from, upTo: 1, tasks } })).rejects.toThrow();
      const other = await createDesk(another());
      const second = events.map((one) => ({ ...one, sessionId: 'b' }));
      await other.turn({ fanOut: { from, upTo: 1, tasks: tasksOf(second, desk.handler, T0) } });
      await desk.arrive('a', [2]);
      expect((await desk.claim()).map(cursorOf).toSorted((a, b) => Number(a) - Number(b))).toEqual(['1', '2']);
      expect(await laneOf(store, 'c:2')).toBe('a');
    });

    test.each([0, 1, 2])(
      'if places come free one at a time, with %i turns without a free place in between, each handler and each kind of task gets its share',
      async (between) => {
        const second = (await store.work.register(['second'])).get('second') ?? 0;
        const handlers = [desk.handler, second];
        await desk.accept(null, range(1, 10));
        for (let i = 1; i <= 10; i++) await desk.accept(`lane ${i}`, [10 + i]);
        const { from, events } = await store.work.pending(100);
        const tasks = handlers.flatMap((handler) => tasksOf(events, handler, T0));
        await desk.turn({ fanOut: { from, upTo: events.length, tasks } });
        const claimed: string[] = [];
        for (let i = 0; i < 8; i++) {
          const { claims } = await desk.turn({ room: 1, handlers });
          claimed.push(...claims.map(({ handler, lane }) => `${handler} ${lane === null ? 'alone' : 'in a lane'}`));
          for (let j = 0; j < between; j++) await desk.turn({ room: 0, handlers });
        }
        expect([...new Set(claimed)].toSorted()).toEqual([
          `${desk.handler} alone`,
          `${desk.handler} in a lane`,
          `${second} alone`,
          `${second} in a lane`,
        ]);
      },
    );

    test('tasks in no lane do not delay the lanes, even if places come free one at a time', async () => {
      await desk.arrive(null, [1, 2, 3, 4]);
      await desk.arrive('a', [5]);
      const claimed: (number | null)[] = [];
      for (let i = 0; i < 4; i++) claimed.push(...(await desk.claim(1)).map(({ lane }) => lane));
      expect(claimed.some((lane) => lane !== null)).toBe(true);
    });
  });

  describe('the limit of a handler', () => {
    test('limits its claims, not those of others, and the turn returns no time for it', async () => {
      const second = present((await store.work.register(['first', 'second'])).get('second'));
      await desk.accept('a', [1]);
      await desk.accept('b', [2]);
      const { from, events } = await store.work.pending(10);
      const tasks = [desk.handler, second].flatMap((handler) => tasksOf(events, handler, T0));
      const handlers = [desk.handler, second];
      const limits = new Map([[desk.handler, 1]]);
      const first = await desk.turn({ fanOut: { from, upTo: 2, tasks }, handlers, limits, room: ROOM });
      expect(first.claims.map(({ handler }) => handler).toSorted((a, b) => a - b)).toEqual([
        desk.handler,
        second,
        second,
      ]);
      expect(first.nextAt).toBeNull();
      const settle = first.claims.map(done);
      const none = await desk.turn({ settle, handlers, limits: new Map([[desk.handler, 0]]), room: ROOM });
      expect([none.claims, none.nextAt]).toEqual([[], null]);
      expect((await desk.workOff()).length).toBe(1);
    });
  });
}
