// The pruner on a real store file: what it removes, what it keeps, and how small its steps are.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createPruner, markReceipt, settledUpTo } from '../../src/keep/prune.ts';
import type { Receipt, Receipts } from '../../src/store/keep.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery, readItem, type Reading } from '../../src/wire/event.ts';
import { fields } from '../reconcile/replay-server.ts';
import {
  confirmClock,
  createClock,
  createStoreFile,
  createTestLog,
  type StoreFile,
  type TestClock,
} from '../store-file.ts';

const DAY_MS = 86_400_000;
const MOST_IN_A_STEP = 200;

let file: StoreFile;
let clock: TestClock;
beforeEach(() => {
  file = createStoreFile();
  clock = createClock();
});
afterEach(() => file.remove());

function delivery(cursor: number): Reading {
  return deliveryAt(String(cursor));
}

function deliveryAt(cursor: string, id = `e${cursor}`): Reading {
  const data = { MessageReceived: fields(cursor, { timestamp_unix_ms: clock.time }) };
  const body = {
    id,
    type: 'MessageReceived',
    created_at: new Date(clock.time).toISOString(),
    cursor,
    session_id: null,
    data,
  };
  return readDelivery(Buffer.from(JSON.stringify(body)));
}

/** Accepts events now. By default they are at or below the watermark, and fanned out without tasks. */
async function accept(cursors: number[], { fanOut = true, passed = true } = {}): Promise<void> {
  const { store } = file;
  const watermark = passed ? { watermark: String(Math.max(...cursors)) as Cursor } : {};
  await store.ingest.accept({ readings: cursors.map(delivery), now: clock.time, ...watermark });
  if (!fanOut) return;
  await assignAll();
}

async function assignAll(): Promise<void> {
  const { from, events } = await file.store.work.pending(10_000);
  await file.store.work.turn({
    now: clock.time,
    boot: 1,
    settle: [],
    fanOut: { from, upTo: events.at(-1)?.seq ?? from, tasks: [] },
    room: 0,
    handlers: [],
  });
}

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);
const count = (where = 'true') => file.query<{ n: number }>(`select count(*) as n from events where ${where}`)[0]?.n;

const { log, text } = createTestLog();
const prunerOf = (retentionDays: number, payloadDays = retentionDays) =>
  createPruner({ store: file.store, clock, log, retentionDays, payloadDays });

/**
 * Runs the pruner until nothing is left to remove, after a good delivery has confirmed the clock. Returns how many rows
 * each step changed.
 */
async function runPruner(retentionDays: number, payloadDays: number): Promise<number[]> {
  await confirmClock(file.store, clock.time);
  const prune = prunerOf(retentionDays, payloadDays);
  const changed: number[] = [];
  for (let steps = 0; steps < 1_000; steps++) {
    const before = [count(), count('body is not null')];
    const delay = await prune();
    const after = [count(), count('body is not null')];
    changed.push(Math.max(...before.map((n, i) => (n ?? 0) - (after[i] ?? 0))));
    if (delay >= 60_000) return changed;
  }
  throw new Error('it never rests');
}

test('events older than the retention are removed, newer ones stay, and the floor is the last removed cursor', async () => {
  await accept(range(1, 10));
  clock.time += 31 * DAY_MS;
  await accept(range(11, 15));
  await runPruner(30, 30);
  expect(count()).toBe(5);
  const status = await file.store.read.status(clock.time);
  expect(status).toMatchObject({ floor: '10', events: 5 });
});

test('a step removes only a few events, and steps follow until all old events are removed', async () => {
  await accept(range(1, 1_001));
  clock.time += 31 * DAY_MS;
  const changed = await runPruner(30, 30);
  expect(Math.max(...changed)).toBeLessThanOrEqual(MOST_IN_A_STEP);
  expect(count(), 'the newest row stays, so that its number is not given again').toBe(1);
});

test('events that were not fanned out stay, whatever their age', async () => {
  await accept(range(1, 3));
  await accept(range(4, 8), { fanOut: false });
  clock.time += 31 * DAY_MS;
  await runPruner(30, 30);
  expect(count()).toBe(5);
});

