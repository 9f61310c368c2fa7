// Bodies of the catalogue of bad inputs (hazards C1, I21 to I60 and I78) that arrive with a right signature, and what they
// become. json.test.ts sends them to one store, test/postgres/catalogue.test.ts to both kinds.
import { bodyOf, envelope, message } from './harness.ts';

type Expected = 'event' | 'quarantine';
export type Case = [name: string, body: Buffer, expected: Expected];

/** A valid body in which these raw bytes replace the text of its message or a whole field. */
export function withText(...bytes: (string | number[])[]): Buffer {
  const [before = '', after = ''] = bodyOf({ data: { MessageReceived: message({ body: '(here)' }) } })
    .toString()
    .split('(here)');
  return Buffer.concat([before, ...bytes, after].map((part) => Buffer.from(part as string)));
}

/** A valid envelope in which this source text is the value of one field. */
export function withField(name: string, source: string): Buffer {
  const { [name]: _, ...rest } = envelope();
  return Buffer.from(`${JSON.stringify(rest).slice(0, -1)},${JSON.stringify(name)}:${source}}`);
}

export function withFields(fields: Record<string, unknown>): Buffer {
  return bodyOf(fields);
}

const text = bodyOf().toString();
const BOM = [0xef, 0xbb, 0xbf];
const utf16 = Buffer.from(`\ufeff${text}`, 'utf16le');

