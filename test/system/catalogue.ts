// The bad inputs of the catalogue that arrive over HTTP, I1 to I78. Wherever a sender can put text, there is a mark
// that a test can search for. The tests in test/receive check the answers.
import { createHmac } from 'node:crypto';
import { gzipSync } from 'node:zlib';

export const MARKS = {
  phone: '5599900112233',
  text: 'zqbodymark',
  name: 'zqpushnamemark',
  header: 'zqheadermark',
  secret: 'zqsecretmark0123456789',
  newSecret: 'zqnewsecretmark0123456789',
  token: 'zqopstokenmark0123456789',
  readToken: 'zqreadtokenmark0123456789',
  alert: 'zqalerturlmark',
  slip: 'zqconfigslipmark',
};
export const SECRET = `whsec_${MARKS.secret}`;
const SESSION = '00000000-0000-4000-8000-000000000001';
/** A line that looks like a stack frame, and quotes, which JSON escapes. */
const TEXT = `${MARKS.text} "é" ${MARKS.phone}\n    at ${MARKS.text} (/${MARKS.text}/${MARKS.phone}.ts:1:1)\n<script>\u001b]0;${MARKS.text}\u0007`;

export const fieldsOf = (more: object = {}): object => ({
  session_id: SESSION,
  from: `${MARKS.phone}@network`,
  body: TEXT,
  message_id: 'm1',
  is_group: false,
  timestamp_unix_ms: Date.now(),
  message_type: 'text',
  push_name: MARKS.name,
  ...more,
});

let n = 0;
export function envelope(more: object = {}): string {
  n++;
  return JSON.stringify({
    id: `evt_${n}`,
    type: 'MessageReceived',
    created_at: new Date().toISOString(),
    cursor: String(1_000 + n),
    session_id: SESSION,
    webhook_id: 'wh',
    data: { MessageReceived: fieldsOf() },
    ...more,
  });
}

export function signatureOf(body: Uint8Array | string, timestamp: number | string, secret = SECRET): string {
  return createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
}

type Lines = [name: string, value: string][];
const now = (): number => Math.floor(Date.now() / 1_000);