test('events with an unfinished task or a dead letter stay', async () => {
  const { store } = file;
  const handler = (await store.work.register(['keeper'])).get('keeper') ?? 0;
  await accept(range(1, 3), { fanOut: false });
  const { from, events } = await store.work.pending(10);
  const tasks = events
    .slice(0, 2)
    .map(({ seq, cursor }) => ({ event: seq, handler, lane: null, cursor, releaseAt: clock.time }));
  const turn = { now: clock.time, boot: 1, handlers: [handler] };
  const { claims } = await store.work.turn({
    ...turn,
    settle: [],
    fanOut: { from, upTo: events.at(-1)?.seq ?? 0, tasks },
    room: 1,
  });
  await store.work.turn({
    ...turn,
    settle: claims.map((claim) => ({ claim, state: 'dead', error: 'x' })),
    fanOut: null,
    room: 0,
  });
  await accept([4]);
  clock.time += 31 * DAY_MS;
  await accept([5]);
  await runPruner(30, 30);
  expect(file.query('select cast(cursor as text) as cursor from events order by seq')).toEqual([
    { cursor: '1' },
    { cursor: '2' },
    { cursor: '5' },
  ]);
});

test('bodies are removed before their rows if PAYLOAD_RETENTION_DAYS is lower, also in small steps', async () => {
  await accept(range(1, 500));
  clock.time += 8 * DAY_MS;
  await accept(range(501, 510));
  const changed = await runPruner(30, 7);
  expect(count()).toBe(510);
  expect(count('body is null')).toBe(500);
  expect(Math.max(...changed)).toBeLessThanOrEqual(MOST_IN_A_STEP);
});

test('a duplicate of a purged event is still a duplicate', async () => {
  await accept([1, 2]);
  clock.time += 8 * DAY_MS;
  await accept([3]);
  await runPruner(30, 7);
  clock.time -= 8 * DAY_MS;
  const again = delivery(1);
  clock.time += 8 * DAY_MS;
  expect(await file.store.ingest.accept({ readings: [again], now: clock.time })).toEqual([{ verdict: 'duplicate' }]);
});

test('after a pause the pruner starts again, and finds events that have become old meanwhile', async () => {
  await accept(range(1, 3));
  const prune = prunerOf(30);
  const rest = async (): Promise<void> => {
    while ((await prune()) < 60_000);
  };
  await rest();
  expect(count()).toBe(3);
  clock.time += 31 * DAY_MS;
  await accept([4]);
  await rest();
  expect(count()).toBe(1);
});

test('quarantined bytes are removed after the retention', async () => {
  const unreadable = { origin: 'replay' as const, cursor: '1' as Cursor, body: Buffer.from('?'), reason: 'not JSON' };
  await file.store.ingest.accept({ readings: [{ unreadable }], now: clock.time });
  clock.time += 29 * DAY_MS;
  await runPruner(30, 30);
  expect((await file.store.read.status(clock.time)).quarantined).toBe(1);
  clock.time += 2 * DAY_MS;
  await runPruner(30, 30);
  expect((await file.store.read.status(clock.time)).quarantined).toBe(0);
});

/** An event as replay shows it, without an id. `at`: the event's own time. Null: it has none. */
function item(cursor: number | string, at: number | null): Reading {
  const data = { MessageReceived: fields(cursor, { timestamp_unix_ms: at }) };
  return readItem('replay', String(cursor) as Cursor, JSON.stringify(data));
}

async function verdicts(...readings: Reading[]): Promise<string[]> {
  const all = await file.store.ingest.accept({ readings, now: clock.time });
  return all.map(({ verdict, pruned }) => (pruned ? 'pruned' : verdict));
}

