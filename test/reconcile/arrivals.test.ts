// The figures that the store keeps about arrivals: the types that webhooks bring and miss, the events per week, and the
// origins of an event. Each event counts once, however often it arrives and from which origin.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createPruner } from '../../src/keep/prune.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery, readItem, type Reading } from '../../src/wire/event.ts';
import { fields } from './replay-server.ts';
import { confirmClock, createTestLog } from '../store-file.ts';
import { createClock, createStoreFile, START, type StoreFile, type TestClock } from './harness.ts';

const DAY_MS = 86_400_000;
let file: StoreFile;
let clock: TestClock;
beforeEach(() => {
  file = createStoreFile();
  clock = createClock();
});
afterEach(() => file.remove());

const data = (cursor: number, type: string, at: number) => ({ [type]: fields(cursor, { timestamp_unix_ms: at }) });

function webhook(
  cursor: number | null,
  { type = 'MessageReceived', at = START, id = `e${cursor}`, more = {} } = {},
): Reading {
  const body = {
    id,
    type,
    created_at: new Date(at).toISOString(),
    cursor: cursor === null ? null : String(cursor),
    session_id: null,
    webhook_id: 'w',
  };
  return readDelivery(Buffer.from(JSON.stringify({ ...body, data: { ...data(cursor ?? 0, type, at), ...more } })));
}
const shown = (origin: 'replay' | 'stream', cursor: number, { type = 'MessageReceived', at = START } = {}): Reading =>
  readItem(origin, String(cursor) as never, JSON.stringify(data(cursor, type, at)));
const accept = (readings: Reading[], fresh = false) => file.store.ingest.accept({ readings, now: clock.time, fresh });
const types = async () => (await file.store.replay.types()).toSorted((a, b) => (a.type < b.type ? -1 : 1));

describe('the types that webhooks bring', () => {
  test('a type is kept with the time of its last delivery, even if that is a duplicate', async () => {
    await accept([webhook(1), webhook(1), webhook(2, { type: 'MessageSent' })]);
    clock.time += 1_000;
    await accept([webhook(1)]);
    expect(await types()).toEqual([
      { type: 'MessageReceived', deliveredAt: START + 1_000, missed: 0, missedSince: null },
      { type: 'MessageSent', deliveredAt: START, missed: 0, missedSince: null },
    ]);
  });

  test('an event that replay or stream brings first counts as missed once, until a delivery of its type', async () => {
    await accept([shown('replay', 1), shown('replay', 2), shown('replay', 2)], true);
    clock.time += 1_000;
    await accept([shown('stream', 2), shown('stream', 3)], true);
    expect(await types()).toEqual([{ type: 'MessageReceived', deliveredAt: null, missed: 3, missedSince: START }]);
    await accept([webhook(2)]);
    expect(await types()).toMatchObject([{ deliveredAt: START + 1_000, missed: 0, missedSince: null }]);
  });

  test('history, and events that a webhook brought before, do not count as missed', async () => {
    await accept([shown('replay', 1)]);
    await accept([webhook(2)]);
    await accept([shown('replay', 2)], true);
    expect(await types()).toMatchObject([{ missed: 0 }]);
  });

  test('a `webhook.ping` does not count as a delivery', async () => {
    await accept([webhook(null, { type: 'webhook.ping' })]);
    expect(await types()).toEqual([]);
  });

  test('a type may be named like a property of every object', async () => {
    await accept([webhook(1, { type: 'constructor' }), webhook(2, { type: 'toString' })]);
    expect((await types()).map(({ type }) => type)).toEqual(['constructor', 'toString']);
  });
});