export const bodies: Case[] = [
  ['I22: a BOM before JSON', Buffer.concat([Buffer.from(BOM), Buffer.from(text)]), 'event'],
  ['I22: two BOMs', Buffer.concat([Buffer.from([...BOM, ...BOM]), Buffer.from(text)]), 'quarantine'],
  ['I22: a BOM alone', Buffer.from(BOM), 'quarantine'],
  ['I23: invalid UTF-8 in a text', withText([0xff, 0xfe]), 'quarantine'],
  ['I23: a lone continuation byte', withText([0x80]), 'quarantine'],
  ['I23: a sequence cut short', withText([0xe2, 0x82]), 'quarantine'],
  ['I23: UTF-16', utf16, 'quarantine'],
  ['I23: UTF-16 the other way round', Buffer.from(utf16).swap16(), 'quarantine'],
  ['I23: gzip', Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 'quarantine'],
  ['I24: CESU-8', withText([0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]), 'quarantine'],
  ['I24: overlong UTF-8', withText([0xc0, 0xaf]), 'quarantine'],
  ['I24: above U+10FFFF', withText([0xf4, 0x90, 0x80, 0x80]), 'quarantine'],
  ['I25: nothing at all', Buffer.alloc(0), 'quarantine'],
  ['I25: blanks', Buffer.from(' \n\t '), 'quarantine'],
  ['I25: one NUL', Buffer.from([0]), 'quarantine'],
  ['I26: null', Buffer.from('null'), 'quarantine'],
  ['I26: a number', Buffer.from('1'), 'quarantine'],
  ['I26: a text', Buffer.from('"x"'), 'quarantine'],
  ['I26: true', Buffer.from('true'), 'quarantine'],
  ['I26: an empty array', Buffer.from('[]'), 'quarantine'],
  ['I26: an event in an array', Buffer.from(`[${text}]`), 'quarantine'],
  ['I26: an empty object', Buffer.from('{}'), 'quarantine'],
  ['I27: truncated', Buffer.from(text.slice(0, -1)), 'quarantine'],
  ['I27: truncated within a text', Buffer.from(text.slice(0, 30)), 'quarantine'],
  ['I27: truncated behind a backslash', Buffer.from('{"id":"e\\'), 'quarantine'],
  ['I27: two documents', Buffer.from(`${text}${text}`), 'quarantine'],
  ['I27: a NUL behind it', Buffer.from(`${text}\u0000`), 'quarantine'],
  ['I27: a comma too many', Buffer.from(`${text.slice(0, -1)},}`), 'quarantine'],
  ['I27: single quotes', Buffer.from(text.replaceAll('"', "'")), 'quarantine'],
  ['I27: a comment', Buffer.from(`/**/${text}`), 'quarantine'],
  ['I27: NaN', withField('extra', 'NaN'), 'quarantine'],
  ['I27: a raw newline in a text', withText('\n'), 'quarantine'],
  ['I27: a raw NUL in a text', withText([0]), 'quarantine'],
  ['I27: a form instead', Buffer.from('payload=%7B%7D'), 'quarantine'],
  ['I28: arrays 200,000 deep', Buffer.from('['.repeat(200_000) + ']'.repeat(200_000)), 'quarantine'],
  ['I28: arrays 200,000 deep that never end', Buffer.from('['.repeat(200_000)), 'quarantine'],
  ['I28: objects 100,000 deep', Buffer.from(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`), 'quarantine'],
  ['I28: a field 65 deep', withField('extra', `${'['.repeat(65)}${']'.repeat(65)}`), 'quarantine'],
  ['E83: a million items', withField('extra', `[${'0,'.repeat(1_000_000)}0]`), 'quarantine'],
  ['E83: a text of escaped quotes', withField('extra', `"${'\\"'.repeat(1_000_000)}"`), 'event'],
  ['I28: a field 60 deep', withField('extra', `${'['.repeat(60)}${']'.repeat(60)}`), 'event'],
  ['I28: brackets within a text', withText('['.repeat(200)), 'event'],
  ['I29: the id twice', Buffer.from(text.replace('{', '{"id":"first",')), 'event'],
  ['I29: the data twice', withField('data', '{"MessageReceived":{},"MessageReceived":{"a":1}}'), 'event'],
  ['I30: __proto__ as a key', withField('__proto__', '{"polluted":true}'), 'event'],
  ['I30: constructor.prototype as keys', withField('constructor', '{"prototype":{"polluted":true}}'), 'event'],
  ['I30: __proto__ in the data', withField('data', '{"MessageReceived":{"__proto__":{"polluted":true}}}'), 'event'],
  ['I30: __proto__ as the type', Buffer.from(text.replaceAll('MessageReceived', '__proto__')), 'event'],
  ['I31: a lone surrogate in the id', withField('id', '"\\ud800"'), 'quarantine'],
  ['I31: a NUL in the id', withField('id', '"a\\u0000b"'), 'quarantine'],
  ['I31: a blank in the id', withField('id', '"a b"'), 'quarantine'],
  ['I32: a lone surrogate in the text', withText('\\ud800'), 'event'],
  ['I32: an escaped NUL in the text', withText('\\u0000'), 'event'],
  [
    'I32: a lone surrogate in the session',
    withFields({ session_id: '\ud800', data: { MessageReceived: {} } }),
    'event',
  ],
  ['I32: a NUL in the session', withFields({ session_id: 'a\u0000b', data: { MessageReceived: {} } }), 'event'],
  ['I33: no id', withFields({ id: undefined }), 'quarantine'],
  ['I33: an empty id', withFields({ id: '' }), 'quarantine'],
  ['I33: a number as the id', withFields({ id: 1 }), 'quarantine'],
  ['I33: null as the id', withFields({ id: null }), 'quarantine'],
  ['I33: an object as the id', withFields({ id: {} }), 'quarantine'],
  ['I33: an id of 10 KB', withFields({ id: 'x'.repeat(10_000) }), 'quarantine'],
  ['I33: an id of 201 characters', withFields({ id: 'x'.repeat(201) }), 'quarantine'],
  ['I33: an id of 200 characters', withFields({ id: 'x'.repeat(200) }), 'event'],
  ['I35: an id that is not ASCII', withFields({ id: 'é' }), 'quarantine'],
  ['I36: null as the cursor of a message', withFields({ id: 'evt_null', cursor: null }), 'event'],
  ['I36: no cursor', withFields({ id: 'evt_none', cursor: undefined }), 'event'],
  ['I37: a cursor as a number that a float rounds', withField('cursor', '9007199254740993'), 'event'],
  ['I37: a cursor as a number with a fraction', withField('cursor', '12.0'), 'quarantine'],
  ['I37: a cursor as a number with an exponent', withField('cursor', '1e3'), 'quarantine'],
  ['I37: a cursor as a negative zero', withField('cursor', '-0'), 'quarantine'],
  ['I37: a cursor as a number above 64 bits', withField('cursor', '9223372036854775808'), 'quarantine'],
  ['I37: true as the cursor', withFields({ cursor: true }), 'quarantine'],
  ...['', ' 12', '12 ', '1e3', '0x10', '-1', '+1', '01', '١٢', '12abc', '1_000', '12.0'].map((cursor): Case => [
    `I38: ${JSON.stringify(cursor)} as the cursor`,
    withFields({ cursor }),
    'quarantine',
  ]),
  ['I39: the highest cursor', withFields({ cursor: '9223372036854775807' }), 'event'],
  ['I39: a cursor above the highest', withFields({ cursor: '9223372036854775808' }), 'quarantine'],
  ['I39: a cursor of 1,000 digits', withFields({ cursor: '9'.repeat(1_000) }), 'quarantine'],
  ['I39: a cursor of a million digits', withFields({ cursor: '9'.repeat(1_000_000) }), 'quarantine'],
  ['I39: a number of a million digits as the cursor', withField('cursor', '9'.repeat(1_000_000)), 'quarantine'],
  ['I52: a type that nobody knows', withFields({ type: 'Something.New' }), 'event'],
  ['I52: a type named toString', withFields({ type: 'toString' }), 'event'],
  ['I52: no type', withFields({ type: undefined, data: {} }), 'quarantine'],
  ['I52: a type with a newline', withFields({ type: 'a\nb' }), 'quarantine'],
  ['I53: data without a key', withFields({ data: {} }), 'quarantine'],
  ['I53: data with a second key', withFields({ data: { MessageReceived: {}, MessageSent: {} } }), 'event'],
  ['I53: data of another type', withFields({ data: { MessageSent: {} } }), 'quarantine'],
  ['I54: null as the data', withFields({ data: null }), 'quarantine'],
  ['I54: an array as the data', withFields({ data: [] }), 'quarantine'],
  ['I54: a text as the data', withFields({ data: 'MessageReceived' }), 'quarantine'],
  ['I54: an array as the fields', withFields({ data: { MessageReceived: [] } }), 'quarantine'],
  ['I54: no data', withFields({ data: undefined }), 'quarantine'],
  ['I56: no webhook_id', withFields({ webhook_id: undefined }), 'event'],
  ['I56: the webhook_id of another', withFields({ webhook_id: 'not_ours' }), 'event'],
  ['I57: null as the session', withFields({ session_id: null }), 'event'],
  ['I57: a session that is no UUID', withFields({ session_id: 'number one', data: { MessageReceived: {} } }), 'event'],
  ['I57: a session of 10 KB', withFields({ session_id: 's'.repeat(10_000), data: { MessageReceived: {} } }), 'event'],
  ['I58: a created_at that is no date', withFields({ created_at: 'not a date' }), 'event'],
  [
    'I58: the year 275760',
    withFields({ created_at: '+275760-09-13T00:00:00.000Z', data: { MessageReceived: {} } }),
    'event',
  ],
  [
    'I58: an offset of 25 hours',
    withFields({ created_at: '2026-01-01T00:00:00+25:00', data: { MessageReceived: {} } }),
    'event',
  ],
  ['I59: a time of 1e400', withField('data', '{"MessageReceived":{"timestamp_unix_ms":1e400}}'), 'event'],
  ['I59: a time of -0', withField('data', '{"MessageReceived":{"timestamp_unix_ms":-0}}'), 'event'],
  ['I59: a time of 2^63', withField('data', '{"MessageReceived":{"timestamp_unix_ms":9223372036854775808}}'), 'event'],
  [
    'I59: the latest time that a date holds',
    withField('data', '{"MessageReceived":{"timestamp_unix_ms":8640000000000000}}'),
    'event',
  ],
  [
    'I60: a ping',
    withFields({ id: 'ping_1', cursor: null, type: 'webhook.ping', data: { message: 'hello' } }),
    'event',
  ],
  ['I60: a ping without a text', withFields({ id: 'ping_2', cursor: null, type: 'webhook.ping', data: {} }), 'event'],
  [
    'a thousand fields',
    withFields({
      data: { MessageReceived: Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`f${i}`, i])) },
    }),
    'event',
  ],
  ['JSON over many lines', Buffer.from(JSON.stringify(envelope(), null, '\r\n\t ')), 'event'],
];

/** Dangerous texts that strangers may write into a message (I78). */
export const naughty = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "=cmd|' /C calc'!A0",
  '+1+1',
  '@SUM(A1)',
  '\u001b]0;title\u0007\u001b[31mred',
  '\u202etxt.exe',
  'Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢',
  '👩‍👩‍👧‍👦'.repeat(2_600),
  "'; drop table events; --",
  '${7*7}{{7*7}}<%= 7*7 %>',
  '../../../etc/passwd',
  '\u2028\u2029\u0085\ufeff',
  'ﷺ𝕿𝖍𝖊 السُّلْطَة',
];
