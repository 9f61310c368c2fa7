// Every authentic body is answered with 204, and its bytes are on disk as they arrived. If one byte is changed,
// nothing is stored (hazards C1, I21 to I60 and I78, for the receiver).
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { StoredEvent } from '../../src/store/work.ts';
import {
  bodyOf,
  deliver,
  envelope,
  kept,
  message,
  openReceiver,
  rows,
  signed,
  startReceiver,
  T0,
  type Receiver,
} from './harness.ts';
import { bodies, naughty, withField, withText } from './inputs.ts';

const text = bodyOf().toString();

describe('an authentic body', () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await openReceiver();
  });
  afterAll(() => receiver.close());

  test.each(bodies)('%s: 204, and the bytes are kept', async (_, body, expected) => {
    const own = await startReceiver();
    expect(await deliver(own.port, body)).toBe(204);
    const { events, quarantine } = kept(own);
    const found = expected === 'event' ? events : quarantine;
    expect(events.length + quarantine.length).toBe(1);
    expect(found).toHaveLength(1);
    expect(found[0]?.body.equals(body)).toBe(true);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    // A repetition of the delivery stores nothing new.
    expect(await deliver(own.port, body)).toBe(204);
    expect(rows(own)).toBe(1);
  });

  test.each(bodies)('%s: gets 401 after any change of a byte, and nothing is kept', async (_, body) => {
    for (const changed of changes(body)) expect(await deliver(receiver.port, changed, signed(body))).toBe(401);
    expect(rows(receiver)).toBe(0);
  });

  test('I21: that was reformatted or got a newline on its way is refused', async () => {
    const body = bodyOf();
    const pretty = Buffer.from(JSON.stringify(envelope(), null, 2));
    for (const changed of [pretty, Buffer.from(`${text}\n`), Buffer.from(` ${text}`), body.subarray(0, -1)]) {
      expect(await deliver(receiver.port, changed, signed(body))).toBe(401);
    }
    expect(rows(receiver)).toBe(0);
  });
});

/** Returns copies with one bit flipped at the beginning, in the middle or at the end, or one byte more or less. */
function changes(body: Buffer): Buffer[] {
  const flipped = [...new Set([0, body.length >> 1, body.length - 1])].flatMap((at) => {
    const copy = Buffer.from(body);
    const byte = copy[at];
    if (byte === undefined) return [];
    copy[at] = byte ^ 1;
    return [copy];
  });
  const shorter = body.length > 0 ? [body.subarray(1)] : [];
  return [...flipped, ...shorter, Buffer.concat([body, Buffer.from([0x20])])];
}