/** The bytes of one request. Every unsigned header contains a mark. */
export function post(
  body: Uint8Array | string,
  lines?: Lines,
  start = 'POST /webhooks HTTP/1.1',
  length = true,
): Buffer {
  const time = String(now());
  const all: Lines = [
    ['Host', `${MARKS.header}.example`],
    ['User-Agent', MARKS.header],
    ['Authorization', `Bearer ${MARKS.header}`],
    ['X-Forwarded-For', MARKS.phone],
    ['X-Svc-Event-Id', MARKS.header],
    ['X-Svc-Event-Type', MARKS.header],
    ['X-Svc-Delivery-Id', `${MARKS.header}${'x'.repeat(4_000)}`],
    ['X-Svc-Attempt', MARKS.phone],
    ...(lines ?? [
      ['X-Svc-Timestamp', time],
      ['X-Svc-Signature', `v1=${signatureOf(body, time)}`],
    ]),
    ...(length ? ([['Content-Length', String(Buffer.byteLength(body))]] as Lines) : []),
    ['Connection', 'close'],
  ];
  const head = `${start}\r\n${all.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
  return Buffer.concat([Buffer.from(head), Buffer.from(body)]);
}

/** A request with a chosen signature and timestamp. `good` is the right signature in hex. */
function headed(signature: (good: string) => string, time: string = String(now()), body = envelope()): Buffer {
  return post(body, [
    ['X-Svc-Timestamp', time],
    ['X-Svc-Signature', signature(signatureOf(body, time))],
  ]);
}

const right = (good: string): string => `v1=${good}`;
const asData = (data: unknown): string => envelope({ data });

/** Odd bodies with a right signature. */
function bodies(): Record<string, Uint8Array | string> {
  const twice = JSON.parse(envelope()) as { id: string; cursor: string };
  return {
    'I22: a byte order mark': `\ufeff${envelope()}`,
    'I23: no UTF-8': Buffer.concat([
      Buffer.from(envelope().slice(0, -20)),
      Buffer.from([0xff, 0xfe]),
      Buffer.from(MARKS.text),
    ]),
    'I24: overlong': Buffer.concat([Buffer.from(`{"x":"${MARKS.text}`), Buffer.from([0xc0, 0x80]), Buffer.from('"}')]),
    'I25: empty': '',
    'I26: a string': `"${MARKS.text}"`,
    'I27: truncated': envelope().slice(0, -30),
    'I28: deep': `${'['.repeat(2_000)}"${MARKS.text}"`,
    'I29: keys twice': envelope().replace('{', '{"id":"other",'),
    'I30: __proto__': envelope().replace('{', `{"__proto__":{"x":"${MARKS.text}"},`),
    'I31: a lone surrogate in the id': envelope().replace('"evt_', '"\\ud800'),
    'I32: a NUL in the text': asData({ MessageReceived: fieldsOf({ body: `${MARKS.text}\u0000` }) }),
    'I33: no id': envelope({ id: { text: MARKS.text } }),
    'I34: an id like a name': envelope({ id: '__proto__' }),
    'I36: no cursor': envelope({ cursor: null }),
    'I37: a number for a cursor': envelope().replace(/"cursor":"(\d+)"/, '"cursor":900719925474099$1'),
    'I38: a cursor that is none': envelope({ cursor: `12${MARKS.phone}abc` }),
    'I39: a cursor of 1000 digits': envelope({ cursor: MARKS.phone.repeat(80) }),
    'I40: a cursor far ahead': envelope({ cursor: '4611686018427387904' }),
    'I48: the same id, other data': envelope({ id: 'evt_conflict', cursor: '900' }),
    'I48: again': envelope({
      id: 'evt_conflict',
      cursor: '900',
      data: { MessageReceived: fieldsOf({ body: `${MARKS.text} other` }) },
    }),
    'I50: the same cursor, other data': envelope({
      cursor: '900',
      data: { MessageReceived: fieldsOf({ push_name: `${MARKS.name} other` }) },
    }),
    'I51: the same id, another cursor': JSON.stringify({ ...twice, cursor: '901' }),
    'I52: an unknown type': envelope({ type: 'Unheard', data: { Unheard: fieldsOf() } }),
    'I53: two keys': asData({ MessageReceived: fieldsOf(), [MARKS.text]: fieldsOf() }),
    'I53: another key': asData({ [MARKS.text]: fieldsOf() }),
    'I54: a string for data': asData(TEXT),
    'I55: wrong types': asData({ MessageReceived: fieldsOf({ body: { text: MARKS.text }, from: [MARKS.phone] }) }),
    'I57: a session that is none': envelope({ session_id: MARKS.text }),
    'I58: a time that is none': envelope({ created_at: MARKS.text }),
    'I59: a time without end': envelope().replace(/"timestamp_unix_ms":\d+/, '"timestamp_unix_ms":1e400'),
    'I60: a ping': envelope({ type: 'webhook.ping', cursor: null, data: { message: TEXT } }),
    'I61: a large one': asData({ MessageReceived: fieldsOf({ body: MARKS.text.repeat(120_000) }) }),
  };
}

