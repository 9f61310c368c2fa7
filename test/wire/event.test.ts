// From bytes to an event: the result is the same for every origin, and nothing throws (contract 2.13, 6.1, 6.3).
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Cursor } from '../../src/wire/cursor.ts';
import {
  conversationOf,
  dataOfBody,
  readDelivery,
  readItem,
  type Incoming,
  type Reading,
} from '../../src/wire/event.ts';

const CURSOR = '5' as Cursor;
const message = {
  session_id: '11111111-1111-4111-8111-111111111111',
  from: 'writer',
  timestamp_unix_ms: 1_767_268_800_000,
};

function delivery(fields: Record<string, unknown>): Reading {
  return readDelivery(
    Buffer.from(
      JSON.stringify({
        id: 'a',
        type: 'MessageReceived',
        cursor: CURSOR,
        data: { MessageReceived: message },
        ...fields,
      }),
    ),
  );
}

function eventOf(reading: Reading): Incoming {
  if ('unreadable' in reading) throw new Error(reading.unreadable.reason);
  return reading.event;
}

function reasonOf(reading: Reading): string {
  return 'unreadable' in reading ? reading.unreadable.reason : 'readable';
}

describe('an event', () => {
  test('has the same type, cursor, session and time from every origin', () => {
    const facts = ({ type, cursor, sessionId, createdAt }: Incoming): unknown => ({
      type,
      cursor,
      sessionId,
      createdAt,
    });
    const ways = [
      delivery({ session_id: 'other', created_at: '2020-01-01T00:00:00Z' }),
      readItem('replay', CURSOR, JSON.stringify({ MessageReceived: message })),
      readItem('stream', CURSOR, JSON.stringify({ MessageReceived: message })),
    ];
    expect(new Set(ways.map((reading) => JSON.stringify(facts(eventOf(reading))))).size).toBe(1);
    expect(
      ways.map((reading) => dataOfBody(eventOf(reading).origin, 'MessageReceived', eventOf(reading).body)),
    ).toEqual([message, message, message]);
  });

  test.each(['kit.gap', 'kit.anything'])('of the type %s comes from the kit alone, whoever signed it', (type) => {
    const reason = expect.stringContaining('begins with kit.') as string;
    expect(reasonOf(delivery({ type, data: { [type]: {} } }))).toEqual(reason);
    expect(reasonOf(readItem('replay', CURSOR, JSON.stringify({ [type]: {} })))).toEqual(reason);
    expect(reasonOf(delivery({ type, data: { [type]: {} }, sent_by: 'kit' }))).toBe('readable');
  });

  test('from replay has no id', () => {
    expect(eventOf(readItem('replay', CURSOR, '{"Thing":{}}'))).toMatchObject({
      id: null,
      cursor: '5',
      origin: 'replay',
      sessionId: null,
      createdAt: null,
    });
  });

  test.each([
    ['1767268800000', 1_767_268_800_000],
    [1_767_268_800_000, 1_767_268_800_000],
    ['0', 0],
    ['', null],
    ['-1', null],
    ['1.5', null],
    ['99999999999999999', null],
    [8.64e15 + 1, null],
    [2 ** 53, null],
    [true, null],
    [[], null],
  ])('with the time %j in its data has the time %s', (time, createdAt) => {
    expect(eventOf(readItem('replay', CURSOR, JSON.stringify({ Thing: { timestamp_unix_ms: time } }))).createdAt).toBe(
      createdAt,
    );
  });

  test('belongs to the conversation that its type defines, else to its session', () => {
    expect(conversationOf('MessageReceived', 's', { from: 'writer' })).toBe('s/writer');
    expect(conversationOf('MessageReceived', null, { from: 'writer' })).toBe('/writer');
    expect(conversationOf('MessageReceived', 's', { from: 5 })).toBe('s');
    for (const type of ['MessageSent', 'Unknown', 'toString', '__proto__'])
      expect(conversationOf(type, 's', { from: 'writer' })).toBe('s');
    expect(conversationOf('Unknown', null, {})).toBe('');
  });

  test('keeps its cursor even if the rest is unreadable', () => {
    const reading = delivery({ id: null });
    expect(reading).toMatchObject({ unreadable: { cursor: '5', origin: 'webhook' } });
  });
});

describe('unreadable bytes have a reason', () => {
  test.each<[Reading, string]>([
    [readDelivery(Buffer.from('')), 'not JSON'],
    [readDelivery(Buffer.from([0xff])), 'not UTF-8'],
    [readDelivery(Buffer.from('[]')), 'not an object'],
    [delivery({ cursor: '01' }), 'cursor is not a decimal 64-bit integer'],
    [delivery({ id: 'a b' }), 'id is not 1 to 200 visible ASCII characters'],
    [delivery({ type: '' }), 'type is not 1 to 200 visible ASCII characters'],
    [delivery({ data: {} }), 'data does not hold its type'],
    [readItem('replay', CURSOR, '{'), 'not JSON'],
    [readItem('replay', CURSOR, '{}'), 'payload does not hold one type'],
    [readItem('replay', CURSOR, '{"A":{},"B":{}}'), 'payload does not hold one type'],
    [readItem('replay', CURSOR, '{"a b":{}}'), 'payload does not hold one type'],
    [readItem('replay', CURSOR, '{"A":[]}'), 'data does not hold its type'],
    [readItem('replay', CURSOR, 'null'), 'payload does not hold one type'],
  ])('%#: %j', (reading, reason) => {
    expect(reasonOf(reading)).toBe(reason);
  });
});

test('any bytes are an event or unreadable, are kept unchanged, and an event can be read again', () => {
  const field = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom('MessageReceived', 'webhook.ping', '__proto__', '5', null),
    fc.string(),
  );
  const shaped = fc.record(
    {
      id: field,
      type: field,
      cursor: field,
      session_id: field,
      created_at: field,
      data: fc.oneof(field, fc.dictionary(fc.constantFrom('MessageReceived', 'webhook.ping', '__proto__'), field)),
    },
    { requiredKeys: [] },
  );
  const bodies = fc.oneof(
    fc.uint8Array(),
    shaped.map((value) => Buffer.from(JSON.stringify(value))),
  );
  fc.assert(
    fc.property(bodies, (body) => {
      const reading = readDelivery(body);
      const { body: found } = 'event' in reading ? reading.event : reading.unreadable;
      expect(found).toBe(body);
      if (!('event' in reading)) return;
      const { type, sessionId } = reading.event;
      const data = dataOfBody('webhook', type, body);
      expect(typeof conversationOf(type, sessionId, data)).toBe('string');
      expect(reading.event.id).toMatch(/^[\x21-\x7e]{1,200}$/);
    }),
    { numRuns: 500 },
  );
});
