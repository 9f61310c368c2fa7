// An event as handlers get it: data parsed by src/events.ts, with defaults, with numbers as numbers, and with the
// fields that src/events.ts does not name.
import { describe, expect, test } from 'vitest';
import { eventTypes } from '../../src/wire/event-map.ts';
import { mismatchOf, toKitEvent } from '../../src/run/handler-event.ts';
import { tasksOf } from '../../src/run/new-tasks.ts';
import type { StoredEvent } from '../../src/store/work.ts';
import type { JsonObject } from '../../src/wire/json.ts';
import { fixture } from '../../src/tools/testing/fixture.ts';
import { handlerOf, storedEvent, T0 } from './fixture.ts';

const NEEDED = { session_id: '6f1c2f8e-8f4e-4c3a-9a51-3d2f0a6b7c11', from: 'x', message_id: 'm' };

function stored(data: object, type = 'MessageReceived', fields: Partial<StoredEvent> = {}): StoredEvent {
  return storedEvent({ type, text: JSON.stringify({ type, data: { [type]: data } }), ...fields });
}

function given(data: object, type = 'MessageReceived'): Record<string, unknown> {
  const event = stored(data, type);
  expect(mismatchOf(event)).toBeUndefined();
  return toKitEvent(event).data;
}

describe('E23: a MessageReceived', () => {
  const OPTIONAL = { body: '', is_group: false, timestamp_unix_ms: null, message_type: null, push_name: '' };

  test('with only its required fields is handled, with defaults for the others', () => {
    expect(given(NEEDED)).toEqual({ ...NEEDED, ...OPTIONAL });
  });

  test.each(Object.entries(OPTIONAL))('whose %s is null is handled, and the handler gets %j', (field, value) => {
    expect(given({ ...NEEDED, [field]: null })[field]).toBe(value);
  });

  test.each<[unknown, unknown]>([
    ['1767225600000', 1_767_225_600_000],
    [1_767_225_600_000, 1_767_225_600_000],
    ['0', 0],
    ['-5', -5],
  ])('with the time %j gives %j', (time, expected) => {
    expect(given({ ...NEEDED, timestamp_unix_ms: time })['timestamp_unix_ms']).toBe(expected);
  });

  test('keeps fields that src/events.ts does not name, even fields with names like constructor', () => {
    const text = `{"type":"MessageReceived","data":{"MessageReceived":{"session_id":"6f1c2f8e-8f4e-4c3a-9a51-3d2f0a6b7c11","from":"x","message_id":"m","more":{"deep":[1]},"__proto__":{"a":1},"constructor":2}}}`;
    const { data } = toKitEvent(storedEvent({ type: 'MessageReceived', text }));
    expect(data).toMatchObject({ more: { deep: [1] }, constructor: 2 });
    expect(Object.keys(data)).toContain('__proto__');
    expect(Object.getPrototypeOf(data)).toBe(Object.prototype);
    expect(Object.isFrozen((data['more'] as { deep: unknown[] }).deep)).toBe(true);
  });

  test.each<[string, object]>([
    ['session_id', { ...NEEDED, session_id: null }],
    ['session_id', { ...NEEDED, session_id: 'not a uuid' }],
    ['from', { ...NEEDED, from: undefined }],
    ['message_id', { ...NEEDED, message_id: 5 }],
    ['timestamp_unix_ms', { ...NEEDED, timestamp_unix_ms: '1.5' }],
    ['timestamp_unix_ms', { ...NEEDED, timestamp_unix_ms: '99999999999999999999' }],
    ['timestamp_unix_ms', { ...NEEDED, timestamp_unix_ms: '' }],
    ['is_group', { ...NEEDED, is_group: 'yes' }],
  ])('whose %s is invalid does not fit its type, and the reason names the field', (path, data) => {
    expect(mismatchOf(stored(data))).toMatch(
      new RegExp(`^data does not fit MessageReceived in src/events.ts: ${path}: .+`),
    );
    expect(toKitEvent(stored(data)).data).toEqual(JSON.parse(JSON.stringify(data)));
  });
});

test('E23: each listed type accepts its own example, also with its numbers as text', () => {
  for (const type of Object.keys(eventTypes)) {
    const { data } = fixture(type);
    expect(given(data, type)).toEqual(data);
    const asText = Object.entries(data).map(([name, value]) => [name, typeof value === 'number' ? `${value}` : value]);
    expect(mismatchOf(stored(Object.fromEntries(asText), type))).toBeUndefined();
  }
});

test('E23: types of which the contract shows no field accept any data', () => {
  for (const type of ['MessageSent', 'MessageStatusUpdated', 'webhook.ping']) {
    expect(mismatchOf(stored({}, type))).toBeUndefined();
    expect(mismatchOf(stored({ message: null, session_id: 7, status: null }, type))).toBeUndefined();
  }
});

test('E23: the data are parsed once for all handlers, and a lane function gets the same object', () => {
  const event = stored({ ...NEEDED, timestamp_unix_ms: String(T0) });
  const seen: unknown[] = [];
  const lane = ({ data }: { data: JsonObject }): string => {
    seen.push(data);
    return 'x';
  };
  const handlers = new Map([1, 2].map((id) => [id, handlerOf({ lane: lane as never })]));
  const options = { handlers, windowMs: 0, now: T0, onLaneFault: () => {} };
  tasksOf(
    event,
    { watermark: null, birth: { at: 0, reading: 'none', end: null, older: null, younger: null } },
    options,
  );
  expect(seen[0]).toMatchObject({ timestamp_unix_ms: T0 });
  expect(seen[1]).toBe(seen[0]);
  expect(toKitEvent(event).data).toBe(seen[0]);
});

test('E23: if a type in src/events.ts throws, only its own events do not fit', () => {
  const { MessageSent } = eventTypes;
  const { data } = MessageSent;
  MessageSent.data = data.refine(() => {
    throw new Error('a slip');
  });
  try {
    expect(mismatchOf(stored({}, 'MessageSent'))).toMatch(/^data does not fit MessageSent in src\/events.ts: .*a slip/);
  } finally {
    MessageSent.data = data;
  }
});

test('all handlers get the same object: plain JSON, deeply frozen', () => {
  const message = stored({ from: 'x', list: [{ deep: 1 }] }, 'MessageReceived', { createdAt: null });
  const event = toKitEvent(message);
  expect(event).toEqual({
    key: 'c:1',
    id: 'id-1',
    type: 'MessageReceived',
    cursor: '1',
    sessionId: 'a',
    createdAt: null,
    receivedAt: new Date(T0).toISOString(),
    origin: 'webhook',
    data: { from: 'x', list: [{ deep: 1 }] },
  });
  const list = event.data['list'] as { deep: number }[];
  expect([event, event.data, list, list[0]].every((part) => Object.isFrozen(part))).toBe(true);
  expect(toKitEvent(message)).toBe(event);
});

test('I22: a byte order mark is no part of the data', () => {
  const text = `\uFEFF${JSON.stringify({ data: { MessageReceived: {} } })}`;
  expect(toKitEvent(storedEvent({ type: 'MessageReceived', text })).data).toEqual({});
});

test('an event whose body was purged throws', () => {
  expect(() => toKitEvent(storedEvent({ text: null }))).toThrow(/purged after PAYLOAD_RETENTION_DAYS/);
});
