// E4: events from before the store was created are history, and later events are not. The order of arrival makes no
// difference.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { placeOf, type Birth, type Place } from '../../src/store/birth.ts';
import { startRunner, type Runner } from '../../src/run/runner.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery, readItem, type Reading } from '../../src/wire/event.ts';
import { createClock, createStoreFile, createTestLog, type StoreFile, type TestClock } from '../store-file.ts';
import { handlerOf, until, noService } from '../run/fixture.ts';

const BORN = Date.UTC(2026, 0, 1);
const HOUR = 3_600_000;
const cursor = (n: number): Cursor => String(n) as Cursor;

describe('E4: the rule', () => {
  const open: Birth = { at: BORN, reading: 'open', end: null, older: cursor(10), younger: cursor(20) };
  const bare = { origin: 'replay', createdAt: null } as const;
  test.each<[string, Parameters<typeof placeOf>[0], Birth, Place]>([
    ['a webhook is never history', { origin: 'webhook', cursor: cursor(1), createdAt: BORN - 1 }, open, 'new'],
    [
      'an event that a live stream brings as it happens is never history',
      { origin: 'stream', cursor: cursor(1), createdAt: BORN - 1, live: 1 },
      open,
      'new',
    ],
    ['an event of the kit is never history', { origin: 'kit', cursor: null, createdAt: BORN - 1 }, open, 'new'],
    [
      'a time before the creation of the store',
      { origin: 'stream', cursor: cursor(30), createdAt: BORN - 1 },
      open,
      'history',
    ],
    ['the very time of the creation', { origin: 'replay', cursor: cursor(1), createdAt: BORN }, open, 'new'],
    ['no time, at or below an event from before the creation', { ...bare, cursor: cursor(10) }, open, 'history'],
    ['no time, at or above an event from after the creation', { ...bare, cursor: cursor(20) }, open, 'new'],
    [
      'no time, between an event from before and one from after the creation',
      { ...bare, cursor: cursor(15) },
      open,
      'undecided',
    ],
    [
      'no time, between an event from before and one from after the creation, once history was read',
      { ...bare, cursor: cursor(15) },
      { ...open, reading: 'over' },
      'history',
    ],
    [
      'no time, above an event from after the creation, once history was read',
      { ...bare, cursor: cursor(25) },
      { ...open, reading: 'over' },
      'new',
    ],
    [
      'no time, above the end of the first catch-up',
      { ...bare, cursor: cursor(16) },
      { ...open, end: cursor(15) },
      'new',
    ],
    [
      'a time before the creation, but above the end of the first catch-up',
      { origin: 'replay', cursor: cursor(16), createdAt: BORN - 1 },
      { ...open, end: cursor(15) },
      'new',
    ],
    [
      'no time, and nobody asked for history',
      { ...bare, cursor: cursor(5) },
      { ...open, reading: 'none', younger: null },
      'new',
    ],
    [
      'no time, below the cursor at which replay begins, read at the request of a person',
      { ...bare, cursor: cursor(5) },
      { ...open, reading: 'none', younger: null, end: cursor(9) },
      'history',
    ],
    [
      'no time, between an event from after the creation and a higher one from before it: handled rather than lost',
      { ...bare, cursor: cursor(9) },
      { ...open, younger: cursor(8) },
      'new',
    ],
  ])('%s', (_, event, birth, place) => {
    expect(placeOf(event, birth)).toBe(place);
  });
});

