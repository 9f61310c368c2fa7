// Strict order: which tasks wait for the watermark, which are released unproven, and how many still wait.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Store } from '../../src/store/store.ts';
import type { Claim, NewTask, Settlement, StoredEvent, TurnResult } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import type { Reading } from '../../src/wire/event.ts';
import { cursorOf, done, present, ROOM, sums, T0, type WorkingStore } from './harness.ts';

/** `openWhole`: for the tests in which a person changes tasks, or the process restarts. */
export function strictContract(
  name: string,
  open: (path: string) => WorkingStore,
  openWhole?: (path: string) => Store,
): void {
  describe(`strict order in ${name}`, () => {
    let path: string;
    let store: WorkingStore;
    let handler: number;
    let now: number;
    const opened: WorkingStore[] = [];
    let person: Store | undefined;

    async function start(): Promise<void> {
      store = open(path);
      opened.push(store);
      handler = (await store.work.register(['strict'])).get('strict') ?? 0;
    }

    beforeEach(async () => {
      path = join(mkdtempSync(join(tmpdir(), 'kit-strict-')), 'events.db');
      now = T0;
      await start();
    });

    afterEach(() => {
      for (const one of opened.splice(0)) one.close();
      person = undefined;
      rmSync(join(path, '..'), { recursive: true, force: true });
    });

    /** The admin role as a person uses it, in another process. */
    function admin(): Store['admin'] | undefined {
      if (!person && openWhole) opened.push((person = openWhole(path)));
      return person?.admin;
    }

    function turn(fields: Partial<Parameters<WorkingStore['work']['turn']>[0]> = {}): Promise<TurnResult> {
      return store.work.turn({ now, boot: 1, settle: [], fanOut: null, room: 0, handlers: [handler], ...fields });
    }

    async function fanOut(toTask = strictTask): Promise<TurnResult> {
      const { from, events } = await store.work.pending(10_000);
      const tasks = events.map((event) => toTask(event, handler));
      return turn({ fanOut: { from, upTo: events.at(-1)?.seq ?? from, tasks } });
    }

    async function arrive(lane: string, cursors: (number | null)[], toTask = strictTask): Promise<TurnResult> {
      await store.ingest.accept({ readings: cursors.map((cursor) => reading(cursor, lane)), now });
      return fanOut(toTask);
    }

    /** Replay brings these events and raises the watermark. */
    async function prove(watermark: number | string, readings: Reading[] = []): Promise<void> {
      await store.ingest.accept({ readings, now, watermark: String(watermark) as Cursor });
    }

    /** Records two complete reads of replay that began when the event with this `seq` was the newest. */
    const search = (searched: number): Promise<void> => store.state.note({}, { searched });
    const claim = async (room = ROOM): Promise<Claim[]> => (await turn({ room })).claims;
    const settle = (settlements: Settlement[]): Promise<TurnResult> => turn({ settle: settlements });

    /** Claims and completes tasks until none is due. Returns their cursors in order. */
    async function workOff(): Promise<string[]> {
      const worked: string[] = [];
      for (let ended: Settlement[] = []; ;) {
        const { claims } = await turn({ settle: ended, room: ROOM });
        if (claims.length === 0) return worked;
        worked.push(...claims.map(cursorOf));
        ended = claims.map(done);
      }
    }

    async function held(): Promise<string[]> {
      const { tasks } = await store.read.tasks({ state: 'held', limit: 1_000 }, now);
      return tasks.map(({ key }) => key.slice(2)).toSorted((a, b) => Number(a) - Number(b));
    }

    /** The tasks of exactly these cursors must be held, and a turn must report their number. */
    async function expectHeld(...cursors: (number | string)[]): Promise<void> {
      expect(await held()).toEqual(cursors.map(String));
      expect((await turn({ room: 1, handlers: [] })).unproven).toBe(cursors.length);
    }

    test('a task is held until the watermark has passed its cursor, however much time passes', async () => {
      expect((await arrive('a', [10])).unproven).toBe(1);
      now += 365 * 86_400_000;
      expect(await turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: null, unproven: 1 });
      await expectHeld(10);
      await prove(9);
      expect(await claim()).toEqual([]);
      await prove(10);
      expect(await claim()).toMatchObject([{ event: { cursor: '10' }, unproven: false, late: false }]);
      await expectHeld();
    });

    test('a shuffled burst runs in perfect order while the watermark moves in steps', async () => {
      const burst = [7, 3, 9, 1, 8, 2, 10, 5];
      for (const cursor of burst) await arrive('a', [cursor]);
      const worked: string[][] = [];
      for (const [watermark, missed] of [
        [2, []],
        [4, [4]],
        [4, []],
        [8, [6]],
        [10, []],
      ] as const) {
        const recovered = missed.map((cursor) => reading(cursor, 'a'));
        await prove(watermark, recovered);
        await fanOut();
        worked.push(await workOff());
      }
      expect(worked).toEqual([['1', '2'], ['3', '4'], [], ['5', '6', '7', '8'], ['9', '10']]);
      expect((await store.read.tasks({}, now)).tasks.filter(({ late }) => late)).toEqual([]);
    });

    test('cursors are compared to their last digit', async () => {
      await arrive(
        'a',
        ['9223372036854775807', '9223372036854775806'].map((cursor) => cursor as unknown as number),
      );
      await prove('9223372036854775806');
      expect(await workOff()).toEqual(['9223372036854775806']);
      expect((await turn({ room: ROOM })).nextAt).toBeNull();
      await prove('9223372036854775807');
      expect(await workOff()).toEqual(['9223372036854775807']);
      expect((await turn({ room: ROOM })).nextAt).toBeNull();
    });

    test('the watermark counts only when the events that came with it are in their lanes', async () => {
      await arrive('a', [50]);
      await prove(50, [reading(40, 'a')]);
      expect(await claim()).toEqual([]);
      await fanOut();
      expect(await workOff()).toEqual(['40', '50']);
    });

    test('a watermark that moves while earlier events still wait for their tasks is not lost', async () => {
      await arrive('a', [50, 70]);
      await prove(50, [reading(40, 'a')]);
      expect(await claim()).toEqual([]);
      await prove(70, [reading(60, 'a')]);
      expect(await claim()).toEqual([]);
      await fanOut();
      expect(await workOff()).toEqual(['40', '50', '60', '70']);
    });

    test('a task is released unproven if two complete reads of replay have not shown its event', async () => {
      await arrive('a', [10]);
      await search(0);
      expect(await claim()).toEqual([]);
      await expectHeld(10);
      await search(1);
      expect(await claim()).toMatchObject([{ event: { cursor: '10' }, unproven: true }]);
      await expectHeld();
    });

    test('E7: an event that arrives after the clock was set back is held, whatever its time of receipt', async () => {
      await arrive('a', [10]);
      await search(1);
      expect(await workOff()).toEqual(['10']);
      now -= 60 * 86_400_000;
      await arrive('b', [20]);
      expect(await claim()).toEqual([]);
      await expectHeld(20);
      await search(2);
      expect(await claim()).toMatchObject([{ event: { cursor: '20' }, unproven: true }]);
    });

    test('a task that is released unproven also releases the lower ones of its lane, and no higher one', async () => {
      await arrive('a', [20]);
      now += 10;
      await arrive('a', [10, 30]);
      await arrive('b', [15]);
      await search(1);
      expect(await workOff()).toEqual(['10', '20']);
      await expectHeld(15, 30);
    });

    test('a task below one that has finished or was released unproven is released at once', async () => {
      await arrive('a', [20]);
      await search(1);
      now += 10;
      const first = await claim();
      expect((await arrive('a', [10])).unproven).toBe(0);
      await settle(first.map(done));
      expect(await claim()).toMatchObject([{ event: { cursor: '10' }, late: true, unproven: true }]);
    });

    test('a lane whose tasks the watermark has passed runs, while another lane waits', async () => {
      await arrive('a', [10, 30]);
      await arrive('b', [20, 40]);
      await prove(10);
      expect(await workOff()).toEqual(['10']);
      await expectHeld(20, 30, 40);
      await prove(30);
      expect((await workOff()).toSorted()).toEqual(['20', '30']);
      await expectHeld(40);
    });

    test('an event without a cursor does not wait for the watermark', async () => {
      await arrive('a', [null]);
      expect(await claim()).toMatchObject([{ lane: null, unproven: false }]);
      await expectHeld();
    });

    test('a restarted process knows which tasks wait, which the watermark has passed, and which are released unproven', async () => {
      await arrive('a', [10, 30]);
      now += 10;
      await arrive('b', [20, 40]);
      await arrive('c', [50]);
      await prove(10);
      await search(2);
      expect((await turn({ room: 1, handlers: [] })).unproven).toBe(3);
      await start();
      await expectHeld(20, 40, 50);
      // The task of cursor 25 is not held, because cursor 30 of its lane was already released.
      now += 10;
      await arrive('a', [25]);
      await expectHeld(20, 40, 50);
      expect(await workOff()).toEqual(['10', '25', '30']);
      await start();
      await prove(40);
      expect(await workOff()).toEqual(['20', '40']);
      await expectHeld(50);
    });

    test('a failed task holds its lane until it is done or dead, however long that takes', async () => {
      await arrive('a', [10, 20, 30]);
      await prove(30);
      const [head] = await claim();
      await settle([failed(head, now + 60_000)]);
      now += 59_999;
      expect(await turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: T0 + 60_000 });
      now += 1;
      const [again] = await claim();
      expect(again).toMatchObject({ event: { cursor: '10' }, attempt: 2 });
      await settle([{ claim: present(again), state: 'dead', error: 'no' }]);
      expect(await workOff()).toEqual(['20', '30']);
    });

    test('a task that crashed its process does not step aside, as it would without strict order', async () => {
      await arrive('a', [10, 20]);
      await prove(20);
      await claim();
      await store.processes.giveBack([], now);
      now += 3_600_000;
      expect(await claim()).toEqual([]);
      const isolated = await store.work.claimIsolated(now, 2, [handler]);
      expect(isolated).toMatchObject({ event: { cursor: '10' }, unproven: false });
      await settle([done(isolated)]);
      expect(await workOff()).toEqual(['20']);
    });

    test('an isolated task above the watermark is unproven', async () => {
      await arrive('a', [10]);
      await search(1);
      await claim();
      await store.processes.giveBack([], now);
      now += 3_600_000;
      expect(await store.work.claimIsolated(now, 2, [handler])).toMatchObject({ unproven: true });
    });

    test.runIf(openWhole)(
      'a held task that is discarded is no longer counted, and holds back no other task',
      async () => {
        await arrive('a', [10, 20]);
        await arrive('b', [30]);
        const { tasks } = await store.read.tasks({ state: 'held' }, now);
        await admin()?.discard(
          tasks.flatMap(({ key, id }) => (key === 'c:20' ? [] : [id])),
          'no',
          now,
        );
        await expectHeld(20);
        await prove(30);
        expect(await workOff()).toEqual(['20']);
      },
    );

    test.runIf(openWhole)(
      'a held task that a person retries is released unproven, with the lower ones of its lane',
      async () => {
        await arrive('a', [10, 20, 30]);
        const { tasks } = await store.read.tasks({ state: 'held' }, now);
        await admin()?.retry(
          tasks.flatMap(({ key, id }) => (key === 'c:20' ? [id] : [])),
          now,
        );
        await expectHeld(30);
        expect(await claim()).toMatchObject([{ event: { cursor: '10' }, unproven: true }]);
      },
    );

    test('a lane keeps the tasks that were made before its handler became strict', async () => {
      await arrive('a', [10], windowTask);
      await arrive('a', [20, 30]);
      await prove(20);
      now += 250;
      expect(await workOff()).toEqual(['10', '20']);
      await expectHeld(30);
    });

    test('a task that is released by its window releases the strict tasks below it, and none above it', async () => {
      await arrive('a', [20], windowTask);
      await arrive('a', [30]);
      now += 250;
      const claims = await claim();
      expect(claims.map(cursorOf)).toEqual(['20']);
      await arrive('a', [10, 25]);
      await expectHeld(25, 30);
      await settle(claims.map(done));
      expect(await claim()).toMatchObject([{ event: { cursor: '10' }, late: true, unproven: true }]);
    });

    test.runIf(openWhole)(
      'a task that stepped aside before its handler became strict releases the strict tasks below it when it ends',
      async () => {
        await arrive('a', [20], windowTask);
        now += 250;
        await settle([failed((await claim())[0], now + 1)]);
        expect(await claim()).toEqual([]);
        await start();
        await arrive('a', [10, 30]);
        await expectHeld(10, 30);
        now += 1;
        const claims = await claim();
        expect(claims).toMatchObject([{ event: { cursor: '20' }, alone: true }]);
        await settle(claims.map(done));
        await expectHeld(30);
        expect(await workOff()).toEqual(['10']);
      },
    );

    test('an event that arrived before the reads of replay is released unproven, even if its task is made afterwards', async () => {
      await arrive('a', [30]);
      await store.ingest.accept({ readings: [reading(20, 'b')], now });
      await search(2);
      expect(await workOff()).toEqual([]);
      await fanOut();
      await expectHeld();
      const claims = await claim();
      expect(new Set(claims.map(cursorOf))).toEqual(new Set(['20', '30']));
      expect(claims.every(({ unproven }) => unproven)).toBe(true);
    });

    test.each([1, 2, 3, 4, 5, 6, 7, 8])(
      'with random steps (seed %i), only tasks run that the watermark has passed or replay has searched, in order, and the count is exact',
      async (seed) => {
        const random = seeded(seed);
        const below = (n: number): number => Math.floor(random() * n);
        const history = Array.from({ length: 120 }, (_, i) => i + 1);
        const pending = new Set(history);
        let [watermark, searched, boot] = [0, 0, 1];
        let running: Claim[] = [];
        const received = new Map<string, number>();
        const finished = new Map<string, number>();

        async function step(): Promise<void> {
          now += 1;
          const luck = random();
          if (luck < 0.35) {
            const cursors = [...pending].slice(0, 30).filter(() => random() < 0.15);
            for (const cursor of cursors) {
              pending.delete(cursor);
              await arrive(`lane ${cursor % 5}`, [cursor]);
              received.set(String(cursor), await store.keep.newestEvent());
            }
          } else if (luck < 0.5) {
            watermark = Math.min(watermark + below(8), 120);
            const missed = [...pending].filter((cursor) => cursor <= watermark);
            const before = await store.keep.newestEvent();
            for (const [i, cursor] of missed.entries()) received.set(String(cursor), before + i + 1);
            for (const cursor of missed) pending.delete(cursor);
            await prove(
              watermark,
              missed.map((cursor) => reading(cursor, `lane ${cursor % 5}`)),
            );
            await fanOut();
          } else if (luck < 0.55)
            await search((searched = Math.max(searched, (await store.keep.newestEvent()) - below(20))));
          else if (luck < 0.6) await start();
          else if (luck < 0.65) await discardOne();
          else if (luck < 0.7) await crash();
          else await work();
          if (random() < 0.5) expect((await turn({ room: 1, handlers: [] })).unproven).toBe((await held()).length);
        }

        async function discardOne(): Promise<void> {
          const { tasks } = await store.read.tasks({ state: 'held', limit: 1_000 }, now);
          const task = tasks[below(tasks.length)];
          if (task) await admin()?.discard([task.id], 'no', now);
        }

        async function crash(): Promise<void> {
          await store.processes.giveBack([], now);
          running = [];
          boot++;
          for (;;) {
            const isolated = await store.work.claimIsolated((now += 1_000_000), ++boot, [handler]);
            if (!isolated) return;
            await turn({ settle: [end(isolated)] });
          }
        }

        function end(ended: Claim): Settlement {
          const cursor = Number(ended.event.cursor);
          const lane = String(ended.event.sessionId);
          finished.set(lane, Math.max(cursor, finished.get(lane) ?? 0));
          return done(ended);
        }

        async function work(): Promise<void> {
          const settlements = running.map((one) => (random() < 0.7 ? end(one) : failed(one, now + below(3))));
          const { claims } = await turn({ settle: settlements, room: 1 + below(6), boot });
          for (const one of claims) {
            const [cursor, lane] = [Number(one.event.cursor), String(one.event.sessionId)];
            expect(one.unproven).toBe(cursor > watermark);
            expect(one.late).toBe(cursor < (finished.get(lane) ?? 0));
            const top = [...received].filter(([c, at]) => Number(c) % 5 === cursor % 5 && at <= searched);
            const free = Math.max(watermark, finished.get(lane) ?? 0, ...top.map(([c]) => Number(c)));
            expect(cursor).toBeLessThanOrEqual(free);
          }
          running = claims;
        }

        for (let steps = 0; steps < 250; steps++) await step();
        watermark = 120;
        await prove(
          120,
          [...pending].map((cursor) => reading(cursor, `lane ${cursor % 5}`)),
        );
        await fanOut();
        await turn({ settle: running.map(done), boot });
        now += 1_000_000;
        await workOff();
        await expectHeld();
        const { tasks } = await sums(store);
        expect(tasks).toMatchObject({ ready: 0, running: 0, done: 120 - tasks.skipped });
      },
    );
  });
}

export function strictTask({ seq, sessionId, cursor, receivedAt }: StoredEvent, handler: number): NewTask {
  return { event: seq, handler, lane: sessionId, cursor, strict: cursor !== null, releaseAt: receivedAt };
}

function windowTask({ seq, sessionId, cursor, receivedAt }: StoredEvent, handler: number): NewTask {
  return { event: seq, handler, lane: sessionId, cursor, releaseAt: receivedAt + 250 };
}

let withoutCursor = 0;

export function reading(cursor: number | null, sessionId: string): Reading {
  const id = cursor === null ? `id-none-${++withoutCursor}` : `id-${cursor}`;
  const body = Buffer.from(JSON.stringify({ id, type: 'Thing', data: { Thing: {} } }));
  const at = cursor === null ? null : (String(cursor) as Cursor);
  return { event: { origin: 'webhook', id, cursor: at, type: 'Thing', sessionId, createdAt: null, body, flags: [] } };
}

function failed(claim: Claim | undefined, dueAt: number): Settlement {
  return { claim: present(claim), state: 'ready', error: 'Error: no', dueAt, holdMs: 0 };
}

function seeded(seed: number): () => number {
  let state = seed * 2_654_435_761;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