describe('E1: a pruned event is still known', () => {
  test.each([
    ['raised', 7, 30],
    ['lowered', 30, 7],
  ])(
    'if the retention is %s and replay shows the event again, with or without a time of its own',
    async (_, first, then) => {
      const at = clock.time;
      await accept(range(1, 5));
      clock.time += 31 * DAY_MS;
      await accept([6]);
      await runPruner(first, first);
      await runPruner(then, then);
      expect(count()).toBe(1);
      expect(await verdicts(item(3, at), item(4, null), item(5, at), delivery(2))).toEqual([
        'pruned',
        'pruned',
        'pruned',
        'new',
      ]);
      expect(await file.store.read.counters()).toMatchObject({ regressions: 1 });
    },
  );

  test('if the clock of the service is ahead: only the floor decides about an event with a future time', async () => {
    const ahead = clock.time + 60 * DAY_MS;
    await file.store.ingest.accept({ readings: [item(1, ahead)], now: clock.time, watermark: '1' as Cursor });
    clock.time += 31 * DAY_MS;
    await accept([2]);
    await runPruner(30, 30);
    expect(count()).toBe(1);
    expect(await verdicts(item(1, ahead), item(1, clock.time + 1))).toEqual(['pruned', 'pruned']);
    clock.time += 60 * DAY_MS;
    expect(await verdicts(item(1, ahead)), 'nor when our clock has come past it').toEqual(['pruned']);
  });

  test('if our clock was years behind at receipt, and was then set', async () => {
    const at = clock.time;
    clock.time -= 800 * DAY_MS;
    await file.store.ingest.accept({ readings: [item(1, at)], now: clock.time, watermark: '2' as Cursor });
    await assignAll();
    clock.time = at;
    await accept([2]);
    await runPruner(30, 30);
    expect(count('cursor = 1')).toBe(0);
    expect(await verdicts(item(1, at))).toEqual(['pruned']);
  });

  test('if the clock of the service is behind ours', async () => {
    const behind = clock.time - 60 * DAY_MS;
    await file.store.ingest.accept({ readings: [item(1, behind)], now: clock.time, watermark: '1' as Cursor });
    clock.time += 31 * DAY_MS;
    await accept([2]);
    await runPruner(30, 30);
    expect(await verdicts(item(1, behind))).toEqual(['pruned']);
  });

  test('if there was no API key, and with a new key replay reads the whole history', async () => {
    await accept(range(1, 5), { passed: false });
    clock.time += 31 * DAY_MS;
    await accept([6, 7], { passed: false });
    const { store } = file;
    for (let after: Receipt | null = null; ;) {
      const step = { now: clock.time, before: clock.time - DAY_MS, settled: Infinity, after, limit: 2 };
      ({ next: after } = await store.keep.prune(step));
      if (after === null) break;
    }
    expect(count()).toBe(2);
    expect((await store.read.status(clock.time)).floor, 'a store without a watermark has no floor').toBe(null);
    const page = range(1, 7).map((cursor) => item(cursor, null));
    const read = await store.ingest.accept({ readings: page, now: clock.time, watermark: '7' as Cursor });
    expect(read.map(({ verdict, pruned = false }) => [verdict, pruned])).toEqual([
      ...Array(5).fill(['duplicate', true]),
      ...Array(2).fill(['duplicate', false]),
    ]);
  });
});