describe('E4: events of replay', () => {
  let file: StoreFile;
  let clock: TestClock;
  let runner: Runner;
  let handled: string[];
  let historic: string[];

  beforeEach(async () => {
    file = createStoreFile();
    clock = createClock();
    file.exec(`update state set value = ${clock.time} where name = 'born'`);
    handled = [];
    historic = [];
    await file.store.replay.openHistory();
    await start();
  });

  /** `broken`: the file of the handler `plain` cannot be loaded. */
  async function start(broken = false): Promise<void> {
    const plain = handlerOf({
      name: 'plain',
      order: 'arrival',
      handle: (event) => void handled.push(String(event.cursor)),
    });
    const all = handlerOf({
      name: 'all',
      order: 'arrival',
      history: true,
      handle: (event) => void historic.push(event.key),
    });
    runner = await startRunner({
      store: file.store.work,
      handlers: broken ? [all] : [plain, all],
      files: broken ? { of: new Map(), broken: ['/plain.ts'] } : { of: new Map([['plain', '/plain.ts']]), broken: [] },
      serviceFor: noService,
      clock,
      log: createTestLog().log,
      boot: 1,
      concurrency: 32,
      windowMs: 250,
    });
  }

  const prune = () =>
    file.store.keep.prune({
      now: clock.time,
      before: clock.time + HOUR,
      settled: Infinity,
      after: null,
      limit: 10,
    });

  async function restart(broken = false): Promise<void> {
    await runner.drain(0);
    await start(broken);
  }

  afterEach(async () => {
    await runner.drain(0);
    file.remove();
  });

  function item(at: number, time?: number): Reading {
    const data = { session_id: 's', ...(time !== undefined && { timestamp_unix_ms: time }) };
    return readItem('replay', cursor(at), JSON.stringify({ Thing: data }));
  }

  function webhook(at: number, time: number | null, data: object = {}): Reading {
    const created_at = time === null ? undefined : new Date(time).toISOString();
    const body = { id: `e${at}`, type: 'Thing', cursor: String(at), created_at, data: { Thing: data } };
    return readDelivery(Buffer.from(JSON.stringify(body)));
  }

  async function accept(...readings: Reading[]): Promise<void> {
    await file.store.ingest.accept({ readings, now: clock.time });
    await rest();
  }

  async function rest(): Promise<void> {
    runner.wake();
    await until(async () => {
      runner.wake();
      const { unassigned, tasks } = await file.store.read.status(clock.time);
      return unassigned === 0 && tasks.ready === 0 && tasks.running === 0;
    }, 'the runner to rest');
  }

  const undecided = async (): Promise<number> => (await file.store.read.status(clock.time)).undecided;
  const become = (expected: number): Promise<void> => until(async () => (await undecided()) === expected, 'decisions');

  test('wait during the first catch-up, if they have no time, until a neighbour from after the creation of the store is known', async () => {
    await accept(item(1, clock.time - HOUR), item(2), item(3), item(4, clock.time - HOUR), item(5), item(6), item(7));
    expect(handled).toEqual([]);
    expect(await undecided()).toBe(3);
    await accept(webhook(6, clock.time + 1));
    await become(1);
    await rest();
    expect(handled.toSorted()).toEqual(['6', '7']);
    expect(historic.toSorted()).toEqual(['c:1', 'c:2', 'c:3', 'c:4', 'c:5', 'c:6', 'c:7']);
    await file.store.replay.endHistory(cursor(7));
    await file.store.replay.closeHistory();
    await become(0);
    expect(handled.toSorted(), 'undecided to the end is history').toEqual(['6', '7']);
  });

  test('get their tasks when a webhook brings a time after the creation of the store, however late it arrives', async () => {
    await accept(item(1), item(2), item(3));
    await file.store.replay.endHistory(cursor(3));
    await file.store.replay.closeHistory();
    await become(0);
    expect(handled).toEqual([]);
    await accept(webhook(2, clock.time + 1));
    await until(() => Promise.resolve(handled.length > 0), 'its task');
    expect(handled).toEqual(['2']);
    await accept(webhook(2, clock.time + 1), webhook(1, clock.time - HOUR));
    expect(handled, 'once, and not what is older').toEqual(['2']);
  });

  test('get their tasks also if the webhook that brings their time arrives while a turn is being planned', async () => {
    await runner.drain(0);
    const { store } = file;
    await store.ingest.accept({ readings: [item(1)], now: clock.time });
    const { from, events } = await store.work.pending(10);
    await store.ingest.accept({ readings: [webhook(1, clock.time + 1)], now: clock.time });
    const turn = { now: clock.time, boot: 2, settle: [], room: 1, handlers: [1] };
    await store.work.turn({ ...turn, fanOut: { from, upTo: events.at(-1)?.seq ?? from, tasks: [] } });
    expect((await store.work.pending(10)).decided).toMatchObject([{ key: 'c:1' }]);
  });

  test('get their tasks if the envelope of a webhook has a time after the creation, even if its data has an earlier one', async () => {
    const old = { timestamp_unix_ms: clock.time - HOUR };
    await accept(item(5, clock.time - HOUR));
    expect(handled).toEqual([]);
    await accept(webhook(5, clock.time + 1, { session_id: 's', ...old }));
    await until(() => Promise.resolve(handled.length > 0), 'its task');
    expect(handled).toEqual(['5']);
  });

  test('are handled if they are above the end of the first catch-up, even without a time and without a webhook', async () => {
    await accept(item(1), item(2));
    await file.store.replay.endHistory(cursor(2));
    await accept(item(3));
    expect(handled).toEqual(['3']);
  });

  test.each(['when the end becomes known', 'when its webhook comes after that'])(
    'above the end of history are handled %s',
    async (when) => {
      await accept(item(1), item(101));
      expect(await undecided()).toBe(2);
      if (when !== 'when the end becomes known') await runner.drain(0);
      await file.store.replay.endHistory(cursor(50));
      if (when !== 'when the end becomes known') {
        await file.store.ingest.accept({ readings: [webhook(101, clock.time + 1)], now: clock.time });
        await file.store.replay.closeHistory();
        await start();
      }
      await until(() => Promise.resolve(handled.length > 0), 'its task');
      await file.store.replay.closeHistory();
      await become(0);
      expect(handled).toEqual(['101']);
    },
  );

  describe('an event that turns out not to be history', () => {
    const missed = 700;
    const arrive = (from: number): Promise<void> =>
      accept(...Array.from({ length: missed }, (_, n) => webhook(from + n, clock.time + 1)));

    test('while the file of a handler is broken, reaches the handler once, when it is back', async () => {
      await accept(item(1), item(2));
      await restart(true);
      await accept(item(3));
      await accept(webhook(2, clock.time + 1), webhook(3, clock.time + 1));
      await until(async () => (await undecided()) === 1, 'decisions');
      // 700 missed events are more than one page, so the handler does not catch up in one turn.
      await arrive(10_000);
      await file.store.replay.endHistory(cursor(3));
      await file.store.replay.closeHistory();
      await become(0);
      await prune();
      await restart();
      await rest();
      await until(async () => (await file.store.work.behind()).size === 0, 'the handler to catch up');
      await rest();
      expect(handled.filter((at) => Number(at) < 10_000).toSorted()).toEqual(['2', '3']);
      expect(new Set(handled).size).toBe(handled.length);
      expect(handled.length).toBe(missed + 2);
      expect((await file.store.read.counters())['undecided'] ?? 0).toBe(0);
    });

    test('before it became a task, reaches a handler that catches up', async () => {
      await restart(true);
      await arrive(10_000);
      await runner.drain(0);
      // While `run` is down, replay brings the event as history. Then its webhook shows that the event is new.
      await file.store.ingest.accept({ readings: [item(20_000, clock.time - HOUR)], now: clock.time });
      await file.store.ingest.accept({ readings: [webhook(20_000, clock.time + 1)], now: clock.time });
      await start();
      await until(async () => (await file.store.work.behind()).size === 0, 'the handler to catch up');
      await rest();
      expect(handled).toContain('20000');
      expect(handled).toHaveLength(missed + 1);
    });

    test('while a handler catches up, reaches that handler too', async () => {
      await accept(item(1));
      await restart(true);
      await arrive(10_000);
      await runner.drain(0);
      const ids = await file.store.work.register(['plain', 'all'], {
        of: new Map([['plain', '/plain.ts']]),
        broken: [],
      });
      const handler = ids.get('plain') ?? 0;
      await file.store.ingest.accept({ readings: [webhook(1, clock.time + 1)], now: clock.time });
      const { from, decided } = await file.store.work.pending(1_000);
      const waits = (await file.store.work.behind()).get(handler) ?? 0;
      expect(decided).toHaveLength(1);
      const task = { event: decided[0]?.seq ?? 0, handler, lane: null, cursor: cursor(1), releaseAt: clock.time };
      const { behind } = await file.store.work.turn({
        now: clock.time,
        boot: 2,
        settle: [],
        fanOut: { from, upTo: from, tasks: [task], decided: [task.event] },
        missed: { handler, from: waits, upTo: waits + 256, joins: false, tasks: [] },
        room: 0,
        handlers: [handler],
      });
      expect(behind).toBe(waits + 256);
      expect(
        (await file.store.read.event('c:1', clock.time))?.tasks.filter((made) => made.handler === 'plain'),
      ).toHaveLength(1);
      await start();
    });
  });

  test('are not pruned while they are undecided, however long the catch-up takes', async () => {
    await accept(item(1), item(2), item(3));
    await file.store.ingest.accept({ readings: [], now: clock.time, watermark: cursor(3) });
    await prune();
    await accept(webhook(1, clock.time + 1));
    await become(0);
    await rest();
    expect(handled.toSorted()).toEqual(['1', '2', '3']);
  });

  test('are each handled once if many turn out not to be history at the same time', async () => {
    await accept(...Array.from({ length: 700 }, (_, n) => item(n + 1)));
    expect(await undecided()).toBe(700);
    await accept(webhook(1, clock.time + 1));
    await become(0);
    await rest();
    expect(handled.length).toBe(700);
    expect(new Set(handled).size).toBe(700);
  });
});