describe('the weekly figures', () => {
  test('an event counts for the origin that brought it first, and never again', async () => {
    clock.time += 2_000;
    await accept([webhook(1), webhook(1), shown('replay', 2)]);
    clock.time += 4_000;
    await accept([shown('replay', 1), webhook(2), shown('stream', 2), shown('stream', 3), webhook(3)]);
    expect(await file.store.read.arrivals()).toEqual([
      { week: '2025-12-29', type: 'MessageReceived', origin: 'replay', events: 1, lateMs: 2_000, latestMs: 2_000 },
      { week: '2025-12-29', type: 'MessageReceived', origin: 'stream', events: 1, lateMs: 6_000, latestMs: 6_000 },
      { week: '2025-12-29', type: 'MessageReceived', origin: 'webhook', events: 1, lateMs: 2_000, latestMs: 2_000 },
    ]);
  });

  test('two different events with the same cursor count as two', async () => {
    await accept([webhook(1)]);
    await accept([webhook(1, { id: 'another', more: { MessageReceived: { other: true } } })]);
    expect(await file.store.read.arrivals()).toMatchObject([{ origin: 'webhook', events: 2 }]);
  });

  test('the delay of an event from the future is 0, and an event of unknown age has none', async () => {
    await accept([webhook(1, { at: START + DAY_MS })]);
    await accept([readItem('replay', '2' as never, '{"Novelty":{}}')]);
    expect(await file.store.read.arrivals()).toEqual([
      { week: '2025-12-29', type: 'MessageReceived', origin: 'webhook', events: 1, lateMs: 0, latestMs: 0 },
      { week: '2025-12-29', type: 'Novelty', origin: 'replay', events: 1, lateMs: null, latestMs: null },
    ]);
  });

  test('weeks begin on Monday, and the newest comes first', async () => {
    // START is 1 January 2026, a Thursday. The next Monday is four days later.
    for (const [cursor, days] of [
      [1, 3],
      [2, 4],
      [3, 10],
      [4, 11],
    ] as const) {
      clock.time = START + days * DAY_MS;
      await accept([webhook(cursor, { at: clock.time })]);
    }
    expect((await file.store.read.arrivals()).map(({ week, events }) => [week, events])).toEqual([
      ['2026-01-12', 1],
      ['2026-01-05', 2],
      ['2025-12-29', 1],
    ]);
  });
});

test('each further origin of an event is listed once, with its first time', async () => {
  await accept([webhook(1)]);
  clock.time += 1_000;
  await accept([shown('stream', 1), webhook(1)]);
  clock.time += 1_000;
  await accept([shown('replay', 1), shown('stream', 1)]);
  const found = await file.store.read.event('1', clock.time);
  expect(found?.event.origin).toBe('webhook');
  expect(found?.sightings).toEqual([
    { origin: 'stream', at: new Date(START + 1_000).toISOString() },
    { origin: 'replay', at: new Date(START + 2_000).toISOString() },
  ]);
});

test('if replay brought an event first, its webhook is listed as a further origin', async () => {
  await accept([shown('replay', 1)]);
  clock.time += 1_000;
  await accept([webhook(1)]);
  expect((await file.store.read.event('e1', clock.time))?.sightings).toEqual([
    { origin: 'webhook', at: new Date(START + 1_000).toISOString() },
  ]);
});

test('further origins are removed with their events, weekly figures after the retention', async () => {
  await accept([webhook(1), webhook(2)]);
  await accept([shown('replay', 1), shown('replay', 2)]);
  clock.time += 40 * DAY_MS;
  await accept([webhook(3, { at: clock.time })]);
  await accept([shown('replay', 3, { at: clock.time })]);
  const { from, events } = await file.store.work.pending(10);
  const fanOut = { from, upTo: events.at(-1)?.seq ?? from, tasks: [] };
  await file.store.work.turn({ now: clock.time, boot: 1, settle: [], fanOut, room: 0, handlers: [] });
  await file.store.ingest.accept({ readings: [], now: clock.time, watermark: '3' as Cursor });
  await confirmClock(file.store, clock.time);
  const { log } = createTestLog();
  const prune = createPruner({ store: file.store, clock, log, retentionDays: 30, payloadDays: 30 });
  for (let delay = 0; delay < 60_000;) delay = await prune();
  expect(file.query('select cast(cursor as text) as cursor from events')).toEqual([{ cursor: '3' }]);
  expect(file.query<{ n: number }>('select count(*) as n from seen_by_origin')).toEqual([{ n: 1 }]);
  expect(await file.store.read.arrivals()).toMatchObject([{ origin: 'webhook', events: 1 }]);
});
