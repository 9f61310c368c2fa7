// Authentic bytes become an event, or the reason why they are none.
import { describe, expect, test } from 'vitest';
import { readDelivery, readItem } from '../../src/wire/event.ts';

const envelope = (fields: Record<string, unknown>): Buffer =>
  Buffer.from(JSON.stringify({ id: 'e', type: 'A', cursor: '7', data: { A: {} }, ...fields }));

describe('a delivery that is no event says why:', () => {
  test.each<[string, Buffer, RegExp]>([
    ['not UTF-8', Buffer.from([0x7b, 0xff, 0x7d]), /not UTF-8/],
    ['overlong UTF-8', Buffer.from([0x22, 0xc0, 0x80, 0x22]), /not UTF-8/],
    ['nothing', Buffer.alloc(0), /not JSON/],
    ['half an object', Buffer.from('{"id":'), /not JSON/],
    ['a list', Buffer.from('[]'), /not an object/],
    ['null', Buffer.from('null'), /not an object/],
    ['200,000 levels', Buffer.from(`${'['.repeat(200_000)}${']'.repeat(200_000)}`), /nested deeper/],
    ['100,000 items', Buffer.from(`[${'0,'.repeat(100_000)}0]`), /more than 50000/],
    ['no id', envelope({ id: null }), /^id /],
    ['a long id', envelope({ id: 'x'.repeat(201) }), /^id /],
    ['a lone surrogate in the id', Buffer.from('{"id":"\\ud800","type":"A","data":{"A":{}}}'), /^id /],
    ['a kit event', envelope({ type: 'kit.gap', data: { 'kit.gap': {} } }), /only the kit/],
    ['no data', envelope({ data: null }), /^data /],
    ['data of another type', envelope({ data: { B: {} } }), /^data /],
    ...['', ' 12', '1e3', '0x10', '-1', '١٢', '12abc', '9223372036854775808', '9'.repeat(1_000)].map(
      (cursor): [string, Buffer, RegExp] => [`the cursor ${cursor.slice(0, 20)}`, envelope({ cursor }), /^cursor /],
    ),
  ])('%s', (_, body, reason) => {
    const reading = readDelivery(body);
    expect('unreadable' in reading && reading.unreadable.reason).toMatch(reason);
  });
});

describe('a delivery is an event, whatever else it holds:', () => {
  test.each<[string, Buffer, object]>([
    ['the highest cursor', envelope({ cursor: '9223372036854775807' }), { cursor: '9223372036854775807' }],
    ['a cursor as a number', envelope({ cursor: 12 }), { cursor: '12' }],
    ['no cursor', envelope({ cursor: null }), { cursor: null }],
    ['a byte order mark', Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), envelope({})]), { id: 'e' }],
    ['keys twice: the last one counts', Buffer.from('{"id":"a","id":"b","type":"A","data":{"A":{}}}'), { id: 'b' }],
    ['an unknown type', envelope({ type: 'New.Type', data: { 'New.Type': {} } }), { type: 'New.Type' }],
    [
      'a ping without a wrapper',
      envelope({ type: 'webhook.ping', cursor: null, data: { message: 'hi' } }),
      { type: 'webhook.ping' },
    ],
    [
      'the session of the data before that of the envelope',
      envelope({ session_id: 's', data: { A: { session_id: 't' } } }),
      { session: 't' },
    ],
    ['a time that is none', envelope({ created_at: 'not a date' }), { createdAt: null }],
    ['a time', envelope({ created_at: '2027-01-15T08:00:00Z' }), { createdAt: 1_800_000_000_000 }],
    [
      'keys like __proto__',
      Buffer.from('{"__proto__":{"x":1},"id":"e","type":"A","data":{"A":{"__proto__":{}}}}'),
      { id: 'e' },
    ],
  ])('%s', (_, body, fields) => {
    const reading = readDelivery(body);
    expect('event' in reading && reading.event).toMatchObject(fields);
    expect(({} as { x?: number }).x).toBeUndefined();
  });
});

test('an item of replay is read like a delivery', () => {
  const read = (payload: string) => readItem('replay', '5' as never, payload);
  expect(read('{"A":{"session_id":"s","timestamp_unix_ms":"1800000000000"}}')).toMatchObject({
    event: { cursor: '5', id: null, type: 'A', session: 's', createdAt: 1_800_000_000_000 },
  });
  for (const bad of ['', '{}', '{"A":{},"B":{}}', '{"A":1}', '{"kit.gap":{}}'])
    expect('unreadable' in read(bad)).toBe(true);
});
