import { expect, test } from 'vitest';
import { eventTypes } from '../../../src/wire/event-map.ts';
import { createHistory } from '../../../src/tools/simulator/history.ts';

const T0 = Date.UTC(2026, 0, 1);
const clock = { now: () => T0, monotonic: () => T0 };
const make = (history: ReturnType<typeof createHistory>, count: number) =>
  Array.from({ length: count }, () => history.next());

test('equal seeds make equal histories', () => {
  const [one, same, other] = [1, 1, 2].map((seed) => make(createHistory({ seed, clock }), 20));
  expect(same).toEqual(one);
  expect(other).not.toEqual(one);
});

test('6.1: the cursors of the simulator are ascending 64-bit integers, not consecutive, and beyond Number', () => {
  const cursors = make(createHistory({ seed: 1 }), 200).map(({ cursor }) => BigInt(cursor ?? ''));
  expect(cursors.every((cursor, i) => i === 0 || cursor > (cursors[i - 1] ?? 0n))).toBe(true);
  expect(cursors.some((cursor, i) => i > 0 && cursor > (cursors[i - 1] ?? 0n) + 1n)).toBe(true);
  expect(cursors.some((cursor) => BigInt(Number(cursor)) !== cursor)).toBe(true);
  expect(new Set(cursors.map((cursor) => String(cursor).length))).toEqual(new Set([16, 17]));
});

test('the first cursor can be chosen', () => {
  expect(createHistory({ seed: 1, firstCursor: 7n }).next().cursor).toBe('7');
});

test('6.4: a MessageReceived has the fields of the contract, and its time from the clock', () => {
  const event = createHistory({ seed: 1, clock }).next();
  expect(eventTypes.MessageReceived.data.safeParse(event.data).error).toBeUndefined();
  expect(event).toMatchObject({ type: 'MessageReceived', createdAt: '2026-01-01T00:00:00.000Z' });
  expect(event.data).toMatchObject({ session_id: event.sessionId, timestamp_unix_ms: T0 });
});

test('ids are unique, and there are as many sessions and conversations as asked for', () => {
  const events = make(createHistory({ seed: 1, sessions: 3, conversations: 2 }), 200);
  expect(new Set(events.map(({ id }) => id)).size).toBe(200);
  expect(new Set(events.map(({ sessionId }) => sessionId)).size).toBe(3);
  expect(new Set(events.map(({ data }) => data['from'])).size).toBe(2);
});

test('given fields replace generated ones', () => {
  const event = createHistory({ seed: 1 }).next('MessageSent', { id: 'mine', data: { colour: 'red' } });
  expect(event).toMatchObject({ id: 'mine', type: 'MessageSent' });
  expect(event.data).toMatchObject({ colour: 'red', session_id: event.sessionId });
});

test('6.3: a test event has no cursor, no session and a message, and is no part of the history', () => {
  const history = createHistory({ seed: 1 });
  const ping = history.next('webhook.ping', { data: { message: 'hello' } });
  expect(ping).toMatchObject({ type: 'webhook.ping', cursor: null, sessionId: null, data: { message: 'hello' } });
  expect(history.all()).toEqual([]);
});

test('6.2: the history shows the events after a cursor in pages, and marks the last page', () => {
  const history = createHistory({ seed: 1 });
  const [a, b, c] = make(history, 3);
  expect(history.after(null, 2)).toEqual({ events: [a, b], hasMore: true });
  expect(history.after(b?.cursor ?? '', 2)).toEqual({ events: [c], hasMore: false });
  expect(history.after(c?.cursor ?? '', 2)).toEqual({ events: [], hasMore: false });
});

test('6.1: the history knows no cursor but those of earlier events', () => {
  const history = createHistory({ seed: 1, firstCursor: 10n });
  make(history, 1);
  expect(['9', '11', '010', '', 'x'].map((cursor) => history.after(cursor, 1))).toEqual(Array(5).fill('unknown'));
});

test('4.2: the history shows no expired events, and says that their cursors have expired', () => {
  const history = createHistory({ seed: 1 });
  const [a, b, c] = make(history, 3);
  history.expireUpTo(b?.cursor ?? '');
  history.expireUpTo(a?.cursor ?? '');
  expect(history.after(a?.cursor ?? '', 9)).toBe('expired');
  expect(history.after(b?.cursor ?? '', 9)).toBe('expired');
  expect(history.after(null, 9)).toEqual({ events: [c], hasMore: false });
  expect(history.all()).toEqual([a, b, c]);
});

test('6.4: in bare mode, events whose fields the contract does not show have no session and time', () => {
  const history = createHistory({ seed: 1 });
  const fields = (type: string) => Object.keys(history.next(type).data);
  history.bare('on');
  expect(fields('MessageSent')).toEqual(['message_id']);
  expect(fields('CampaignUpdated')).toEqual(['message_id']);
  expect(fields('MessageReceived')).toEqual(expect.arrayContaining(['session_id', 'timestamp_unix_ms']));
  expect(history.next('MessageSent').sessionId, 'a webhook tells it beside the data').not.toBeNull();
  history.bare('off');
  expect(fields('MessageSent')).toEqual(expect.arrayContaining(['session_id', 'timestamp_unix_ms']));
});

test('E28, E69: a MessageStatusUpdated has a status, which the template of that name understands', () => {
  const history = createHistory({ seed: 1 });
  const statuses = [1, 2, 3].map(() => history.next('MessageStatusUpdated').data['status']);
  expect(new Set(statuses)).toEqual(new Set(['sent', 'delivered', 'read']));
});
