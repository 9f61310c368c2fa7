// The end of an attempt. A failed task holds its lane for a limited time. Only the holder of the claim can end the
// task, in one commit with the writes of its handler.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Claim, Tx } from '../../src/store/work.ts';
import {
  cursorOf,
  done,
  ended,
  event,
  failed,
  incoming,
  present,
  range,
  ROOM,
  T0,
  type Desk,
  type Suite,
  rowsOf,
  sums,
  type WorkingStore,
} from './harness.ts';

/** The transaction as it was before its statements returned promises. */
interface OldTx {
  run(sql: string): { changes: number };
  get(sql: string): { n: number } | undefined;
  all(sql: string): { n: number }[];
}

const IMMEDIATE = () => new Promise((resolve) => void setImmediate(resolve));
const NEXT_TICK = () => new Promise((resolve) => process.nextTick(resolve));
const SHORT = new Set<() => Promise<unknown>>([IMMEDIATE, NEXT_TICK]);

export function attempts(suite: Suite): void {
  const { another } = suite;
  let store: WorkingStore;
  let desk: Desk;
  beforeEach(() => void ({ store, desk } = suite));

  describe('a task that failed', () => {
    test('holds its lane against another event with its cursor', async () => {
      const other = { ...incoming('1'), id: 'id-other', body: Buffer.from('{"data":{"Thing":{"other":1}}}') };
      await store.ingest.accept({ readings: [event('1'), { event: other }], now: T0 });
      await desk.fanOut();
      for (let tries = 0; tries < 3; tries++) {
        const claims = await desk.claim();
        expect(claims.map(({ event: { key } }) => key)).toEqual(['c:1']);
        desk.now += 1_000;
        await desk.settle(claims.map((claim) => failed(claim, { dueAt: desk.now, holdMs: 5_000 })));
      }
    });

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

    test('is late if it has stepped aside and a later task of its lane is claimed in the same turn', async () => {
      await desk.arrive('a', [10, 20]);
      await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 6_000, holdMs: 5_000 })));
      desk.now = T0 + 5_000;
      const next = await desk.claim();
      desk.now = T0 + 6_000;
      const again = next.map((claim) => ({ ...failed(claim, { dueAt: desk.now, holdMs: 0 }), spent: false }));
      const { claims } = await desk.turn({ settle: again, room: ROOM });
      expect(claims.map((claim) => [cursorOf(claim), claim.late])).toEqual([
        ['20', false],
        ['10', true],
      ]);
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
        await store.work.clockStepped(ms, T0 + ms);
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
      expect((await store.read.tasks({ state: 'dead' }, T0)).tasks).toMatchObject([
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
      await store.processes.giveBack([], T0);
      const before = await store.read.tasks({}, T0);
      expect((await desk.settle(gone.map(done))).fenced).toBe(1);
      expect(await store.read.tasks({}, T0)).toEqual(before);
      expect(await store.read.counters()).toMatchObject({ fenced: 1 });
    });

    test('a settlement is fenced if another process holds the task, even at an attempt of the same number', async () => {
      await desk.arrive('a', [1]);
      await desk.arrive('b', [2]);
      const old = await desk.claim();
      await store.processes.giveBack([], T0);
      const isolated = present(await another().work.claimIsolated(desk.now, 3, [desk.handler]));
      expect(isolated.attempt).toBe(1);
      expect((await desk.settle(old.map(done))).fenced).toBe(2);
      expect((await sums(store)).tasks).toMatchObject({ ready: 1, running: 1, done: 0 });
    });

    test.each([
      ['dead', 'done'],
      ['done', 'dead'],
      ['done', 'done'],
    ] as const)('of two settlements of one claim, %s and %s, the second writes nothing', async (first, second) => {
      await desk.arrive('a', [1, 2]);
      const claims = await desk.claim();
      const result = await desk.settle([first, second].flatMap((state) => claims.map((claim) => ended(claim, state))));
      expect(result.fenced).toBe(1);
      const none = { ready: 1, running: 0, done: 0, skipped: 0, dead: 0 };
      expect((await sums(store)).tasks).toMatchObject({ ...none, [first]: 1 });
      expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
    });

    test('many tasks that end in one turn in different ways each keep their own end', async () => {
      await desk.arrive('a', [1]);
      const lanes = Array.from({ length: 70 }, (_, n) => `lane-${n}`);
      for (const [n, lane] of lanes.entries()) await desk.arrive(lane, [100 + n]);
      const claims = await desk.claim(100);
      const states = ['done', 'done', 'skipped', 'done', 'dead'] as const;
      const ends = claims.map((claim, n) => ended(claim, states[n % states.length] ?? 'done'));
      expect((await desk.settle(ends)).fenced).toBe(0);
      const shown = await store.read.tasks({ limit: 100 }, T0);
      const stateOf = new Map(shown.tasks.map(({ id, state }) => [id, state]));
      expect(ends.map(({ claim }) => stateOf.get(claim.task))).toEqual(ends.map(({ state }) => state));
      expect(shown.tasks.every(({ attempts: spent }) => spent === 1)).toBe(true);
      const tasks = Object.groupBy(ends, ({ state }) => state);
      expect((await sums(store)).tasks).toMatchObject({
        done: tasks.done?.length,
        skipped: tasks.skipped?.length,
        dead: tasks.dead?.length,
        running: 0,
      });
    });

    test('an attempt that ends after the next one began is fenced, also if it completes', async () => {
      await desk.arrive('a', [1]);
      const [first] = await desk.claim();
      await desk.settle([failed(first, { dueAt: T0, holdMs: 0 })]);
      const [second] = await desk.claim();
      let ran = false;
      expect(await store.work.complete(present(first), T0, () => void (ran = true))).toBe(false);
      expect(ran).toBe(false);
      expect((await desk.settle([done(first), done(second)])).fenced).toBe(1);
      expect((await sums(store)).tasks.done).toBe(1);
    });
  });

  describe('completing', () => {
    beforeEach(() => store.work.setup((tx) => void tx.run('create table mine (n bigint)')));
    const count = (one: WorkingStore): Promise<number> => rowsOf(one, 'mine').then(({ length }) => length);

    test("commits the handler's own writes with the end of its task", async () => {
      await desk.arrive('a', [1, 2]);
      const [claim] = await desk.claim();
      const held = await store.work.complete(present(claim), T0, async (tx) => {
        expect(await tx.run('insert into mine values (?)', 1)).toEqual({ changes: 1 });
        expect(await tx.all('select n from mine')).toEqual([{ n: 1 }]);
      });
      expect(held).toBe(true);
      expect(await count(another())).toBe(1);
      expect((await sums(store)).tasks).toMatchObject({ done: 1, ready: 1 });
      expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
    });

    test('writes nothing if the commit is refused, and the task is still running', async () => {
      await store.work.setup(async (tx) => {
        await tx.run('create table parents (n integer primary key)');
        await tx.run('create table children (n integer references parents (n) deferrable initially deferred)');
      });
      await desk.arrive('a', [1]);
      const [claim] = await desk.claim();
      const orphan = (tx: Tx): unknown => tx.run('insert into children values (7)');
      await expect(store.work.complete(present(claim), T0, orphan)).rejects.toThrow(/foreign key/i);
      expect(await rowsOf(store, 'children')).toEqual([]);
      expect((await sums(store)).tasks).toMatchObject({ done: 0, running: 1 });
    });

    test('writes nothing if the work throws, and the task is still running', async () => {
      await desk.arrive('a', [1]);
      const claims = await desk.claim();
      const failing = store.work.complete(present(claims[0]), T0, (tx) => {
        void tx.run('insert into mine values (1)');
        throw new Error('no');
      });
      await expect(failing).rejects.toThrow('no');
      expect(await count(store)).toBe(0);
      expect((await sums(store)).tasks).toMatchObject({ done: 0, running: 1 });
      expect((await desk.settle(claims.map(done))).fenced).toBe(0);
    });

    const lines = (one: WorkingStore): Promise<unknown[]> => rowsOf(one, 'mine');

    /** Completes one task with this work. Resolves to the error, if any, and the committed rows. */
    async function completed(work: (tx: Tx) => unknown): Promise<{ error: unknown; rows: unknown[] }> {
      await desk.arrive('a', [1]);
      const [claim] = await desk.claim();
      const error: unknown = await store.work.complete(present(claim), T0, work).then(
        () => null,
        (reason: unknown) => reason,
      );
      expect((await sums(store)).tasks).toMatchObject(error ? { done: 0, running: 1 } : { done: 1, running: 0 });
      return { error, rows: await lines(store) };
    }

    const deep = async (depth: number): Promise<void> => {
      if (depth > 0) await deep(depth - 1);
    };

    test('awaits its statements, helpers in between, and what nobody awaited', async () => {
      const { error, rows } = await completed(async (tx) => {
        void tx.run('insert into mine values (1)');
        await deep(100);
        for (let n = 2; n < 100; n++) await tx.run('insert into mine values (?)', n);
        const [first, second] = await Promise.all([tx.get('select 1 as n'), tx.all('select 2 as n')]);
        expect([first, second]).toEqual([{ n: 1 }, [{ n: 2 }]]);
        void tx.run('insert into mine values (100)');
      });
      expect(error).toBeNull();
      expect(rows).toEqual(range(1, 100).map((n) => ({ n })));
    });

    test('commits every statement of helpers that nobody awaited', async () => {
      const { error, rows } = await completed((tx) => {
        for (const n of [1, 2, 3])
          void (async () => {
            await tx.run('insert into mine values (?)', n);
            await deep(5);
            await tx.run('update mine set n = n + 10 where n = ?', n);
            const row = await tx.get('select n from mine where n = ?', n + 10);
            await tx.run('update mine set n = n + 10 where n = ?', Number(row?.['n']));
          })();
      });
      expect(error).toBeNull();
      expect(rows).toEqual([{ n: 21 }, { n: 22 }, { n: 23 }]);
    });

    test('reads an integer exactly: as a bigint where a number would be rounded', async () => {
      const large = 2n ** 53n + 1n;
      const { error, rows } = await completed(async (tx) => {
        await tx.run('insert into mine values (?), (7)', large);
        expect(await tx.all('select n from mine')).toEqual([{ n: large }, { n: 7 }]);
        expect(await tx.get('select max(n) as n, 0.5 as half from mine')).toEqual({ n: large, half: 0.5 });
      });
      expect(error).toBeNull();
      expect(rows).toEqual([{ n: large }, { n: 7 }]);
    });

    const awaited: [string, () => Promise<unknown>][] = [
      ['a timer', () => new Promise((resolve) => void setTimeout(resolve, 20))],
      ['an immediate', IMMEDIATE],
      ['the next tick', NEXT_TICK],
      ['nothing that ends', () => new Promise(() => {})],
      ['the store itself', () => store.work.read('select 1', [])],
      ['another completion', () => store.work.setup(() => {})],
      ['a note', () => store.work.noteTask({ task: 1, attempt: 1, boot: 1 } as Claim, 'name', '1', T0)],
    ];
    test.each(awaited)('is refused if it awaits %s, and writes nothing', async (_, wait) => {
      let dialect = '';
      const { error, rows } = await completed(async (tx) => {
        ({ dialect } = tx);
        await tx.run('insert into mine values (1)');
        await wait();
        await tx.run('insert into mine values (2)');
      });
      // In PostgreSQL nothing else uses the connection meanwhile, so the shortest waits do no harm.
      if (dialect === 'postgres' && SHORT.has(wait) && error === null) return expect(rows).toHaveLength(2);
      expect(String(error)).toContain('only tx may be awaited');
      expect(rows).toEqual([]);
    });

    const failures: [string, (tx: Tx) => unknown][] = [
      ['and throws', (tx) => tx.run('insert into none values (1)')],
      ['and is caught', (tx) => tx.run('insert into none values (1)').catch(() => {})],
      ['and nobody awaits it', (tx) => void tx.run('insert into none values (1)')],
      ['and another follows', (tx) => tx.run('insert into none values (1)').catch(() => tx.run('delete from mine'))],
      ['by its values', (tx) => tx.run('insert into mine values (?)', {} as never).catch(() => {})],
      ['and ends the transaction', (tx) => tx.run('insert or rollback into none values (1)').catch(() => {})],
    ];
    test.each(failures)('a failed statement ends the transaction: it fails %s', async (_, fail) => {
      const { error, rows } = await completed(async (tx) => {
        await tx.run('insert into mine values (1)');
        await fail(tx);
        await tx.run('insert into mine values (2)').catch(() => {});
      });
      expect(error).toBeInstanceOf(Error);
      expect(String(error)).toMatch(/none|parameter|invalid input|syntax error/);
      expect(rows).toEqual([]);
    });

    const old: [string, (tx: OldTx) => unknown][] = [
      ['tx.run', (tx) => tx.run('insert into mine values (1)').changes],
      ['tx.get', (tx) => tx.get('select 1 as n')?.n],
      ['tx.all', (tx) => tx.all('select 1 as n').map(Object)],
      ['tx.all', (tx) => [...tx.all('select 1 as n')]],
      ['tx.get', (tx) => (tx.get('select 1 as n') ? undefined : 1)],
      ['tx.get', (tx) => void { ...tx.get('select 1 as n') }],
      ['tx.all', (tx) => void tx.all('select 1 as n')],
    ];
    test.each(old)(
      'work that reads the result of %s without await gets an error with the remedy',
      async (name, use) => {
        const { error, rows } = await completed((tx) => use(tx as unknown as OldTx));
        expect(String(error)).toContain(`write await ${name}(`);
        expect(rows).toEqual([]);
      },
    );

    test('a statement after the end of the work is refused', async () => {
      let kept: Tx | undefined;
      await completed((tx) => (kept = tx));
      await expect(present(kept).run('insert into mine values (1)')).rejects.toThrow('this transaction has ended');
      expect(await lines(store)).toEqual([]);
    });

    test('no other call of the store gets into its transaction', async () => {
      const others: Promise<unknown>[] = [];
      const { error } = await completed(async (tx) => {
        await tx.run('insert into mine values (1)');
        others.push(
          store.state.note({ unseen: 1 }),
          store.work.setup((two) => two.run('insert into mine values (2)')),
        );
        await deep(10);
        throw new Error('no');
      });
      await Promise.all(others);
      expect(String(error)).toContain('no');
      expect(await lines(store)).toEqual([{ n: 2 }]);
      expect(await store.read.counters()).toMatchObject({ unseen: 1 });
    });

    test('a set-up that throws leaves nothing', async () => {
      const failing = store.work.setup((tx) => {
        void tx.run('insert into mine values (1)');
        throw new Error('no');
      });
      await expect(failing).rejects.toThrow('no');
      expect(await count(store)).toBe(0);
    });
  });
}