describe('E2: a single odd cursor', () => {
  const FAR = String(2n ** 62n);

  test('above the watermark keeps its row without its body, and does not raise the floor', async () => {
    await accept(range(1, 3));
    await file.store.ingest.accept({ readings: [deliveryAt(FAR)], now: clock.time });
    await assignAll();
    clock.time += 31 * DAY_MS;
    await accept([4]);
    await runPruner(30, 30);
    expect((await file.store.read.status(clock.time)).floor).toBe('3');
    expect(file.query('select cast(cursor as text) as cursor, body from events where cursor > 4')).toEqual([
      { cursor: FAR, body: null },
    ]);
    expect(await verdicts(item(5, null), item(FAR, null))).toEqual(['new', 'duplicate']);
  });

  test('that replay itself shows raises the watermark, but not the floor', async () => {
    await accept(range(1, 3));
    await file.store.ingest.accept({ readings: [item(FAR, null)], now: clock.time, watermark: FAR as Cursor });
    await assignAll();
    clock.time += 31 * DAY_MS;
    await accept([4], { passed: false });
    await runPruner(30, 30);
    expect((await file.store.read.status(clock.time)).floor).toBe('3');
    expect(await verdicts(delivery(5), item(FAR, null))).toEqual(['new', 'duplicate']);
  });

  test('as an alias of an event does not raise the floor either', async () => {
    await file.store.ingest.accept({ readings: [delivery(1)], now: clock.time, watermark: '1' as Cursor });
    await file.store.ingest.accept({ readings: [deliveryAt(FAR, 'e1')], now: clock.time });
    await assignAll();
    clock.time += 31 * DAY_MS;
    await accept([2]);
    await runPruner(30, 30);
    expect((await file.store.read.status(clock.time)).floor).toBe(null);
    expect(await verdicts(item(1, null), item(FAR, null), item(3, null))).toEqual(['duplicate', 'duplicate', 'new']);
  });

  test('does not raise the floor that pruning prepares while there is no watermark', async () => {
    await accept(range(1, 3), { passed: false });
    await file.store.ingest.accept({ readings: [deliveryAt(FAR)], now: clock.time });
    await assignAll();
    clock.time += 31 * DAY_MS;
    await accept(range(4, 9), { passed: false });
    await file.store.keep.prune({
      now: clock.time,
      before: clock.time - DAY_MS,
      settled: Infinity,
      after: null,
      limit: 100,
    });
    await file.store.ingest.accept({ readings: [], now: clock.time, watermark: '8' as Cursor });
    expect((await file.store.read.status(clock.time)).floor).toBe('3');
  });

  test('E51: of an alias at or below the watermark raises the floor', async () => {
    await file.store.ingest.accept({ readings: [delivery(1)], now: clock.time, watermark: '9' as Cursor });
    await file.store.ingest.accept({ readings: [deliveryAt('7', 'e1')], now: clock.time });
    await assignAll();
    clock.time += 31 * DAY_MS;
    await accept([20]);
    await runPruner(30, 30);
    expect((await file.store.read.status(clock.time)).floor).toBe('7');
    expect(await verdicts(item(7, null))).toEqual(['pruned']);
  });
});

test('E3: an event that webhooks missed while the API key was refused is new, however late replay fetches it', async () => {
  await accept(range(1, 3));
  const at = clock.time + 1_000;
  await accept([5, 6], { passed: false });
  clock.time += 26 * 3_600_000;
  await accept([7], { passed: false });
  await runPruner(1, 1);
  expect(count('cursor < 3'), 'replay has passed them').toBe(0);
  expect(await verdicts(item(4, at), item(5, null), item(6, at))).toEqual(['new', 'duplicate', 'duplicate']);
});

describe('E6: when the clock steps, the pruner', () => {
  test('removes only events that are old by their own time of receipt', async () => {
    const now = clock.time;
    await accept([1]);
    clock.time = now - 40 * DAY_MS;
    await accept([2]);
    clock.time = now;
    await accept([3, 4]);
    await runPruner(30, 30);
    expect(file.query('select cast(cursor as text) as cursor from events order by seq')).toEqual([
      { cursor: '1' },
      { cursor: '3' },
      { cursor: '4' },
    ]);
  });

  test('keeps events that no watermark covers while the service may repeat them', async () => {
    await accept(range(1, 3), { passed: false });
    clock.time += 60 * DAY_MS;
    await runPruner(30, 30);
    clock.time -= 60 * DAY_MS;
    await runPruner(30, 30);
    expect(await verdicts(delivery(1), delivery(3))).toEqual(['duplicate', 'duplicate']);
  });

  test('removes events that no watermark covers once `keep` has run for as long as the service repeats deliveries', async () => {
    await accept(range(1, 3), { passed: false });
    const prune = prunerOf(1);
    const round = async (): Promise<void> => {
      while ((await prune()) < 60_000);
    };
    for (let hours = 0; hours < 40; hours++) {
      await round();
      clock.time += 3_600_000;
    }
    expect(count()).toBe(1);
  });
});

test('an event that was the newest eight hours of running time ago is no longer repeated; older marks are dropped', () => {
  const known: Receipts = { at: 0, ranMs: 0, marks: [] };
  const hour = 3_600_000;
  let receipts = known;
  for (let n = 0; n <= 9; n++) receipts = markReceipt(receipts, { at: n, ranMs: n === 0 ? 0 : hour, event: n * 10 });
  expect(settledUpTo(receipts)).toBe(10);
  expect(receipts.marks.length, 'older marks are dropped').toBeLessThanOrEqual(10);
});

