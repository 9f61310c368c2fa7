// What any store must do, as one suite: a second store passes when this does. A promise of the store belongs here, and
// never into the test of one store alone. Which arrivals are the same event is said in test/store/identity.test.ts.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { mendAll } from '../src/store/mend.ts';
import type { Store } from '../src/store/store.ts';
import type { Claim, NewTask, Settlement, StoredEvent, TurnResult } from '../src/store/tasks-store.ts';
import type { TaskFilter } from '../src/store/watch-store.ts';
import type { Cursor } from '../src/wire/cursor.ts';
import type { Incoming, Reading } from '../src/wire/event.ts';

const T0 = Date.UTC(2026, 0, 1);
const ROOM = 1_000;

export function storeContract(name: string, open: (path: string) => Store): void {
  describe(name, () => {
    let folder: string;
    let store: Store;
    let desk: Desk;
    const opened: Store[] = [];

    /** Another process on the same store. */
    function another(): Store {
      const one = open(join(folder, 'events.db'));
      opened.push(one);
      return one;
    }

    beforeEach(async () => {
      folder = mkdtempSync(join(tmpdir(), 'kit-store-'));
      store = another();
      desk = await createDesk(store);
    });

    afterEach(async () => {
      try {
        await expectCountersToEqualRows(store);
      } finally {
        for (const one of opened.splice(0)) one.close();
        rmSync(folder, { recursive: true, force: true });
      }
    });

    describe('what people look at', () => {
      const sampled = async (step: number) => (await store.samples(T0, T0 + 86_400_000, step)).map(({ at }) => at - T0);

      test('samples are the counters as they stood, the last of each step', async () => {
        await store.note({ accepted: 5, 'refused.path': 2, 'refused.method': 1, 'ack.5': 3, 'ack.Infinity': 1 });
        await store.sample(T0 + 10_300);
        await store.note({ accepted: 1 });
        await store.sample(T0 + 20_000);
        await store.sample(T0 + 60_000);
        expect(await sampled(10_000)).toEqual([10_000, 20_000, 60_000]);
        expect(await sampled(60_000)).toEqual([20_000, 60_000]);
        const [first, second] = await store.samples(T0, T0 + 20_000, 10_000);
        expect(first).toMatchObject({ accepted: 5, refused: 3, duplicates: 0, handled: 0 });
        expect(first?.acks).toEqual([0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        expect(second?.accepted).toBe(6);
        // Rows are counted elsewhere; this was not one.
        await store.note({ accepted: -6 });
      });

      test('samples become fewer: one a minute after a day, none after eight', async () => {
        for (const at of [0, 10_000, 60_000]) await store.sample(T0 + at);
        await store.sample(T0 + 86_400_000 + 120_000);
        expect(await sampled(10_000)).toEqual([0, 60_000]);
        await store.sample(T0 + 9 * 86_400_000);
        expect(await sampled(10_000)).toEqual([]);
      });

      test('the lanes in which most tasks wait come first, with what they wait for', async () => {
        expect(await store.waitingLanes(5)).toEqual([]);
        await desk.arrive('long', [3, 1, 2]);
        await desk.arrive('short', [4, 5]);
        await desk.arrive('alone', [6]);
        expect(await store.waitingLanes(5)).toMatchObject([
          { handler: 'first', lane: 'long', waiting: 3, more: false, head: { key: 'c:1', attempts: 0, error: null } },
          { handler: 'first', lane: 'short', waiting: 2, head: { key: 'c:4' } },
        ]);
      });

      test('quarantined bytes are shown as they came, read again, and leave the quarantine once they are an event', async () => {
        const text = JSON.stringify({ id: 'e1', type: 'X', cursor: '9', data: { X: {} } });
        await store.accept({ readings: [unreadable('{'), unreadable(text)], now: T0 });
        const [second, first] = await store.quarantine(10);
        const ids = [first?.id ?? 0, second?.id ?? 0] as const;
        expect(Buffer.from((await store.quarantined(ids[1]))?.body ?? []).toString()).toBe(text);
        expect(await store.retryQuarantined(ids[0], T0)).toEqual({ verdict: 'quarantined' });
        expect(await store.retryQuarantined(ids[1], T0)).toEqual({ verdict: 'new' });
        expect(await store.retryQuarantined(ids[1], T0)).toBeUndefined();
        expect(await store.quarantined(ids[1])).toBeUndefined();
        expect(await store.status(T0)).toMatchObject({ events: 1, quarantined: 1 });
        expect((await store.event('e1', T0))?.event.key).toBe('c:9');
      });
    });

    describe('accepting', () => {
      test('each reading gets its verdict, in the order of the readings', async () => {
        const readings = [event('1'), event('1'), unreadable('{'), unreadable('{'), event('2')];
        const verdicts = (await store.accept({ readings, now: T0 })).map(({ verdict }) => verdict);
        expect(verdicts).toEqual(['new', 'duplicate', 'quarantined', 'quarantined', 'new']);
        expect(await store.status(T0)).toMatchObject({ events: 2, quarantined: 1, newestCursor: '2', unassigned: 2 });
      });

      test('an event is one row, however often it comes and through whichever process', async () => {
        const other = another();
        for (const one of [store, other, store]) await one.accept({ readings: [event('7')], now: T0 });
        expect(await store.status(T0)).toMatchObject({ events: 1, duplicates: 2 });
        expect((await other.event('7', T0))?.event).toMatchObject({ key: 'c:7', copies: 2 });
      });

      test('the bytes of an event are those that came, under each of its names', async () => {
        const reading = event('7');
        await store.accept({ readings: [reading], now: T0 });
        const bytes = 'event' in reading ? Buffer.from(reading.event.body) : undefined;
        for (const one of ['7', 'c:7']) expect(Buffer.from((await store.body(one)) ?? [])).toEqual(bytes);
        expect(await store.body('8')).toBeNull();
      });

      test('the watermark moves with the events of its page', async () => {
        expect(await store.watermark()).toBeNull();
        await store.accept({ readings: [event('5')], now: T0, watermark: '5' as Cursor });
        expect(await store.watermark()).toBe('5');
      });

      test('a batch that fails leaves nothing: no event, no watermark, no gap, no count', async () => {
        const gap = { after: '1' as Cursor, upTo: null, reason: 'test' };
        const readings = [event('5'), unreadable('{'), event('not a cursor')];
        const batch = { readings, now: T0, watermark: '9' as Cursor, gap, counts: { 'refused.stale': 1 } } as const;
        await expect(store.accept(batch)).rejects.toThrow();
        expect(await store.watermark()).toBeNull();
        expect(await store.gaps()).toEqual([]);
        expect(await store.counters()).toEqual({});
        expect(await store.status(T0)).toMatchObject({ events: 0, quarantined: 0, gaps: 0 });
      });

      test('cursors are exact up to 2^63 - 1, and those that a float would merge are two events', async () => {
        const cursors = ['9007199254740992', '9007199254740993', '9223372036854775807'];
        const accepted = await store.accept({
          readings: cursors.map((c) => event(c)),
          now: T0,
          watermark: '9007199254740993' as Cursor,
        });
        expect(accepted.map(({ verdict }) => verdict)).toEqual(['new', 'new', 'new']);
        expect(await store.watermark()).toBe('9007199254740993');
        expect((await store.status(T0)).newestCursor).toBe('9223372036854775807');
        expect((await store.unassigned(10)).events.map(({ cursor }) => cursor)).toEqual(cursors);
      });

      test('a gap is one row and one kit.gap event, which handlers are given like any other', async () => {
        await store.accept({
          readings: [],
          now: T0,
          gap: { after: '10' as Cursor, upTo: '20' as Cursor, reason: 'expired' },
        });
        expect(await store.gaps()).toMatchObject([{ after: '10', upTo: '20', reason: 'expired', closedAt: null }]);
        const { events } = await store.unassigned(10);
        expect(events).toMatchObject([{ type: 'kit.gap', origin: 'kit', cursor: null, key: 'i:kit.gap:1' }]);
        expect(bodyOf(events[0])).toEqual({ 'kit.gap': { gap: 1, after: '10', upTo: '20', reason: 'expired' } });
        expect((await store.status(T0)).gaps).toBe(1);
      });

      test('a gap that learns where it ends stays one gap and one event, and contradicts nothing', async () => {
        const gap = { after: '10' as Cursor, reason: 'expired' };
        await store.accept({ readings: [], now: T0, gap: { ...gap, upTo: null } });
        await store.accept({ readings: [], now: T0 + 1, gap: { ...gap, upTo: '20' as Cursor } });
        expect(await store.gaps()).toMatchObject([{ after: '10', upTo: '20' }]);
        expect(await store.status(T0)).toMatchObject({ events: 1, gaps: 1, conflicts: 0 });
      });

      test('what readings count rides along, and facts are kept', async () => {
        await store.accept({ readings: [event('1')], now: T0, counts: { 'refused.stale': 2 } });
        await store.note({ 'refused.stale': 1 }, { failure_run: 4, reconcile_asked: T0 });
        expect(await store.counters()).toMatchObject({ events: 1, accepted: 1, 'refused.stale': 3 });
        expect((await store.status(T0)).failureRun).toBe(4);
        expect(await store.reconcileAsked()).toBe(T0);
      });
    });

    describe('the books of failures and secrets', () => {
      test('are empty at first, and nobody was seen', async () => {
        const none = { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null };
        expect(await store.books()).toEqual({ failureRun: 0, failures: { ...none, lastGoodAt: null }, signers: [] });
        expect(await store.status(T0)).toMatchObject({ failures: none, lastDeliveryAt: null, secrets: [] });
      });

      test('are written with the events of a batch, and shown in the order of the configuration', async () => {
        const at = new Date(T0).toISOString();
        const failures = { causes: { store: 2 }, badSignatures: 1, badSince: at, lastBadAt: at, lastGoodAt: at };
        const times = { firstAt: T0, lastAt: T0, aloneAt: null, goneAt: null };
        const signers = [
          { fingerprint: 'b', number: 2, hits: 9, mayGo: true, ...times },
          { fingerprint: 'c', number: null, hits: 7, mayGo: false, ...times, goneAt: T0 },
          { fingerprint: 'a', number: 1, hits: 1, mayGo: false, ...times },
        ];
        const facts = { failure_run: 2, failures: JSON.stringify(failures), signers: JSON.stringify(signers) };
        await store.accept({ readings: [event('1')], now: T0, facts });
        expect(await another().books()).toEqual({ failureRun: 2, failures, signers });
        const { lastGoodAt, ...shown } = failures;
        expect(await store.status(T0)).toMatchObject({ failureRun: 2, failures: shown, lastDeliveryAt: lastGoodAt });
        expect((await store.status(T0)).secrets).toEqual([
          { number: 1, hits: 1, lastAt: at, mayGo: false },
          { number: 2, hits: 9, lastAt: at, mayGo: true },
        ]);
      });
    });

    describe('assigning', () => {
      test('the tasks of an event are made once, and the position moves with them', async () => {
        await desk.accept('a', [1, 2]);
        const found = await store.unassigned(1);
        expect(found).toMatchObject({ from: 0, events: [{ key: 'c:1' }] });
        expect((await store.status(T0)).unassigned).toBe(2);
        await desk.assign();
        expect(await store.unassigned(10)).toMatchObject({ from: 2, events: [] });
        expect(await store.status(T0)).toMatchObject({ unassigned: 0, tasks: { ready: 2 } });
      });

      test('of two processes that read the same events, one assigns and the other is refused whole', async () => {
        await desk.accept('a', [1, 2]);
        const other = await createDesk(another());
        const [mine, theirs] = [await store.unassigned(10), await other.store.unassigned(10)];
        await desk.turn({ assign: { from: mine.from, upTo: 2, tasks: tasksOf(mine.events, desk.handler, T0) } });
        await desk.accept('a', [3]);
        const { claims } = await other.turn({
          assign: { from: theirs.from, upTo: 2, tasks: tasksOf(theirs.events, desk.handler, T0) },
          room: ROOM,
        });
        expect(claims.map(cursorOf)).toEqual(['1']);
        expect((await store.unassigned(10)).from).toBe(2);
      });

      test('tasks that cannot be written leave the position where it was', async () => {
        await desk.accept('a', [1]);
        const { from, events } = await store.unassigned(10);
        const tasks = [...tasksOf(events, desk.handler, T0), ...tasksOf(events, 1_000_000, T0)];
        await expect(desk.turn({ assign: { from, upTo: 1, tasks } })).rejects.toThrow();
        expect(await store.unassigned(10)).toMatchObject({ from: 0, events: [{ key: 'c:1' }] });
      });

      test('a handler keeps its id, and a new name gets one of its own', async () => {
        const again = await another().register(['second', 'first']);
        expect(again.get('first')).toBe(desk.handler);
        expect(again.get('second')).not.toBe(desk.handler);
      });
    });

    describe('lanes', () => {
      test('run one task at a time, the lowest cursor of the released first', async () => {
        await desk.arrive('a', [30, 9, 10]);
        expect(await desk.workOff()).toEqual([['9'], ['10'], ['30']]);
      });

      test('go on in parallel where they are independent', async () => {
        await desk.arrive('a', [1, 3]);
        await desk.arrive('b', [2, 4]);
        expect(await desk.workOff()).toEqual([
          ['1', '2'],
          ['3', '4'],
        ]);
      });

      test('are of one handler: two handlers on the same event do not wait for each other', async () => {
        const second = (await store.register(['second'])).get('second') ?? 0;
        await desk.accept('a', [1]);
        const { from, events } = await store.unassigned(10);
        const tasks = [desk.handler, second].flatMap((handler) => tasksOf(events, handler, T0));
        const { claims } = await desk.turn({
          assign: { from, upTo: 1, tasks },
          room: ROOM,
          handlers: [desk.handler, second],
        });
        expect(claims.map(({ handler }) => handler).toSorted((a, b) => a - b)).toEqual([desk.handler, second]);
      });

      test('a held task is not claimed before its time, and the turn says when that is', async () => {
        await desk.arrive('a', [1], T0 + 250);
        expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: T0 + 250 });
        desk.now = T0 + 249;
        expect(await desk.claim()).toEqual([]);
        desk.now = T0 + 250;
        expect((await desk.claim()).map(cursorOf)).toEqual(['1']);
      });

      test('a held task goes as soon as the watermark has passed it, and those below it with it', async () => {
        await desk.arrive('a', [1, 2, 4], T0 + 60_000);
        await desk.arrive('b', [3], T0 + 60_000);
        expect(await desk.claim()).toEqual([]);
        await store.accept({ readings: [], now: T0, watermark: '2' as Cursor });
        expect(await desk.workOff()).toEqual([['1'], ['2']]);
        await store.accept({ readings: [], now: T0, watermark: '3' as Cursor });
        expect(await desk.workOff()).toEqual([['3']]);
        expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: T0 + 60_000 });
      });

      test('a held task in no lane waits as well', async () => {
        await desk.arrive(null, [1], T0 + 250);
        expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: T0 + 250 });
        desk.now = T0 + 250;
        expect(await desk.claim()).toHaveLength(1);
      });

      test('a released task releases every lower one of its lane', async () => {
        await desk.arrive('a', [20], T0 + 100);
        await desk.arrive('a', [10], T0 + 250);
        await desk.arrive('a', [30], T0 + 300);
        desk.now = T0 + 100;
        expect(await desk.workOff()).toEqual([['10'], ['20']]);
      });

      test('an event below one that waits released takes its place in the order at once', async () => {
        await desk.arrive('a', [10, 30]);
        const first = await desk.claim();
        await desk.arrive('a', [20], T0 + 60_000);
        await desk.settle(first.map(done));
        expect(await desk.workOff()).toEqual([['20'], ['30']]);
      });

      test('an event below a finished one is released at once, and is late', async () => {
        await desk.arrive('a', [20]);
        await desk.workOff();
        await desk.arrive('a', [10], T0 + 60_000);
        const claims = await desk.claim();
        expect(claims).toMatchObject([{ event: { cursor: '10' }, late: true }]);
        await desk.settle(claims.map(done));
        expect((await store.tasks({}, T0)).tasks.map(({ key, late }) => [key, late])).toEqual([
          ['c:10', true],
          ['c:20', false],
        ]);
      });

      test('an event below the one at work waits for it, and is late', async () => {
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

      test('two processes never claim the same task, nor two of one lane', async () => {
        const other = await createDesk(another());
        other.boot = 2;
        await desk.arrive('a', [1, 2]);
        await desk.arrive(null, [3]);
        expect((await desk.claim()).map(cursorOf).toSorted()).toEqual(['1', '3']);
        expect(await other.claim()).toEqual([]);
      });

      test('a turn claims as many as there is room for, in lanes or in none', async () => {
        await desk.arrive(null, [1, 2, 3, 4]);
        expect(await desk.claim(2)).toHaveLength(2);
        await desk.arrive('a', [5]);
        await desk.arrive('b', [6]);
        expect(await desk.claim(4)).toHaveLength(4);
      });

      test('a lane that was swept away and comes back is not taken for another', async () => {
        await desk.arrive('a', [1]);
        await desk.workOff();
        desk.now += 86_400_000;
        await store.sweep(T0 + 1);
        await desk.arrive('b', [2]);
        await desk.arrive('a', [3]);
        expect((await desk.claim()).map(cursorOf).toSorted((a, b) => Number(a) - Number(b))).toEqual(['2', '3']);
        expect((await store.event('3', T0))?.tasks[0]?.lane).toBe('a');
      });

      test('a lane that was entered in a turn that failed is not taken for another', async () => {
        await desk.accept('a', [1]);
        const { from, events } = await store.unassigned(10);
        const tasks = [...tasksOf(events, desk.handler, T0), ...tasksOf(events, 1_000_000, T0)];
        await expect(desk.turn({ assign: { from, upTo: 1, tasks } })).rejects.toThrow();
        const other = await createDesk(another());
        const second = events.map((one) => ({ ...one, sessionId: 'b' }));
        await other.turn({ assign: { from, upTo: 1, tasks: tasksOf(second, desk.handler, T0) } });
        await desk.arrive('a', [2]);
        expect((await desk.claim()).map(cursorOf).toSorted((a, b) => Number(a) - Number(b))).toEqual(['1', '2']);
        expect((await store.event('2', T0))?.tasks[0]?.lane).toBe('a');
      });

      test('the backlog of one handler does not keep another waiting, though places come free one at a time', async () => {
        const second = (await store.register(['second'])).get('second') ?? 0;
        const handlers = [desk.handler, second];
        await desk.accept(null, [1, 2, 3, 4]);
        const { from, events } = await store.unassigned(10);
        const tasks = handlers.flatMap((handler) => tasksOf(events, handler, T0));
        await desk.turn({ assign: { from, upTo: 4, tasks } });
        const claimed: number[] = [];
        for (let i = 0; i < 4; i++)
          claimed.push(...(await desk.turn({ room: 1, handlers })).claims.map(({ handler }) => handler));
        expect(new Set(claimed)).toEqual(new Set(handlers));
      });

      test('tasks in no lane do not keep the lanes waiting, though places come free one at a time', async () => {
        await desk.arrive(null, [1, 2, 3, 4]);
        await desk.arrive('a', [5]);
        const claimed: (number | null)[] = [];
        for (let i = 0; i < 4; i++) claimed.push(...(await desk.claim(1)).map(({ lane }) => lane));
        expect(claimed.some((lane) => lane !== null)).toBe(true);
      });
    });

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

      test('steps aside when its lane was held for long enough since its first failure, and goes on alone', async () => {
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

      test('F16: waits no longer than before where the clock is set back, in its lane and aside', async () => {
        for (const [lane, cursor] of [
          ['a', 10],
          [null, 20],
        ] as const) {
          await desk.arrive(lane, [cursor]);
          await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 2_000, holdMs: 5_000 })));
        }
        await store.setBack(3_600_000, T0 - 3_600_000);
        desk.now = T0 - 3_600_000 + 1_999;
        expect(await desk.claim()).toEqual([]);
        desk.now++;
        expect((await desk.claim()).map(cursorOf).toSorted()).toEqual(['10', '20']);
      });

      test('in no lane keeps nobody waiting', async () => {
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

      test('or was put off without spending its attempt has the same attempt again', async () => {
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

      test('an attempt that came back after the next was begun is fenced off, also from completing', async () => {
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

      test('writes neither where the work throws, and the task is still at work', async () => {
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

    describe('when a process has died', () => {
      test('the tasks it was at get their attempt back and run alone, one at a time', async () => {
        await desk.arrive('a', [1, 2]);
        await desk.arrive('b', [3]);
        await desk.claim();
        expect(await store.giveBack([2], T0)).toBe(2);
        desk.boot = 2;
        expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: null });
        expect(await store.suspectDue(T0, ['first'])).toBe(true);
        const one = await store.claimSuspect(T0, 3, [desk.handler]);
        const two = await store.claimSuspect(T0, 3, [desk.handler]);
        expect([one, two].map((claim) => [claim && cursorOf(claim), claim?.attempt])).toEqual([
          ['1', 1],
          ['3', 1],
        ]);
        expect(await store.claimSuspect(T0, 3, [desk.handler])).toBeUndefined();
        expect(await store.suspectDue(T0, ['first'])).toBe(false);
        await desk.settle([done(one), done(two)]);
        expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
      });

      test('a task in no lane is a suspect too, and nothing to wake up for', async () => {
        await desk.arrive(null, [1, 2]);
        await desk.claim();
        await store.giveBack([], T0);
        expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: null });
        expect(await store.claimSuspect(T0, 2, [desk.handler])).toMatchObject({ attempt: 1, alone: true });
      });

      test('a task that was alone in it has spent its attempt, waits, and holds its lane', async () => {
        await desk.arrive('a', [1, 2]);
        await desk.claim();
        await store.giveBack([], T0);
        expect(await store.suspectDue(T0, ['first'])).toBe(false);
        expect(await store.claimSuspect(T0, 2, [desk.handler])).toBeUndefined();
        desk.now = T0 + 1_000;
        expect(await desk.claim()).toEqual([]);
        const again = await store.claimSuspect(desk.now, 2, [desk.handler]);
        expect(again).toMatchObject({ event: { cursor: '1' }, attempt: 2 });
        expect(again?.error).toContain('died');
      });

      test('a lane does not wait for ever for a suspect that keeps killing its process', async () => {
        await desk.arrive('a', [1, 2]);
        await desk.claim();
        await store.giveBack([], T0);
        desk.now = T0 + 3_600_000;
        expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
        expect(await store.claimSuspect(desk.now, 2, [desk.handler])).toMatchObject({
          event: { cursor: '1' },
          alone: true,
        });
      });

      test('nothing of its lane runs beside a suspect at work, however low its cursor', async () => {
        await desk.arrive('a', [5]);
        await desk.arrive('b', [6]);
        await desk.claim();
        await store.giveBack([], desk.now);
        desk.boot = 2;
        await desk.claim();
        await desk.arrive('a', [3], desk.now + 250);
        const suspect = present(await another().claimSuspect(desk.now, 3, [desk.handler]));
        expect(cursorOf(suspect)).toBe('5');
        desk.now += 300;
        expect(await desk.claim()).toEqual([]);
        await another().turn({ now: desk.now, boot: 3, settle: [done(suspect)], assign: null, room: 0, handlers: [] });
        expect((await desk.claim()).map(cursorOf)).toEqual(['3']);
      });

      test('nor when the time to hold its lane passes while it is at work', async () => {
        await desk.arrive('a', [5, 6]);
        await desk.claim();
        await store.giveBack([], desk.now);
        desk.boot = 2;
        await desk.claim();
        desk.now += 119_000;
        present(await another().claimSuspect(desk.now, 3, [desk.handler]));
        await desk.claim();
        desk.now += 2_000;
        expect(await desk.claim()).toEqual([]);
      });

      test('what a suspect has finished makes lower ones late, also after it had stepped aside', async () => {
        await desk.arrive('a', [9]);
        await desk.claim();
        await store.giveBack([], desk.now);
        desk.boot = 2;
        await desk.claim();
        desk.now += 121_000;
        await desk.claim();
        const suspect = present(await another().claimSuspect(desk.now, 3, [desk.handler]));
        expect(suspect.alone).toBe(true);
        await desk.claim();
        await another().turn({ now: desk.now, boot: 3, settle: [done(suspect)], assign: null, room: 0, handlers: [] });
        await desk.arrive('a', [4], desk.now + 250);
        expect((await desk.claim()).map(({ late }) => late)).toEqual([true]);
      });

      test('processes that still live keep their tasks, and other lanes go on', async () => {
        await desk.arrive('a', [1]);
        await desk.claim();
        desk.boot = 2;
        await desk.arrive('b', [2]);
        const mine = await desk.claim();
        expect(await store.giveBack([2], T0)).toBe(1);
        await desk.arrive('c', [3]);
        expect((await desk.claim()).map(cursorOf)).toEqual(['3']);
        expect((await desk.settle(mine.map(done))).fenced).toBe(0);
      });

      test('suspects of handlers that are not asked for stay', async () => {
        await desk.arrive('a', [1]);
        await desk.arrive('b', [2]);
        await desk.claim();
        await store.giveBack([], T0);
        expect(await store.claimSuspect(T0, 2, [])).toBeUndefined();
      });

      test('boots are numbers that no process had before', async () => {
        const boots = [await store.nextBoot(), await another().nextBoot(), await store.nextBoot()];
        expect(new Set(boots).size).toBe(3);
      });

      test('processes are known until they are gone, and down once silent', async () => {
        await store.beat({ role: 'run', pid: 7, started: '99', boot: 1 }, T0);
        expect(await another().processes()).toEqual([{ role: 'run', pid: 7, started: '99', boot: 1 }]);
        expect((await store.status(T0)).processes).toEqual({ receive: 'down', run: 'up', keep: 'down' });
        expect((await store.status(T0 + 60_000)).processes.run).toBe('down');
        await store.gone('run');
        expect(await store.processes()).toEqual([]);
      });
    });

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

      test('brings a waiting task forward, back into the lane that it had left', async () => {
        await desk.arrive('a', [10, 20]);
        await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 3_600_000, holdMs: 0 })));
        const running = await desk.claim();
        expect(running.map(cursorOf)).toEqual(['20']);
        expect(await retry(store, { state: 'ready' })).toBe(1);
        expect(await desk.claim()).toEqual([]);
        await desk.settle(running.map(done));
        expect(await desk.claim()).toMatchObject([{ event: { cursor: '10' }, alone: false, late: true }]);
      });

      test('takes the tasks that are named, of the handler that is named, and none that is at work', async () => {
        await desk.arrive(null, [1, 2, 3]);
        await desk.settle((await desk.claim()).slice(0, 2).map((claim) => ended(claim, 'dead')));
        const { tasks } = await store.tasks({ state: 'dead' }, T0);
        expect(await retry(store, { handler: 'another' })).toBe(0);
        expect(await retry(store, { ids: [] })).toBe(0);
        expect(await retry(store, { ids: tasks.slice(0, 1).map(({ id }) => id) })).toBe(1);
        expect((await store.status(T0)).tasks).toMatchObject({ dead: 1, running: 1, ready: 1 });
        expect(await retry(store, {})).toBe(2);
      });

      test('moves any number of tasks, each once', async () => {
        await desk.arrive(null, range(1, 2_500));
        await desk.settle((await desk.claim(10_000)).map((claim) => ended(claim, 'dead')));
        await desk.settle((await desk.claim(10_000)).map((claim) => ended(claim, 'dead')));
        const { dead } = (await store.status(T0)).tasks;
        expect(dead).toBeGreaterThan(2_000);
        expect(await retry(store, { state: 'dead' })).toBe(dead);
        expect((await store.status(T0)).tasks.dead).toBe(0);
      });

      test('of a dead task whose lane was swept away puts it into no other lane', async () => {
        await desk.arrive('a', [1]);
        await desk.settle((await desk.claim()).map((claim) => ended(claim, 'dead')));
        await store.sweep(T0 + 1);
        await desk.arrive('b', [2]);
        expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
        expect((await store.event('1', T0))?.tasks[0]?.lane).not.toBe('b');
        await retry(store, { state: 'dead' });
        expect((await desk.claim()).map(cursorOf)).toEqual(['1']);
      });
    });

    describe('discard', () => {
      test('skips waiting and dead tasks with the reason, and their lane goes on', async () => {
        await desk.arrive('a', [10, 20, 30]);
        const first = await desk.claim();
        const { tasks } = await store.tasks({}, T0);
        const second = tasks.flatMap(({ key, id }) => (key === 'c:20' ? [id] : []));
        expect(await discard(store, { ids: second }, 'not wanted')).toBe(1);
        await desk.settle(first.map((claim) => ended(claim, 'dead')));
        expect(await discard(store, { state: 'dead' }, 'given up')).toBe(1);
        expect(await desk.claim()).toMatchObject([{ event: { cursor: '30' }, late: false }]);
        const skipped = (await store.tasks({ state: 'skipped' }, T0)).tasks;
        expect(skipped.map(({ error }) => error)).toEqual(['discarded: not wanted', 'discarded: given up']);
      });

      test('of the head that held its lane lets the lane go on at once', async () => {
        await desk.arrive('a', [10, 20]);
        await desk.settle((await desk.claim()).map((claim) => failed(claim, { dueAt: T0 + 60_000, holdMs: 60_000 })));
        const [, head] = (await store.tasks({}, T0)).tasks;
        await discard(store, { ids: [head?.id ?? 0] }, 'no');
        expect((await desk.claim()).map(cursorOf)).toEqual(['20']);
      });

      test('of a later task makes the earlier ones neither late nor released', async () => {
        await desk.arrive('a', [10, 30], T0 + 250);
        const [later] = (await store.tasks({}, T0)).tasks;
        expect(later?.key).toBe('c:30');
        await discard(store, { ids: [later?.id ?? 0] }, 'no');
        expect(await desk.claim()).toEqual([]);
        desk.now = T0 + 250;
        expect(await desk.claim()).toMatchObject([{ event: { cursor: '10' }, late: false }]);
      });

      test('of held tasks leaves those that are released', async () => {
        await desk.arrive('a', [1]);
        await desk.arrive('b', [2], T0 + 60_000);
        expect((await store.tasks({ state: 'held' }, T0)).tasks.map(({ key }) => key)).toEqual(['c:2']);
        expect(await discard(store, { state: 'held' }, 'no')).toBe(1);
        expect((await desk.claim()).map(cursorOf)).toEqual(['1']);
      });

      test('does not touch what is at work', async () => {
        await desk.arrive('a', [1]);
        const claims = await desk.claim();
        expect(await discard(store, {}, 'no')).toBe(0);
        expect((await desk.settle(claims.map(done))).fenced).toBe(0);
      });
    });

    describe('a rerun', () => {
      const EVER = '0' as Cursor;

      async function ask(from: Cursor | number = EVER, to: Cursor | number | null = null): Promise<number> {
        const span = await store.range(from, to);
        const asked = { handler: 'first', type: null, from: 'then', to: null, events: 0, range: span };
        return store.askRerun(asked, desk.now);
      }

      /** As `run` does: a page becomes tasks, and what is due is claimed. */
      async function feed(limit = 100, room = ROOM): Promise<Claim[] | null> {
        const page = await store.rerun([desk.handler], limit);
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

      test('gives every event once more, in the order of cursors, however they arrived and whatever became of them', async () => {
        await desk.arrive('a', [30, 9, 10, 20]);
        const claims = await desk.claim();
        await desk.settle(claims.map((claim) => ended(claim, 'dead')));
        await desk.workOff();
        const id = await ask();
        expect(await finish(2)).toEqual(['9', '10', '20', '30']);
        expect(await store.reruns(1)).toMatchObject([{ id, state: 'ended', seen: 4, made: 4, kept: 0, untried: 0 }]);
        expect((await store.status(T0)).tasks).toMatchObject({ done: 4, dead: 0 });
      });

      test('is resumed where it was left, by whichever process, and no page becomes tasks twice', async () => {
        await desk.arrive('a', range(1, 10));
        await desk.workOff();
        await ask();
        const page = present((await store.rerun([desk.handler], 4)) ?? undefined);
        const tasks = tasksOf(page.events, desk.handler, T0).map((task) => ({ ...task, rerun: page.id }));
        const other = await createDesk(another());
        await other.turn({ rerun: { page, tasks } });
        await desk.turn({ rerun: { page, tasks } });
        expect(await store.reruns(1)).toMatchObject([{ made: 4, kept: 0, untried: 4 }]);
        expect(await store.rerun([desk.handler], 4)).toBeNull();
        await desk.workOff();
        expect(await finish(4)).toEqual(['5', '6', '7', '8', '9', '10']);
      });

      test('leaves alone what waits or is at work, and says so', async () => {
        await desk.arrive('a', [1]);
        await desk.workOff();
        await desk.arrive('b', [2]);
        await desk.arrive('c', [3]);
        const [atWork] = await desk.claim(1);
        await ask();
        const claims = present((await feed(100, 0)) ?? undefined);
        expect(claims).toEqual([]);
        expect(await store.reruns(1)).toMatchObject([{ made: 1, kept: 2, seen: 3 }]);
        expect((await desk.settle([done(atWork)])).fenced).toBe(0);
        await desk.workOff();
      });

      test('is behind what comes meanwhile, and keeps no lane of it waiting', async () => {
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

      test('gets no more places than it is given, and the turn does not ask to be called for it', async () => {
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

      test('ends at its bounds, cursors by number and times by receipt, and at what came after it was asked', async () => {
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

      test('holds events without a cursor where no cursor bounds it, in no lane', async () => {
        await desk.arrive('a', [1, null]);
        await desk.workOff();
        await ask('1' as Cursor);
        expect(await finish()).toEqual(['1']);
        await ask(T0);
        expect((await finish()).toSorted()).toEqual(['1', 'null']);
      });

      test('leaves out what has no body any more', async () => {
        await desk.arrive('a', [1, 2, 3]);
        await desk.workOff();
        await store.purge(T0 + 1, 0, 1);
        expect(await store.survey(await store.range(EVER, null), 'Thing', null, 10)).toEqual({
          types: [{ type: 'Thing', events: 3, purged: 1 }],
          next: null,
        });
        await ask();
        expect(await finish()).toEqual(['2', '3']);
        expect(await store.reruns(1)).toMatchObject([{ seen: 3, made: 2, purged: 1 }]);
      });

      test('that is cancelled makes no more tasks, and names those that wait', async () => {
        await desk.arrive('a', range(1, 10));
        await desk.workOff();
        const id = await ask();
        await feed(4, 0);
        const page = { id, handler: desk.handler, from: { cursor: 4n, event: -1 }, upTo: { cursor: 9n, event: 0 } };
        const waiting = present((await store.cancelRerun(id, T0)) ?? undefined);
        await desk.turn({ rerun: { page: { ...page, last: false, events: [], purged: 0 }, tasks: [] } });
        expect(waiting).toHaveLength(4);
        expect(await store.rerun([desk.handler], 4)).toBeNull();
        expect(await store.discard(waiting, 'enough', T0)).toBe(4);
        expect(await desk.workOff()).toEqual([]);
        expect(await store.reruns(1)).toMatchObject([{ state: 'cancelled', made: 4 }]);
        expect(await store.cancelRerun(id + 1, T0)).toBeNull();
      });

      test('strict: what the watermark has passed is proved, what lies above waits', async () => {
        await desk.arrive('a', [1, 2]);
        await desk.workOff();
        await store.accept({ readings: [], now: T0, watermark: '1' as Cursor });
        await ask();
        const page = present((await store.rerun([desk.handler], 9)) ?? undefined);
        const strict = { strict: true, rerun: page.id };
        const tasks = tasksOf(page.events, desk.handler, T0).map((task) => ({ ...task, ...strict }));
        const { claims, unproven } = await desk.turn({ rerun: { page, tasks }, room: ROOM });
        expect(claims.map(cursorOf)).toEqual(['1']);
        expect(unproven).toBe(1);
        await desk.settle(claims.map(done));
        await store.accept({ readings: [], now: T0, watermark: '2' as Cursor });
        expect(await desk.workOff()).toEqual([['2']]);
      });
    });

    describe('a limit of its own', () => {
      test('keeps a handler from more, others not, and the turn does not ask to be called for it', async () => {
        const second = present((await store.register(['first', 'second'])).get('second'));
        await desk.accept('a', [1]);
        await desk.accept('b', [2]);
        const { from, events } = await store.unassigned(10);
        const tasks = [desk.handler, second].flatMap((handler) => tasksOf(events, handler, T0));
        const handlers = [desk.handler, second];
        const limits = new Map([[desk.handler, 1]]);
        const first = await desk.turn({ assign: { from, upTo: 2, tasks }, handlers, limits, room: ROOM });
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

    describe('tasks of a handler that was renamed', () => {
      test('go to its new name in their lanes, which have finished as far; what is done stays, what is at work too', async () => {
        await desk.arrive('a', [1, 5]);
        await desk.settle((await desk.claim()).map(done));
        await desk.settle((await desk.claim()).map((claim) => ended(claim, 'dead')));
        await desk.arrive('a', [3, 7]);
        await desk.arrive('b', [9]);
        const atWork = await desk.claim();
        expect(atWork.map(cursorOf).toSorted()).toEqual(['3', '9']);
        const second = present((await store.register(['second'])).get('second'));
        const give = (ids: number[]): Promise<number> => store.giveTo(ids, 'second', T0);
        expect(await mendAll(store, { handler: 'first' }, T0, give)).toBe(2);
        expect((await desk.settle(atWork.map(done))).fenced).toBe(0);
        expect(await store.giveLanes('first', 'second', 0, 10, T0)).toBeNull();
        const { tasks } = await store.tasks({ handler: 'second' }, T0);
        expect(tasks.map(({ key, lane, state }) => [key, lane, state])).toEqual([
          ['c:7', 'a', 'ready'],
          ['c:5', 'a', 'dead'],
        ]);
        expect(await desk.workOff()).toEqual([]);
        expect(await retry(store, { handler: 'second', state: 'dead' })).toBe(1);
        await desk.accept('b', [8]);
        const { from, events } = await store.unassigned(10);
        const assign = { from, upTo: events.at(-1)?.seq ?? 0, tasks: tasksOf(events, second, T0) };
        const { claims } = await desk.turn({ assign, handlers: [second], room: ROOM });
        expect(new Map(claims.map((claim) => [cursorOf(claim), claim.late]))).toEqual(
          new Map([
            ['5', false],
            ['8', true],
          ]),
        );
        const rest = await desk.turn({ settle: claims.map(done), handlers: [second], room: ROOM });
        expect(rest.claims.map(cursorOf)).toEqual(['7']);
      });

      test('stay behind where the new one has a task of the event, and say so', async () => {
        const second = present((await store.register(['first', 'second'])).get('second'));
        await desk.accept('a', [1]);
        const { from, events } = await store.unassigned(10);
        const tasks = [desk.handler, second].flatMap((handler) => tasksOf(events, handler, T0));
        await desk.turn({ assign: { from, upTo: 1, tasks } });
        const ids = await store.matching({ handler: 'first' }, T0);
        expect(await store.giveTo(ids, 'second', T0)).toBe(0);
        expect((await store.tasks({ handler: 'first' }, T0)).tasks).toMatchObject([
          { state: 'skipped', error: 'second has its own task of this event' },
        ]);
        expect((await store.tasks({ handler: 'second' }, T0)).tasks).toMatchObject([{ state: 'ready' }]);
      });

      test('handlers are known by name, and whether they are loaded', async () => {
        await store.register(['second']);
        expect(await store.handlers()).toEqual([
          { name: 'first', loaded: false },
          { name: 'second', loaded: true },
        ]);
      });
    });

    describe('pruning', () => {
      /** Finishes what waits, then prunes in steps of two. */
      async function prune(before = T0 + 1): Promise<number> {
        let steps = 0;
        for (let after: number | null = 0; after !== null; steps++) after = await store.prune(before, after, 2);
        return steps;
      }

      test('removes finished events in steps, moves the floor and keeps the newest row', async () => {
        await desk.arrive('a', [50, 10, 20, 40, 30]);
        await desk.workOff();
        expect(await prune()).toBe(3);
        expect(await store.status(T0)).toMatchObject({ events: 1, floor: '50', tasks: { done: 1 } });
        expect((await store.events({ limit: 10 }, T0)).events.map(({ key }) => key)).toEqual(['c:30']);
        await desk.arrive('a', [60]);
        expect((await store.events({ limit: 10 }, T0)).events.map(({ seq }) => seq)).toEqual([6, 5]);
      });

      test('never removes what is unassigned, waits, is at work, or is dead', async () => {
        await desk.arrive('a', [1]);
        await desk.settle((await desk.claim()).map((claim) => ended(claim, 'dead')));
        await desk.arrive('b', [2]);
        await desk.claim();
        await desk.arrive('c', [3]);
        await desk.accept('d', [4, 5]);
        await prune();
        expect(await store.status(T0)).toMatchObject({ events: 5, floor: null });
      });

      test('removes only what was received before the time', async () => {
        await desk.arrive('a', [1]);
        desk.now = T0 + 10;
        await desk.arrive('a', [2]);
        desk.now = T0 + 20;
        await desk.arrive('a', [3]);
        await desk.workOff();
        await prune(T0 + 10);
        expect((await store.events({ limit: 10 }, T0)).events.map(({ key }) => key)).toEqual(['c:3', 'c:2']);
      });

      test('what was pruned is a duplicate when it comes again, to the last digit of its cursor', async () => {
        await desk.arrive('a', ['9007199254740993', '1']);
        await desk.workOff();
        await prune();
        expect((await store.status(T0)).floor).toBe('9007199254740993');
        expect(await store.accept({ readings: [event('9007199254740993')], now: T0 })).toEqual([
          { verdict: 'duplicate' },
        ]);
        expect(await store.accept({ readings: [event('9007199254740994')], now: T0 })).toEqual([{ verdict: 'new' }]);
      });

      test('purging removes bodies and keeps identity', async () => {
        await desk.arrive('a', [1, 2, 3]);
        await desk.workOff();
        for (let after: number | null = 0; after !== null;) after = await store.purge(T0 + 1, after, 1);
        const { events } = await store.events({ limit: 10 }, T0);
        expect(events.map(({ key, bytes }) => [key, bytes === null])).toEqual([
          ['c:3', false],
          ['c:2', true],
          ['c:1', true],
        ]);
        expect(await store.accept({ readings: [event('1')], now: T0 })).toEqual([{ verdict: 'duplicate' }]);
        expect(await store.status(T0)).toMatchObject({ events: 3, conflicts: 0 });
      });

      test('sweeping removes old quarantine and idle lanes, and no lane in which something waits', async () => {
        await store.accept({ readings: [unreadable('{'), unreadable('[')], now: T0 });
        await desk.arrive('a', [1]);
        await desk.workOff();
        await desk.arrive('b', [2, 3]);
        const running = await desk.claim();
        await store.sweep(T0 + 1);
        expect(await store.quarantine(10)).toEqual([]);
        expect((await store.status(T0)).quarantined).toBe(0);
        await desk.settle(running.map(done));
        expect(await desk.claim()).toMatchObject([{ event: { cursor: '3' } }]);
        expect((await store.tasks({}, T0)).tasks.map(({ lane }) => lane)).toEqual(['b', 'b', null]);
      });
    });

    describe('looking', () => {
      test('pages of events follow each other without a hole, newest first', async () => {
        await desk.accept('a', range(1, 7));
        const keys: string[] = [];
        for (let before: number | null | undefined; before !== null;) {
          const page = await store.events({ limit: 3, before: before ?? undefined }, T0);
          keys.push(...page.events.map(({ key }) => key));
          before = page.next;
        }
        expect(keys).toEqual(
          range(1, 7)
            .toReversed()
            .map((cursor) => `c:${cursor}`),
        );
      });

      test('events are found by type, session, the state of a task, key, id and cursor', async () => {
        await desk.arrive('a', [1, 2]);
        await desk.claim();
        await store.accept({ readings: [{ event: { ...incoming('3'), type: 'Other', sessionId: 'b' } }], now: T0 });
        const found = async (filter: object): Promise<string[]> =>
          (await store.events({ limit: 10, ...filter }, T0)).events.map(({ key }) => key);
        expect(await found({ type: 'Other' })).toEqual(['c:3']);
        expect(await found({ session: 'a' })).toEqual(['c:2', 'c:1']);
        expect(await found({ state: 'running' })).toEqual(['c:1']);
        for (const q of ['3', 'c:3', 'id-3', 'i:id-3']) expect(await found({ q })).toEqual(['c:3']);
        expect(await found({ q: "' or 1=1 --" })).toEqual([]);
      });

      test('pages of tasks of one state follow each other', async () => {
        await desk.arrive(null, range(1, 5));
        const first = await store.tasks({ state: 'ready', limit: 3 }, T0);
        const second = await store.tasks({ state: 'ready', limit: 3, before: first.next ?? undefined }, T0);
        expect([...first.tasks, ...second.tasks].map(({ key }) => key)).toEqual(['c:5', 'c:4', 'c:3', 'c:2', 'c:1']);
        expect(second.next).toBeNull();
      });

      test('what matches rarely is found page after page, each of which looks at a stretch alone', async () => {
        await desk.accept(null, [1]);
        const { from, events } = await store.unassigned(10);
        const rare = (await store.register(['first', 'rare'])).get('rare') ?? 0;
        await desk.turn({ assign: { from, upTo: from + 1, tasks: tasksOf(events, rare, T0) } });
        await desk.arrive(null, range(2, 12_000));
        const pages: string[][] = [];
        for (let before: number | undefined; ;) {
          const { tasks, next } = await store.tasks({ handler: 'rare', before }, T0);
          pages.push(tasks.map(({ key }) => key));
          if (next === null) break;
          before = next;
        }
        expect(pages).toEqual([[], ['c:1']]);
      });

      test('the age of the oldest waiting task is that of its event', async () => {
        await desk.arrive('a', [1, 2]);
        expect((await store.status(T0 + 9_000)).oldestReadySeconds).toBe(9);
        await desk.workOff();
        expect((await store.status(T0 + 9_000)).oldestReadySeconds).toBeNull();
        desk.now = T0 + 5_000;
        await desk.arrive('a', [3]);
        expect((await store.status(T0 + 9_000)).oldestReadySeconds).toBe(4);
      });

      test('anchors are the lowest and newest cursor, and the newest received before a time', async () => {
        expect(await store.anchors(T0)).toEqual({ lowest: null, older: null, young: false });
        expect(await store.newestCursor()).toBeNull();
        await desk.accept('a', [20, 10]);
        desk.now = T0 + 10;
        await desk.accept('a', [30]);
        expect(await store.anchors(T0 + 10)).toEqual({ lowest: '10', older: '20', young: true });
        expect(await store.newestCursor()).toBe('30');
        expect(await store.cursorAbove(null)).toBe('10');
        expect(await store.cursorAbove('10' as Cursor)).toBe('20');
        expect(await store.cursorAbove('30' as Cursor)).toBeNull();
        expect(await store.cursorBelow(null)).toBe('30');
        expect(await store.cursorBelow('30' as Cursor)).toBe('20');
        expect(await store.cursorBelow('10' as Cursor)).toBeNull();
      });

      test('where history ends is said once', async () => {
        await store.endHistory('10' as Cursor);
        await store.endHistory('20' as Cursor);
        expect((await store.unassigned(1)).history).toBe('10');
      });

      test('an alarm keeps the time since when it is raised, until it is cleared', async () => {
        await store.raise('dead_letters', 'one', T0);
        await store.raise('dead_letters', 'two', T0 + 1_000);
        const since = new Date(T0).toISOString();
        expect((await store.status(T0)).alarms).toEqual([{ name: 'dead_letters', since, detail: 'two' }]);
        await store.clear('dead_letters');
        expect((await store.status(T0)).alarms).toEqual([]);
      });
    });

    test('more lanes than are kept in memory lose no task, nor their order', async () => {
      const lanes = 20_500;
      for (let from = 1; from <= lanes; from += 4_100) {
        const readings = range(from, from + 4_099).map((cursor) => event(String(cursor), `lane ${cursor}`));
        await store.accept({ readings, now: desk.now });
        await desk.assign();
        await desk.workOff();
      }
      expect((await store.status(desk.now)).tasks).toMatchObject({ ready: 0, held: 0, done: lanes });
    });

    test('twenty thousand tasks in two thousand lanes are worked off by full turns of 256, each lane in order', async () => {
      const random = seeded(1);
      const cursors = shuffle(range(1, 20_000), random);
      for (let i = 0; i < cursors.length; i += 1_000) {
        const readings = cursors.slice(i, i + 1_000).map((cursor) => event(String(cursor), `lane-${cursor % 2_000}`));
        await store.accept({ readings, now: T0 });
        await desk.assign();
      }
      const last = new Map<number | null, bigint>();
      let turns = 0;
      let worked = 0;
      for (let settle: Settlement[] = []; ; turns++) {
        const { claims } = await desk.turn({ settle, room: 256 });
        if (claims.length === 0) break;
        for (const {
          lane,
          late,
          event: { cursor },
        } of claims) {
          expect(late).toBe(false);
          expect(BigInt(cursor ?? 0)).toBeGreaterThan(last.get(lane) ?? 0n);
          last.set(lane, BigInt(cursor ?? 0));
        }
        worked += claims.length;
        settle = claims.map(done);
      }
      expect(worked).toBe(20_000);
      expect(last.size).toBe(2_000);
      expect(turns).toBeLessThan(100);
    });

    test.each(range(1, 12))(
      'whatever the arrivals, failures and crashes (seed %i), every task ends once and each lane in order, but for late ones',
      async (seed) => {
        await storm(desk, seeded(seed));
      },
    );
  });
}

function retry(store: Store, filter: TaskFilter): Promise<number> {
  return mendAll(store, filter, T0, (ids) => store.retry(ids, T0));
}

function discard(store: Store, filter: TaskFilter, reason: string): Promise<number> {
  return mendAll(store, filter, T0, (ids) => store.discard(ids, reason, T0));
}

/** A process that takes turns with the store as `run` does, by a clock that stands still; an event's session is its lane. */
interface Desk {
  store: Store;
  handler: number;
  now: number;
  boot: number;
  accept(lane: string | null, cursors: (number | string | null)[]): Promise<void>;
  assign(releaseAt?: number): Promise<void>;
  arrive(lane: string | null, cursors: (number | string | null)[], releaseAt?: number): Promise<void>;
  turn(turn: Partial<Parameters<Store['turn']>[0]>): Promise<TurnResult>;
  claim(room?: number): Promise<Claim[]>;
  settle(settle: Settlement[]): Promise<TurnResult>;
  /** Claims and completes until nothing is due; the cursors of each turn. */
  workOff(): Promise<string[][]>;
}

let withoutCursor = 0;

async function createDesk(store: Store): Promise<Desk> {
  const handler = (await store.register(['first'])).get('first') ?? 0;
  const desk: Desk = {
    store,
    handler,
    now: T0,
    boot: 1,
    async accept(lane, cursors) {
      const readings = cursors.map((cursor) => event(cursor === null ? null : String(cursor), lane));
      await store.accept({ readings, now: desk.now });
    },
    async assign(releaseAt = desk.now) {
      const { from, events } = await store.unassigned(10_000);
      const upTo = events.at(-1)?.seq ?? from;
      await desk.turn({ assign: { from, upTo, tasks: tasksOf(events, handler, releaseAt) } });
    },
    async arrive(lane, cursors, releaseAt = desk.now) {
      await desk.accept(lane, cursors);
      await desk.assign(releaseAt);
    },
    turn: (turn) =>
      store.turn({ now: desk.now, boot: desk.boot, settle: [], assign: null, room: 0, handlers: [handler], ...turn }),
    claim: async (room = ROOM) => (await desk.turn({ room })).claims,
    settle: (settle) => desk.turn({ settle }),
    async workOff() {
      const turns: string[][] = [];
      for (let settle: Settlement[] = []; ;) {
        const { claims } = await desk.turn({ settle, room: ROOM });
        if (claims.length === 0) return turns;
        turns.push(claims.map(cursorOf).toSorted((a, b) => Number(a) - Number(b)));
        settle = claims.map(done);
      }
    },
  };
  return desk;
}

function tasksOf(events: StoredEvent[], handler: number, releaseAt: number): NewTask[] {
  return events.map(({ seq, sessionId, cursor }) => ({ event: seq, handler, lane: sessionId, cursor, releaseAt }));
}

function incoming(cursor: string | null, sessionId: string | null = 'a'): Incoming {
  const id = cursor === null ? `id-none-${++withoutCursor}` : `id-${cursor}`;
  const body = Buffer.from(JSON.stringify({ id, type: 'Thing', cursor, data: { Thing: { cursor } } }));
  return {
    origin: 'webhook',
    id,
    cursor: cursor as Cursor | null,
    type: 'Thing',
    sessionId,
    createdAt: null,
    body,
    flags: [],
  };
}

function event(cursor: string | null, sessionId: string | null = 'a'): Reading {
  return { event: incoming(cursor, sessionId) };
}

function unreadable(text: string): Reading {
  return { unreadable: { origin: 'webhook', cursor: null, body: Buffer.from(text), reason: 'not JSON' } };
}

function bodyOf(stored: StoredEvent | undefined): unknown {
  return JSON.parse(stored?.text ?? '');
}

function done(claim: Claim | undefined): Settlement {
  return { claim: present(claim), state: 'done', error: null };
}

function ended(claim: Claim, state: 'done' | 'skipped' | 'dead'): Settlement {
  return { claim, state, error: state === 'done' ? null : 'because' };
}

function failed(claim: Claim | undefined, { dueAt, holdMs }: { dueAt: number; holdMs: number }): Settlement {
  return { claim: present(claim), state: 'ready', error: 'Error: no', dueAt, holdMs };
}

function present<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('expected a claim');
  return value;
}

function cursorOf(claim: Claim): string {
  return String(claim.event.cursor);
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, i) => first + i);
}

async function query<Result>(
  store: Store,
  work: (tx: Parameters<Parameters<Store['setup']>[0]>[0]) => Result,
): Promise<Result> {
  let result: { value: Result } | undefined;
  await store.setup((tx) => void (result = { value: work(tx) }));
  return present(result).value;
}

/** Figures come from counters; whatever happened, they are what counting would give. */
async function expectCountersToEqualRows(store: Store): Promise<void> {
  const rows = await query(store, (tx) => ({
    tasks: tx.all(`
      select case when state = 'ready' and id in (select task from claims) then 'running' else state end as state,
        count(*) as n from tasks group by 1`),
    events: tx.get('select count(*) as n from events')?.['n'],
    quarantined: tx.get('select count(*) as n from quarantine')?.['n'],
  }));
  const { tasks, events, quarantined } = await store.status(T0);
  const { held, ready, running, done: finished, skipped, dead } = tasks;
  const none = { ready: 0, running: 0, done: 0, skipped: 0, dead: 0 };
  const counted = { ready: held + ready, running, done: finished, skipped, dead };
  expect(counted).toEqual({ ...none, ...Object.fromEntries(rows.tasks.map(({ state, n }) => [String(state), n])) });
  expect({ events, quarantined }).toEqual({ events: rows.events, quarantined: rows.quarantined });
}

/** Random arrivals, failures and crashes, from a seed, until every task has ended. */
async function storm(desk: Desk, random: () => number): Promise<void> {
  const { store } = desk;
  const EVENTS = 80;
  const HOLD_MS = 3_000;
  /** The store's own, for a task that ended its process. */
  const CRASH_HOLD_MS = 120_000;
  const pick = <Value>(values: readonly Value[]): Value => present(values[Math.floor(random() * values.length)]);
  const arrivals = shuffle(range(1, EVENTS), random);
  let boots = 1;
  let running: Claim[] = [];
  let suspect: Claim | undefined;
  let lost: Claim[] = [];
  /** By cursor: the tasks that have not ended, and from when on each may have stepped aside. */
  const waiting = new Map<bigint, { lane: string; asideAt: number }>();
  const ends = new Map<number, number>();
  const finished = new Map<string, bigint>();

  const atWork = (): Claim[] => (suspect ? [...running, suspect] : running);

  async function arrive(): Promise<void> {
    const lane = pick(['a', 'b', 'c', 'd', null]);
    const cursors = arrivals.splice(0, 1 + Math.floor(random() * 6));
    await desk.arrive(lane, cursors, desk.now + pick([0, 250]));
    if (lane !== null) for (const cursor of cursors) waiting.set(BigInt(cursor), { lane, asideAt: Infinity });
  }

  function take(claim: Claim, inTurn: boolean): void {
    expect(ends.has(claim.task)).toBe(false);
    expect(atWork().some(({ task }) => task === claim.task)).toBe(false);
    const { sessionId: lane, cursor } = claim.event;
    if (claim.alone || lane === null) return;
    const beside = atWork().filter((one) => !one.alone && one.event.sessionId === lane);
    expect(beside).toEqual([]);
    expect(claim.late).toBe(BigInt(cursor ?? 0) < (finished.get(lane) ?? -1n));
    if (!inTurn) return;
    const inOrder = [...waiting].filter(([, known]) => known.lane === lane && known.asideAt > desk.now);
    const lower = inOrder.filter(([other]) => other < BigInt(cursor ?? 0));
    expect(lower.map(([other]) => other)).toEqual([]);
  }

  function holdsUntil({ event: { cursor } }: Claim, time: number): void {
    const known = waiting.get(BigInt(cursor ?? -1));
    if (known) known.asideAt = Math.min(known.asideAt, time);
  }

  function settlementOf(claim: Claim): Settlement {
    const chance = random();
    if (chance < 0.65) return done(claim);
    if (chance < 0.7) return ended(claim, 'skipped');
    if (chance < 0.75 || claim.attempt > 4) return ended(claim, 'dead');
    const dueAt = desk.now + Math.floor(random() * 2 * HOLD_MS);
    if (chance < 0.8) return { claim, state: 'ready', error: null, dueAt, holdMs: null, spent: false };
    holdsUntil(claim, desk.now + HOLD_MS);
    return failed(claim, { dueAt, holdMs: HOLD_MS });
  }

  function note({ claim, state }: Settlement): void {
    if (state === 'ready') return;
    ends.set(claim.task, (ends.get(claim.task) ?? 0) + 1);
    const cursor = BigInt(claim.event.cursor ?? -1);
    const known = waiting.get(cursor);
    if (!known) return;
    waiting.delete(cursor);
    const top = finished.get(known.lane) ?? -1n;
    // What stepped aside runs beside its lane, and may be overtaken while it is at work.
    if (cursor < top && !claim.alone) expect(claim.late).toBe(true);
    if (cursor > top) finished.set(known.lane, cursor);
  }

  async function turn(room: number): Promise<void> {
    const settling = running.filter(() => random() < 0.6);
    const settle = settling.map(settlementOf);
    running = running.filter((claim) => !settling.includes(claim));
    const { claims, fenced } = await desk.turn({ settle: [...settle, ...lost.map(done)], room });
    expect(fenced).toBe(lost.length);
    lost = [];
    for (const settlement of settle) note(settlement);
    for (const claim of claims) {
      take(claim, true);
      running.push(claim);
    }
  }

  async function crash(): Promise<void> {
    const given = await store.giveBack(suspect ? [suspect.boot] : [], desk.now);
    expect(given).toBe(running.length);
    const [only, ...others] = running;
    if (only && others.length === 0) holdsUntil(only, desk.now + CRASH_HOLD_MS);
    lost = running;
    running = [];
    desk.boot = ++boots;
  }

  async function runSuspect(): Promise<void> {
    if (!suspect) {
      const claim = await store.claimSuspect(desk.now, ++boots, [desk.handler]);
      if (claim) take(claim, false);
      suspect = claim;
      return;
    }
    const claim = suspect;
    suspect = undefined;
    if (random() < 0.2 && claim.attempt < 4) {
      expect(await store.giveBack([desk.boot], desk.now)).toBe(1);
      holdsUntil(claim, desk.now + CRASH_HOLD_MS);
      return;
    }
    const settlement = settlementOf(claim);
    expect((await desk.turn({ settle: [settlement] })).fenced).toBe(0);
    note(settlement);
  }

  for (let step = 0; ends.size < EVENTS; step++) {
    if (step > 5_000) throw new Error(`${EVENTS - ends.size} tasks have not ended`);
    const chance = random();
    if (chance < 0.25) await arrive();
    else if (chance < 0.75) await turn(1 + Math.floor(random() * 6));
    else if (chance < 0.8) await crash();
    else if (chance < 0.9) await runSuspect();
    else desk.now += Math.floor(random() * 2_000);
  }
  expect([...ends.values()].every((times) => times === 1)).toBe(true);
  const { held, ready, running: left } = (await store.status(desk.now)).tasks;
  expect([held, ready, left]).toEqual([0, 0, 0]);
}

/** A small generator of numbers from 0 to 1, so that a failing seed fails again. */
function seeded(seed: number): () => number {
  let state = seed * 0x9e3779b9;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffle<Value>(values: Value[], random: () => number): Value[] {
  return values
    .map((value) => ({ value, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
