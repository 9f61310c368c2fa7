// Deliveries from `trigger` and `doctor` say so in their signed body, and have no place in the service's history. They
// never replace a real event, and change no figure about the service.
import { expect, test } from 'vitest';
import { tasksOf } from '../../src/run/new-tasks.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery, readItem } from '../../src/wire/event.ts';
import { bodyOf, deliver, message, signed, startReceiver, T0, type Receiver } from './harness.ts';

const CURSORS = ['0', '1005', '9000000000000', String(2n ** 62n), String(2n ** 63n - 1n)];
const OURS = { sent_by: 'kit', id: 'trigger_1' };

const rowsOf = (receiver: Receiver): unknown[] =>
  receiver.query('select id, cast(cursor as text) as cursor, origin, flags from events order by seq');

function replayed(cursor: string) {
  return readItem('replay', cursor as Cursor, JSON.stringify({ MessageReceived: message() }));
}

test.each(CURSORS)(
  'E80: a delivery of the kit with cursor %s does not replace the real event that a webhook brings',
  async (cursor) => {
    const receiver = await startReceiver();
    for (let copy = 0; copy < 2; copy++) expect(await deliver(receiver.port, bodyOf({ ...OURS, cursor }))).toBe(204);
    expect(await receiver.status()).toMatchObject({ newestCursor: null, watermark: null, floor: null, duplicates: 1 });
    expect(await deliver(receiver.port, bodyOf({ id: 'evt_1', cursor }))).toBe(204);
    expect(await deliver(receiver.port, bodyOf({ id: 'evt_1', cursor }))).toBe(204);
    expect(rowsOf(receiver)).toEqual([
      { id: 'trigger_1', cursor: null, origin: 'webhook', flags: '' },
      { id: 'evt_1', cursor, origin: 'webhook', flags: '' },
    ]);
    expect(await receiver.status()).toMatchObject({ events: 2, duplicates: 2, conflicts: 0, newestCursor: cursor });
  },
);

test.each(CURSORS)(
  'E80: a delivery of the kit with cursor %s does not replace the real event that replay brings',
  async (cursor) => {
    const { port, store, ...receiver } = await startReceiver();
    expect(await deliver(port, bodyOf({ ...OURS, cursor }))).toBe(204);
    expect(await store.replay.anchors(T0 + 1)).toEqual({ lowest: null, older: null, young: expect.any(Boolean) });
    const [stored] = await store.ingest.accept({ readings: [replayed(cursor)], now: T0 });
    expect(stored).toEqual({ verdict: 'new' });
    expect(await deliver(port, bodyOf({ id: 'evt_1', cursor }))).toBe(204);
    const events = receiver.query('select id, cast(cursor as text) as cursor from events order by seq');
    expect(events).toEqual([
      { id: 'trigger_1', cursor: null },
      { id: 'evt_1', cursor },
    ]);
  },
);

test('E80: a delivery of the kit becomes one task, which is neither held nor strict', async () => {
  const { port, store } = await startReceiver();
  await deliver(port, bodyOf({ ...OURS, cursor: CURSORS[3] }));
  const found = await store.work.pending(10);
  const handler = { on: '*', order: 'strict', lane: 'conversation', history: false } as unknown as Loaded;
  const options = { handlers: new Map([[1, handler]]), windowMs: 250, now: T0, onLaneFault() {} };
  const tasks = found.events.flatMap((event) => tasksOf(event, found, options));
  expect(tasks).toMatchObject([{ handler: 1, cursor: null, releaseAt: T0 }]);
  expect(tasks[0]?.strict).toBeUndefined();
});

test.each(['42', 42, null, 'none', '-1', { a: 1 }, 0.5])(
  'E80: a cursor in the body of the kit (%j) is not the cursor of the event',
  (cursor) => {
    const reading = readDelivery(bodyOf({ ...OURS, cursor }));
    expect(reading).toMatchObject({ event: { id: 'trigger_1', cursor: null, flags: [], sentByKit: true } });
  },
);

test.each(['Kit', 'kit ', true, ['kit'], null, { kit: 1 }])('E80: %j in sent_by has no effect', (sent_by) => {
  const reading = readDelivery(bodyOf({ sent_by, cursor: '42' }));
  expect(reading).toMatchObject({ event: { cursor: '42' } });
  expect(reading).not.toHaveProperty('event.sentByKit');
});

test('E80: sent_by below the top level, or without a valid signature, does not mark a delivery of the kit', async () => {
  const receiver = await startReceiver();
  const inside = bodyOf({ cursor: '7', data: { MessageReceived: message({ sent_by: 'kit' }) } });
  expect(await deliver(receiver.port, inside)).toBe(204);
  const forged = bodyOf({ ...OURS, cursor: '8' });
  expect(await deliver(receiver.port, forged, signed(forged, undefined, 'whsec_of_a_stranger_who_guesses'))).toBe(401);
  expect(rowsOf(receiver)).toMatchObject([{ cursor: '7' }]);
  expect(await receiver.status()).toMatchObject({ failures: { badSignatures: 1 }, secrets: [{ hits: 1 }] });
});

test('E80: a delivery of the kit changes no figure about the service, even if it is refused, unreadable or repeated', async () => {
  const receiver = await startReceiver();
  receiver.clock.at += 10_000;
  const figures = async () => {
    const { failureRun, failures, lastDeliveryAt, secrets, newestCursor } = await receiver.status();
    const { 'refused.clock_skew': skewed = 0, unseen_failures = 0, failure_runs = 0 } = await receiver.counters();
    const types = await receiver.store.replay.types();
    const arrivals = await receiver.store.read.arrivals();
    const status = { failureRun, failures, lastDeliveryAt, secrets, newestCursor };
    return { ...status, types, arrivals, skewed, unseen_failures, failure_runs };
  };
  const untouched = await figures();
  const now = receiver.clock.at / 1000;
  const young = { MessageReceived: message({ timestamp_unix_ms: receiver.clock.at }) };
  const bodies = [
    bodyOf({ ...OURS, cursor: '42', data: young }),
    bodyOf({ ...OURS, id: 'doctor_1', cursor: null, type: 'webhook.ping', data: { message: 'x' } }),
    bodyOf({ ...OURS, id: 'trigger_2', type: 'Thing', cursor: '43' }),
    bodyOf({ ...OURS, id: '', cursor: '44' }),
    bodyOf({ ...OURS, id: 'trigger_3', data: [] }),
  ];
  for (const body of bodies) {
    expect(await deliver(receiver.port, body, { ...signed(body, now), 'X-Svc-Attempt': '3' })).toBe(204);
    for (let n = 0; n < 3; n++) expect(await deliver(receiver.port, body, signed(body, now - 400))).toBe(401);
  }
  expect(await figures()).toEqual(untouched);
  expect(await receiver.status()).toMatchObject({ events: 3, quarantined: 2 });
});

test.each(['trigger_1', 'doctor_1'])('E80: an event of the service may have the id %s', async (id) => {
  const receiver = await startReceiver();
  const body = bodyOf({ id, cursor: '42' });
  expect(await deliver(receiver.port, body)).toBe(204);
  expect(await deliver(receiver.port, body, signed(body, receiver.clock.at / 1000 - 400))).toBe(401);
  expect(await receiver.status()).toMatchObject({ newestCursor: '42', failureRun: 1, secrets: [{ hits: 1 }] });
  expect(await receiver.store.replay.types()).toMatchObject([{ type: 'MessageReceived', deliveredAt: T0 }]);
});