describe('a clock that is wrong by days', () => {
  /** One pass of a pruner that has just been started. */
  async function pass(prune = prunerOf(30)): Promise<void> {
    while ((await prune()) < 60_000);
  }

  /** Ten events, of which the service has confirmed the time, and some of everything else that is removed by age. */
  async function live(): Promise<void> {
    await accept(range(1, 10));
    const unreadable = { origin: 'replay' as const, cursor: '1' as Cursor, body: Buffer.from('?'), reason: 'not JSON' };
    await file.store.ingest.accept({ readings: [{ unreadable }], now: clock.time });
    await file.store.read.sample(clock.time);
    await confirmClock(file.store, clock.time);
    await pass(prunerOf(30, 7));
  }

  async function holdsAll(): Promise<void> {
    expect([count(), count('body is not null')]).toEqual([10, 10]);
    expect(file.query('select 1 from arrivals')).toHaveLength(1);
    expect((await file.store.read.status(clock.time)).quarantined).toBe(1);
    expect(await file.store.read.samples(0, clock.time, 1)).toHaveLength(1);
  }

  test.each([40, 4_000])('by %d days at a start: nothing is removed, also not at the next starts', async (days) => {
    await live();
    clock.step(days * DAY_MS);
    for (let starts = 0; starts < 3; starts++) await pass(prunerOf(30, 7));
    await holdsAll();
    expect(text()).toContain(
      'the clock is more than a day ahead of the time that good deliveries and running time confirm',
    );
  });

  test('while the kit runs: nothing is removed, whether it jumps ahead or back and ahead', async () => {
    await live();
    const prune = prunerOf(30, 7);
    for (const days of [40, -80, 80]) {
      clock.step(days * DAY_MS);
      await pass(prune);
    }
    await holdsAll();
  });

  test('at the first start of all: the next good delivery corrects it', async () => {
    clock.step(400 * DAY_MS);
    await pass();
    clock.step(-400 * DAY_MS);
    await live();
    clock.step(40 * DAY_MS);
    await pass(prunerOf(30, 7));
    await holdsAll();
  });

  test('does not mark what is removed as older than it is: an event of today stays new', async () => {
    await file.store.ingest.accept({ readings: [item(9, null)], now: clock.time, watermark: '9' as Cursor });
    await assignAll();
    clock.time += 31 * DAY_MS;
    await accept([11]);
    await confirmClock(file.store, clock.time);
    clock.step(40 * DAY_MS);
    await pass();
    expect(count()).toBe(1);
    clock.step(-39 * DAY_MS);
    expect(await verdicts(item(5, clock.time))).toEqual(['new']);
  });

  test('a store of an older kit, which noted no such time, begins at its last note', async () => {
    await live();
    const { trusted: _, ...older } = (await file.store.state.get('receipts')) as Receipts;
    await file.store.state.note({}, { receipts: JSON.stringify(older) });
    clock.step(40 * DAY_MS);
    await pass(prunerOf(30, 7));
    await holdsAll();
  });
});

describe('a kit that was off for longer than the retention', () => {
  test('prunes as soon as a good delivery has confirmed the clock', async () => {
    await accept(range(1, 10));
    await confirmClock(file.store, clock.time);
    const rest = async (prune = prunerOf(30)): Promise<void> => {
      while ((await prune()) < 60_000);
    };
    await rest();
    clock.time += 40 * DAY_MS;
    await rest();
    expect(count()).toBe(10);
    await confirmClock(file.store, clock.time);
    await rest();
    expect(count()).toBe(1);
  });
});

test('what was removed is logged once an hour, with how many rows and bodies', async () => {
  const mine = createTestLog();
  const prune = createPruner({ store: file.store, clock, log: mine.log, retentionDays: 30, payloadDays: 7 });
  const pass = async (): Promise<void> => {
    while ((await prune()) < 60_000);
  };
  await accept(range(1, 5));
  await pass();
  expect(mine.text()).toBe('');
  clock.time += 8 * DAY_MS;
  await accept([6]);
  await pass();
  clock.time += 8 * DAY_MS;
  await accept([7]);
  await pass();
  clock.time += 15 * DAY_MS;
  await pass();
  const lines = mine
    .text()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines).toMatchObject([
    { level: 30, rows: 0, bodies: 5 },
    { level: 30, rows: 0, bodies: 1 },
    { level: 30, rows: 5, bodies: 0 },
  ]);
});