describe('what is read from an authentic body', () => {
  /** The event as `run` will read it. */
  async function received(body: Buffer): Promise<StoredEvent & { flags: string }> {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body)).toBe(204);
    const [event] = (await receiver.store.work.pending(10)).events;
    if (!event) throw new Error('no event was stored');
    return { ...event, flags: kept(receiver).events[0]?.flags ?? '' };
  }

  test('a plain message: its key is its cursor, session and time come from its data', async () => {
    expect(await received(bodyOf({ cursor: '42' }))).toMatchObject({
      key: 'c:42',
      id: 'evt_42',
      cursor: '42',
      type: 'MessageReceived',
      sessionId: '11111111-1111-4111-8111-111111111111',
      createdAt: T0 - 2_000,
      receivedAt: T0,
      origin: 'webhook',
      flags: '',
    });
  });

  test('I29: if a key is there twice, the last value counts, and the event is flagged', async () => {
    expect(await received(Buffer.from(text.replace('{', '{"id":"first",')))).toMatchObject({
      id: 'evt_1',
      flags: 'dup_keys',
    });
  });

  test.each([
    ['I32: a lone surrogate', '\\ud800', '\ud800'],
    ['I32: an escaped NUL', 'a\\u0000b', 'a\u0000b'],
    ['an escaped slash', '\\/', '/'],
  ])('%s in the text is read as it was written', async (_, source, value) => {
    const stored = await received(withText(source));
    const parsed = JSON.parse(stored.text ?? '') as { data: { MessageReceived: { body: string } } };
    expect(parsed.data.MessageReceived.body).toBe(value);
  });

  test('I34: ids that look like property names or numbers name different events', async () => {
    const receiver = await startReceiver();
    const ids = ['__proto__', 'toString', 'constructor', '1', '01', '1.0', 'null', 'c:1', 'i:1'];
    for (const id of ids) expect(await deliver(receiver.port, bodyOf({ id, cursor: null }))).toBe(204);
    expect(kept(receiver).events.map(({ id }) => id)).toEqual(ids);
    expect((await receiver.store.work.pending(20)).events.map(({ key }) => key)).toEqual(ids.map((id) => `i:${id}`));
  });

  test('I35: ids that differ by case name different events', async () => {
    const receiver = await startReceiver();
    for (const id of ['evt_a', 'EVT_A', 'Evt_a'])
      expect(await deliver(receiver.port, bodyOf({ id, cursor: null }))).toBe(204);
    expect(kept(receiver).events.map(({ id }) => id)).toEqual(['evt_a', 'EVT_A', 'Evt_a']);
  });

  test('I36: an event without a cursor is kept under its id and flagged', async () => {
    expect(await received(bodyOf({ id: 'evt_x', cursor: null }))).toMatchObject({
      key: 'i:evt_x',
      cursor: null,
      flags: 'no_cursor',
    });
  });

  test('I37: a cursor that is a JSON number is read exactly, and the event is flagged', async () => {
    expect(await received(withField('cursor', '9007199254740993'))).toMatchObject({
      cursor: '9007199254740993',
      flags: 'cursor_number',
    });
    const deep = Buffer.from(
      text.replace('"cursor":"1"', '"cursor":9007199254740993').replace('"from"', '"cursor":5,"from"'),
    );
    expect(await received(deep)).toMatchObject({ cursor: '9007199254740993', flags: 'cursor_number' });
  });

  test('I40: a far too high cursor does not move the watermark', async () => {
    const receiver = await startReceiver();
    await deliver(receiver.port, bodyOf({ cursor: String(2n ** 62n) }));
    await deliver(receiver.port, bodyOf({ cursor: '5' }));
    expect(await receiver.store.state.get('watermark')).toBeNull();
    expect(kept(receiver).events.map(({ cursor }) => cursor)).toEqual([String(2n ** 62n), '5']);
  });

  test('I48: the same id with other data is a duplicate: the first is kept, and the conflict is recorded and logged', async () => {
    const receiver = await startReceiver();
    const first = bodyOf({ id: 'evt_a', cursor: '1' });
    const other = bodyOf({ id: 'evt_a', cursor: '1', data: { MessageReceived: message({ body: 'other' }) } });
    for (const body of [first, other]) expect(await deliver(receiver.port, body)).toBe(204);
    expect(kept(receiver).events.map(({ body }) => body.equals(first))).toEqual([true]);
    expect(
      receiver.query<{ body: Buffer }>('select body from conflicts').map(({ body }) => body.equals(other)),
    ).toEqual([true]);
    expect(receiver.lines.filter(({ cause }) => cause === 'conflict')).toMatchObject([{ key: 'c:1' }]);
    expect(receiver.answered.map(({ status }) => status)).toEqual([204, 204]);
  });

  test('I49: two webhooks that bring one event with two ids make one row', async () => {
    const receiver = await startReceiver();
    for (const n of [1, 2])
      expect(await deliver(receiver.port, bodyOf({ id: `evt_${n}`, cursor: '9', webhook_id: `wh_${n}` }))).toBe(204);
    expect(kept(receiver).events).toMatchObject([{ id: 'evt_1', cursor: '9' }]);
    expect((await receiver.store.read.event('evt_2', T0))?.event.key).toBe('c:9');
    expect(rows(receiver)).toBe(1);
  });

  test('I50: one cursor with two ids and different data makes two events', async () => {
    const receiver = await startReceiver();
    for (const n of [1, 2]) {
      const data = { MessageReceived: message({ body: `text ${n}` }) };
      expect(await deliver(receiver.port, bodyOf({ id: `evt_${n}`, cursor: '9', data }))).toBe(204);
    }
    expect((await receiver.store.work.pending(10)).events.map(({ key }) => key)).toEqual(['c:9', 'i:evt_2']);
    expect(receiver.lines.filter(({ cause }) => cause === 'conflict')).toMatchObject([{ key: 'c:9' }]);
    expect(await receiver.store.read.status(T0)).toMatchObject({ events: 2, conflicts: 1 });
  });

  test('I51: one id with two cursors makes one event, which both cursors name', async () => {
    const receiver = await startReceiver();
    for (const cursor of ['9', '10']) expect(await deliver(receiver.port, bodyOf({ id: 'evt_a', cursor }))).toBe(204);
    expect(rows(receiver)).toBe(1);
    expect((await receiver.store.read.event('10', T0))?.event.key).toBe('c:9');
  });

  test.each<[string, Record<string, unknown>, Partial<StoredEvent> & { flags?: string }]>([
    [
      'I52: an unknown type is stored like any other',
      { type: 'New.Thing', data: { 'New.Thing': {} } },
      { type: 'New.Thing', flags: '' },
    ],
    [
      'I53: a second key beside the type is flagged',
      { data: { MessageReceived: {}, Other: {} } },
      { flags: 'extra_keys' },
    ],
    ['I57: no session is none', { session_id: null, data: { MessageReceived: {} } }, { sessionId: null, flags: '' }],
    [
      'I57: a session that is no UUID is kept and flagged',
      { session_id: 'one', data: { MessageReceived: {} } },
      { sessionId: 'one', flags: 'session_shape' },
    ],
    [
      'I58: a date that is none leaves the time open',
      { created_at: 'x', data: { MessageReceived: {} } },
      { createdAt: null },
    ],
    [
      'I58: an offset of 25 hours leaves the time open',
      { created_at: '2026-01-01T00:00:00+25:00', data: { MessageReceived: {} } },
      { createdAt: null },
    ],
    [
      'I58: the year 275760 is a time',
      { created_at: '+275760-09-13T00:00:00.000Z', data: { MessageReceived: {} } },
      { createdAt: 8.64e15 },
    ],
    [
      'I58: the envelope gives the time where the data has none',
      { data: { MessageReceived: {} } },
      { createdAt: T0 - 2_000 },
    ],
    ['I59: a time of -0 is 1970', { data: { MessageReceived: { timestamp_unix_ms: -0 } } }, { createdAt: 0 }],
    [
      'I60: a ping has no cursor, which is no oddity',
      { id: 'p', cursor: null, type: 'webhook.ping', data: { message: 'm' } },
      { key: 'i:p', type: 'webhook.ping', flags: '' },
    ],
  ])('%s', async (_, fields, expected) => {
    expect(await received(bodyOf(fields))).toMatchObject(expected);
  });

  test.each(['1e400', '9223372036854775808', '"soon"', 'null', '1.5', '{}'])(
    'I59: if its time is %s, the time of the envelope counts',
    async (source) => {
      const body = withField('data', `{"MessageReceived":{"timestamp_unix_ms":${source}}}`);
      expect((await received(body)).createdAt).toBe(T0 - 2_000);
    },
  );

  test('I78: the text of strangers is kept byte for byte, and never logged', async () => {
    const receiver = await startReceiver();
    for (const [index, written] of naughty.entries()) {
      const data = { MessageReceived: message({ body: written, push_name: written }) };
      expect(await deliver(receiver.port, bodyOf({ cursor: String(index + 1), data }))).toBe(204);
    }
    const back = kept(receiver).events.map(
      ({ body }) => JSON.parse(body.toString()) as { data: { MessageReceived: { body: string } } },
    );
    expect(back.map(({ data }) => data.MessageReceived.body)).toEqual(naughty);
    expect(receiver.lines).toEqual([]);
  });

  test('a log line about a quarantined or refused body shows no part of the body', async () => {
    const receiver = await startReceiver();
    const secretive = Buffer.from('{"body":"call me at 555-0100"');
    await deliver(receiver.port, secretive);
    await deliver(receiver.port, secretive, {
      'X-Svc-Signature': `v1=${'0'.repeat(64)}`,
      'X-Svc-Event-Type': '555-0100',
    });
    expect(receiver.lines.map(({ cause }) => cause)).toEqual(['quarantined', 'bad_signature']);
    expect(JSON.stringify(receiver.lines)).not.toMatch(/555|whsec_|v1=/);
  });
});
