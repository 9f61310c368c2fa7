// The pruner on a real store file: what goes, what stays, and in how small steps.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createPruner } from '../../src/keep/prune.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { fields } from './replay-server.ts';
import { createClock, createStoreFile, type StoreFile, type TestClock } from './rig.ts';

const DAY_MS = 86_400_000;
const MOST_IN_A_STEP = 200;

let file: StoreFile;
let clock: TestClock;
beforeEach(() => {
  file = createStoreFile();
  clock = createClock();
});
afterEach(() => file.remove());

function delivery(cursor: number) {
  const data = { MessageReceived: fields(cursor, { timestamp_unix_ms: clock.time }) };
  const body = {
    id: `e${cursor}`,
    type: 'MessageReceived',
    created_at: new Date(clock.time).toISOString(),
    cursor: String(cursor),
    session_id: null,
    data,
  };
  return readDelivery(Buffer.from(JSON.stringify(body)));
}

/** Accepted now, and no task wanted unless said otherwise. */
async function accept(cursors: number[], { assign = true } = {}): Promise<void> {
  const { store } = file;
  await store.accept({ readings: cursors.map(delivery), now: clock.time });
  if (!assign) return;
  const { from, events } = await store.unassigned(10_000);
  await store.turn({
    now: clock.time,
    boot: 1,
    settle: [],
    assign: { from, upTo: events.at(-1)?.seq ?? from, tasks: [] },
    room: 0,
    handlers: [],
  });
}

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);
const count = (where = 'true') => file.query<{ n: number }>(`select count(*) as n from events where ${where}`)[0]?.n;

/** Steps until it rests; how many rows each step changed. */
async function runPruner(retentionDays: number, payloadDays: number): Promise<number[]> {
  const pruner = createPruner({ store: file.store, clock, retentionDays, payloadDays });
  const changed: number[] = [];
  for (let steps = 0; steps < 1_000; steps++) {
    const before = [count(), count('body is not null')];
    const delay = await pruner.step();
    const after = [count(), count('body is not null')];
    changed.push(Math.max(...before.map((n, i) => (n ?? 0) - (after[i] ?? 0))));
    if (delay >= 60_000) return changed;
  }
  throw new Error('it never rests');
}

test('what is older than its retention goes, what is younger stays, and the floor says how far', async () => {
  await accept(range(1, 10));
  clock.time += 31 * DAY_MS;
  await accept(range(11, 15));
  await runPruner(30, 30);
  expect(count()).toBe(5);
  const status = await file.store.status(clock.time);
  expect(status).toMatchObject({ floor: '10', events: 5 });
});

test('a step removes so few that no delivery waits for it, and steps follow until all is gone', async () => {
  await accept(range(1, 1_001));
  clock.time += 31 * DAY_MS;
  const changed = await runPruner(30, 30);
  expect(Math.max(...changed)).toBeLessThanOrEqual(MOST_IN_A_STEP);
  expect(count(), 'the newest row stays, so that its number is not given again').toBe(1);
});

test('events that no task was made of yet stay, however old', async () => {
  await accept(range(1, 3));
  await accept(range(4, 8), { assign: false });
  clock.time += 31 * DAY_MS;
  await runPruner(30, 30);
  expect(count()).toBe(5);
});

test('events with an unfinished task stay, dead letters too', async () => {
  const { store } = file;
  const handler = (await store.register(['keeper'])).get('keeper') ?? 0;
  await accept(range(1, 3), { assign: false });
  const { from, events } = await store.unassigned(10);
  const tasks = events
    .slice(0, 2)
    .map(({ seq, cursor }) => ({ event: seq, handler, lane: null, cursor, releaseAt: clock.time }));
  const turn = { now: clock.time, boot: 1, handlers: [handler] };
  const { claims } = await store.turn({
    ...turn,
    settle: [],
    assign: { from, upTo: events.at(-1)?.seq ?? 0, tasks },
    room: 1,
  });
  await store.turn({
    ...turn,
    settle: claims.map((claim) => ({ claim, state: 'dead', error: 'x' })),
    assign: null,
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

test('bodies go before their rows where PAYLOAD_RETENTION_DAYS says so, in small steps as well', async () => {
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
  expect(await file.store.accept({ readings: [again], now: clock.time })).toEqual([{ verdict: 'duplicate' }]);
});

test('after a rest it begins anew, and finds what has grown old meanwhile', async () => {
  await accept(range(1, 3));
  const pruner = createPruner({ store: file.store, clock, retentionDays: 30, payloadDays: 30 });
  const rest = async (): Promise<void> => {
    while ((await pruner.step()) < 60_000);
  };
  await rest();
  expect(count()).toBe(3);
  clock.time += 31 * DAY_MS;
  await accept([4]);
  await rest();
  expect(count()).toBe(1);
});

test('quarantine goes with its retention', async () => {
  const unreadable = { origin: 'replay' as const, cursor: '1' as Cursor, body: Buffer.from('?'), reason: 'not JSON' };
  await file.store.accept({ readings: [{ unreadable }], now: clock.time });
  clock.time += 29 * DAY_MS;
  await runPruner(30, 30);
  expect((await file.store.status(clock.time)).quarantined).toBe(1);
  clock.time += 2 * DAY_MS;
  await runPruner(30, 30);
  expect((await file.store.status(clock.time)).quarantined).toBe(0);
});