/** All requests. Their order matters, because some depend on earlier ones. */
export function catalogue(): [name: string, bytes: Buffer][] {
  const body = envelope();
  const skewed = String(now() - 1_000);
  return [
    ['I1: unsigned', post(body, [])],
    ['I2: an empty signature', headed(() => 'v1=')],
    ['I3: no v1=', headed((good) => good)],
    ['I4: 63 digits', headed((good) => `v1=${good.slice(1)}`)],
    ['I5: more behind it', headed((good) => `v1=${good}<${MARKS.header}>`)],
    ['I7: v0=', headed((good) => `v0=${good}`)],
    ['I8: bad and good', headed((good) => `v1=${'0'.repeat(64)},v1=${good}`)],
    ['I9: semicolons', headed((good) => `v1=${MARKS.header};v1=${good}`)],
    ['I10: many entries', headed((good) => `${`v1=${'0'.repeat(64)},`.repeat(50)}v1=${good}`)],
    ['I11: too many entries', headed((good) => `${`v1=${MARKS.header},`.repeat(2_000)}v1=${good}`)],
    [
      'I13: two timestamps',
      post(body, [
        ['X-Svc-Timestamp', String(now())],
        ['X-Svc-Timestamp', MARKS.phone],
        ['X-Svc-Signature', `v1=${signatureOf(body, now())}`],
      ]),
    ],
    ['I14: no timestamp', headed(right, MARKS.header)],
    ['I15: half a timestamp', headed(right, `${now()}.0`)],
    ['I16: the boundary shifted', headed(right, `${now()}.{"id":"${MARKS.header}`)],
    ['I17: milliseconds', headed(right, String(Date.now()))],
    ...[1, 2, 3].map((i): [string, Buffer] => [`I18: too old, ${i}`, headed(right, skewed)]),
    [
      'I20: a changed timestamp',
      post(body, [
        ['X-Svc-Timestamp', String(now() - 1)],
        ['X-Svc-Signature', `v1=${signatureOf(body, now())}`],
      ]),
    ],
    ...[1, 2, 3, 4].map((i): [string, Buffer] => [
      `I21: forged, ${i}`,
      headed(() => `v1=${signatureOf(body, now(), `whsec_${MARKS.header}`)}`),
    ]),
    ...Object.entries(bodies()).map(([name, bytes]): [string, Buffer] => [name, post(bytes)]),
    ['I45: once', post(body)],
    ['I45: again', post(body)],
    ['I61: too large', post(MARKS.text.repeat(1_300_000))],
    [
      'I62: a length without end',
      Buffer.concat([
        post(body, undefined, undefined, false).subarray(0, -body.length - 2),
        Buffer.from(`Content-Length: 1000000000000000\r\n\r\n${MARKS.text}`),
      ]),
    ],
    [
      'I63: two lengths',
      post(body, [
        ['Transfer-Encoding', 'chunked'],
        ['Content-Length', '5'],
      ]),
    ],
    [
      'I64: chunks without a signature',
      post(`5\r\n${MARKS.text.slice(0, 5)}\r\n0\r\n\r\n`, [['Transfer-Encoding', 'chunked']], undefined, false),
    ],
    ['I65: cut off', post(body).subarray(0, -10)],
    ['I67: compressed', post(gzipSync(body), [['Content-Encoding', `gzip, ${MARKS.header}`]])],
    ['I69: another content type', post(envelope(), [['Content-Type', `${MARKS.header};;;`]])],
    ['I70: an expectation', post(body, [['Expect', MARKS.header]])],
    ['I71: GET', post('', [], `GET /webhooks?token=${MARKS.header} HTTP/1.1`)],
    ['I71: TRACE', post('', [], 'TRACE /webhooks HTTP/1.1')],
    ['I71: no method', post('', [], `${MARKS.header} /webhooks HTTP/1.1`)],
    [
      'I72: another path',
      post(body, undefined, `POST /${MARKS.header}/${encodeURIComponent(MARKS.phone)}?key=${MARKS.header} HTTP/1.1`),
    ],
    ['I72: a path that cannot be decoded', post(body, undefined, `GET /%E0%A4%A?${MARKS.header} HTTP/1.1`)],
    ['I72: absolute', post(envelope(), undefined, `POST http://${MARKS.header}/webhooks HTTP/1.1`)],
    ['I73: a strange Host', post(body, [['Host', `${MARKS.header}@${MARKS.phone}`]])],
    ['an alien prefix', post(body, [['X-Acme-Signature', `v1=${MARKS.header}`]])],
    ['no HTTP at all', Buffer.from(`${MARKS.header} ${MARKS.text}\r\n\r\n`)],
  ];
}
