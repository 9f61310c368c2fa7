// Which deliveries are authentic, by their signature and timestamp headers (hazards C1, I1 to I20, I47).
import { describe, expect, test } from 'vitest';
import {
  bodyOf,
  deliver,
  head,
  hmac,
  openLine,
  pairs,
  raw,
  rows,
  SECONDS,
  SECRET,
  send,
  signed,
  startReceiver,
  statuses,
  T0,
} from './harness.ts';

const body = bodyOf();
const good = hmac(body);
const bad = 'ab'.repeat(32);
const OTHER = 'whsec_ffffffffffffffffffffffffffffffff';

/** Sends one delivery with exactly these header lines over a raw socket. */
async function statusOf(
  port: number,
  signature: string[],
  timestamp: string[] = [String(SECONDS)],
  bytes: Buffer = body,
): Promise<number | undefined> {
  const lines: [string, string][] = [
    ...signature.map((value): [string, string] => ['X-Svc-Signature', value]),
    ...timestamp.map((value): [string, string] => ['X-Svc-Timestamp', value]),
    ['Content-Length', String(bytes.length)],
  ];
  const text = head(lines);
  const encoding = Buffer.from(text, 'latin1').toString('latin1') === text ? 'latin1' : 'utf8';
  return statuses(await raw(port, Buffer.from(text, encoding), bytes))[0];
}

describe('a signature', () => {
  test('I1: that is missing is refused at once, with the body unread and the connection closed', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(
      head([
        ['X-Svc-Timestamp', String(SECONDS)],
        ['Content-Length', '1000000'],
      ]),
    );
    const text = await line.heard('\r\n\r\n');
    expect(statuses(text)).toEqual([401]);
    expect(text).toMatch(/^connection: close\r$/im);
    expect(text).toMatch(/\r\n\r\n$/);
    await line.closed();
    expect(await receiver.counters()).toEqual({ 'refused.no_signature': 1 });
  });

  test.each<[string, string[]]>([
    ['I2: that is empty', ['']],
    ['I2: of a prefix alone', ['v1=']],
    ['I3: of 64 hex digits without v1=', [good]],
    ['I4: of 63 hex digits', [`v1=${good.slice(0, 63)}`]],
    ['I4: of 65 hex digits', [`v1=${good}0`]],
    ['I5: with zz behind the right hex', [`v1=${good}zz`]],
    ['I5: with <script> behind the right hex', [`v1=${good}<script>`]],
    ['I5: with a NUL-like escape behind the right hex', [`v1=${good}%00`]],
    ['I7: named v0', [`v0=${good}`]],
    ['I7: named v2', [`v2=${good}`]],
    ['I7: named V1', [`V1=${good}`]],
    ['I9: in a list separated by ;', [`v1=${bad};v1=${good}`]],
    ['I10: last of 230 entries', [`${`v1=${bad},`.repeat(229)}v1=${good}`]],
    ['I10: last of nine entries', [`${`v1=${bad},`.repeat(8)}v1=${good}`]],
    ['that is not ours', [`v1=${bad}`]],
    ['with a blank between prefix and hex', [`v1= ${good}`]],
    ['in quotes', [`"v1=${good}"`]],
    ['of full-width digits', [`v1=${'１'.repeat(64)}`]],
  ])('%s is refused', async (_, signature) => {
    const receiver = await startReceiver();
    expect(await statusOf(receiver.port, signature)).toBe(401);
    expect(rows(receiver)).toBe(0);
  });

  test('I11: of 10,000 entries is refused by Node before the kit runs', async () => {
    const receiver = await startReceiver();
    expect(await statusOf(receiver.port, [`${`v1=${bad},`.repeat(9_999)}v1=${good}`])).toBe(431);
    expect(await receiver.counters()).toEqual({ 'refused.bad_http': 1 });
  });

  test.each<[string, string[]]>([
    ['I6: in upper-case hex', [`v1=${good.toUpperCase()}`]],
    ['I8: behind a wrong one', [`v1=${bad},v1=${good}`]],
    ['I8: before a wrong one', [`v1=${good},v1=${bad}`]],
    ['I9: behind a comma and a blank', [`v1=${bad}, v1=${good}`]],
    ['I10: eighth of eight entries', [`${`v1=${bad},`.repeat(7)}v1=${good}`]],
    ['I12: in the second of two header lines', [`v1=${bad}`, `v1=${good}`]],
    ['beside versions that are not known', [`v2=whatever,v1=${good}`]],
    ['beside an empty entry', [`,v1=${good},`]],
  ])('%s is accepted', async (_, signature) => {
    const receiver = await startReceiver();
    expect(await statusOf(receiver.port, signature)).toBe(204);
    expect(rows(receiver)).toBe(1);
  });

  test('by the older or the newer secret, or by both, is accepted during a rotation', async () => {
    const receiver = await startReceiver({ secrets: [SECRET, OTHER] });
    for (const secret of [SECRET, OTHER, OTHER])
      expect(await deliver(receiver.port, body, signed(body, SECONDS, secret))).toBe(204);
    const both = `v1=${hmac(body, SECONDS, OTHER)},v1=${good}`;
    expect(await statusOf(receiver.port, [both])).toBe(204);
    expect(await receiver.counters()).toMatchObject({ accepted: 1, duplicates: 3 });
  });

  test('by a removed secret is refused, and one by the new secret is accepted', async () => {
    const receiver = await startReceiver();
    receiver.verifier.useSecrets([OTHER]);
    expect(await deliver(receiver.port, body)).toBe(401);
    expect(await deliver(receiver.port, body, signed(body, SECONDS, OTHER))).toBe(204);
  });

  test('I79: by an empty secret, or by one with a trailing newline, is refused', async () => {
    const receiver = await startReceiver();
    for (const secret of ['', `${SECRET}\n`, SECRET.slice('whsec_'.length)]) {
      expect(await deliver(receiver.port, body, signed(body, SECONDS, secret))).toBe(401);
    }
    expect(rows(receiver)).toBe(0);
  });

  test('I79: is never valid if no secret is configured', async () => {
    const receiver = await startReceiver({ secrets: [] });
    expect(await deliver(receiver.port, body)).toBe(401);
    expect(await deliver(receiver.port, body, signed(body, SECONDS, ''))).toBe(401);
  });

  test('that is invalid gets the same answer as an invalid timestamp, so that strangers learn nothing about our clock', async () => {
    const receiver = await startReceiver();
    const answers = [
      await send(receiver.port, body, { headers: { 'X-Svc-Timestamp': 'abc' } }),
      await send(receiver.port, body, { headers: { ...signed(body), 'X-Svc-Timestamp': 'abc' } }),
      await send(receiver.port, body, { headers: { ...signed(body), 'X-Svc-Signature': `v1=${bad}` } }),
      await send(receiver.port, body, { headers: signed(body, SECONDS - 400) }),
    ];
    // `connection` and `keep-alive` are left out, because they depend on how much of the body had been read.
    const names = (headers: object): string[] =>
      Object.keys(headers).filter((name) => name !== 'connection' && name !== 'keep-alive');
    const shown = answers.map(({ status, text, headers }) => ({ status, text, names: names(headers) }));
    expect(new Set(shown.map((answer) => JSON.stringify(answer))).size).toBe(1);
    expect(shown[0]).toMatchObject({ status: 401, text: '' });
    expect(await receiver.counters()).toEqual({
      'refused.no_signature': 1,
      'refused.bad_timestamp': 1,
      'refused.bad_signature': 1,
      'refused.clock_skew': 1,
    });
  });

  test('E86: under another header prefix is refused, and the log says once which prefix to set', async () => {
    const receiver = await startReceiver();
    const hints = (): unknown[] => receiver.lines.filter(({ msg }) => String(msg).includes('WEBHOOK_HEADER_PREFIX'));
    const under = (prefix: string, signature = good, timestamp = SECONDS) => ({
      [`${prefix}Signature`]: `v1=${signature}`,
      [`${prefix}Timestamp`]: timestamp,
    });
    const strangers = [
      under('X-Stranger-', '0'.repeat(64)),
      under('X-Stranger-', hmac(body, SECONDS - 400), SECONDS - 400),
      { 'X-Stranger-Signature': `v1=${good}`, 'X-Acme-Timestamp': SECONDS },
      { ...under('X-Stranger-'), Expect: '100-continue' },
    ];
    for (const headers of strangers) expect((await send(receiver.port, body, { headers })).status).toBe(401);
    expect((await send(receiver.port, `${body.toString()} `, { headers: under('X-Stranger-') })).status).toBe(401);
    expect(hints()).toEqual([]);
    for (let i = 0; i < 3; i++)
      expect((await send(receiver.port, body, { headers: under('X-Acme-') })).status).toBe(401);
    expect(hints()).toMatchObject([{ prefix: 'x-acme-' }]);
    expect(rows(receiver)).toBe(0);
  });
});

describe('a timestamp', () => {
  test('I13: on two header lines is refused, even if both are the same', async () => {
    const receiver = await startReceiver();
    for (const second of [SECONDS, SECONDS - 1]) {
      expect(await statusOf(receiver.port, [`v1=${good}`], [String(SECONDS), String(second)])).toBe(401);
    }
  });

  test('I14: that is missing is refused', async () => {
    const receiver = await startReceiver();
    expect(await statusOf(receiver.port, [`v1=${good}`], [])).toBe(401);
    expect(await receiver.counters()).toEqual({ 'refused.bad_timestamp': 1 });
  });

  test.each([
    ['I14', ''],
    ['I14', ' '],
    ['I14', 'abc'],
    ['I14', 'NaN'],
    ['I14', 'Infinity'],
    ['I14', '-1'],
    ['I15', '1.7e9'],
    ['I15', '0x6553F100'],
    ['I15', `+${SECONDS}`],
    ['I15', `${SECONDS}.0`],
    ['I15', `${SECONDS}.`],
    ['I15', `0${SECONDS}`],
    ['I15', `${SECONDS}\u00a0`],
    ['I15', `\u00a0${SECONDS}`],
    ['I15', '１７６７２６８８００'],
    ['I15', `${SECONDS},`],
    ['I17', String(T0)],
  ])('%s: %j is refused, although it was signed in this form', async (_, timestamp) => {
    const receiver = await startReceiver();
    expect(await statusOf(receiver.port, [`v1=${hmac(body, timestamp)}`], [timestamp])).toBe(401);
    expect(await statusOf(receiver.port, [`v1=${good}`], [timestamp])).toBe(401);
    expect(rows(receiver)).toBe(0);
  });

  test('I16: that contains the beginning of the body is refused', async () => {
    const receiver = await startReceiver();
    const text = body.toString();
    // The signed text is the same, but split elsewhere: `<ts>.{"id":…` as the timestamp, the rest as the body.
    for (const at of [1, 8, 20]) {
      const timestamp = `${SECONDS}.${text.slice(0, at)}`;
      const rest = Buffer.from(text.slice(at + 1));
      const signature = `v1=${hmac(`${text.slice(0, at)}.${rest.toString()}`)}`;
      expect(await statusOf(receiver.port, [signature], [timestamp], rest)).toBe(401);
    }
    expect(rows(receiver)).toBe(0);
  });

  test.each([
    [-299, 204],
    [-300, 204],
    [-301, 401],
    [299, 204],
    [300, 204],
    [301, 401],
  ])('I18, I19: that is %d s from our clock is answered with %d', async (seconds, status) => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, signed(body, SECONDS + seconds))).toBe(status);
    expect(rows(receiver)).toBe(status === 204 ? 1 : 0);
  });

  test('I18: is compared in whole seconds, because whole seconds are signed', async () => {
    const receiver = await startReceiver();
    receiver.clock.at = T0 + 300_999;
    expect(await deliver(receiver.port, body)).toBe(204);
    receiver.clock.at = T0 + 301_000;
    expect(await deliver(receiver.port, body)).toBe(401);
  });

  test('I19: outside the window with a valid signature is a clock skew, and counts as a failed delivery', async () => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, signed(body, SECONDS + 400))).toBe(401);
    expect(receiver.answered).toEqual([{ status: 401, cause: 'clock_skew' }]);
  });

  test('I19: outside the window with an invalid signature does not count as a failed delivery', async () => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, { ...signed(body, SECONDS + 400), 'X-Svc-Signature': `v1=${bad}` })).toBe(
      401,
    );
    expect(receiver.answered).toEqual([]);
    expect(await receiver.counters()).toEqual({ 'refused.bad_signature': 1 });
  });

  test.each([-86_401, 86_401])('I17: more than a day off (%d s) is refused with the body unread', async (seconds) => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(
      head([
        ...Object.entries(signed(body, SECONDS + seconds)).map(([name, value]): [string, string] => [
          name,
          String(value),
        ]),
        ['Content-Length', '5000'],
      ]),
    );
    expect(statuses(await line.heard('\r\n\r\n'))).toEqual([401]);
    expect(await receiver.counters()).toEqual({ 'refused.far_timestamp': 1 });
  });

  test('I20: that was changed by one second after signing is refused', async () => {
    const receiver = await startReceiver();
    for (const by of [-1, 1]) expect(await deliver(receiver.port, body, { 'X-Svc-Timestamp': SECONDS + by })).toBe(401);
    expect(rows(receiver)).toBe(0);
  });

  test('I47: of a captured request is accepted as a duplicate for five minutes, and then refused', async () => {
    const receiver = await startReceiver();
    const lines = head(pairs(body));
    expect(statuses(await raw(receiver.port, lines, body))).toEqual([204]);
    receiver.clock.at = T0 + 300_000;
    expect(statuses(await raw(receiver.port, lines, body))).toEqual([204]);
    receiver.clock.at = T0 + 301_000;
    expect(statuses(await raw(receiver.port, lines, body))).toEqual([401]);
    expect(await receiver.counters()).toMatchObject({ accepted: 1, duplicates: 1, 'refused.clock_skew': 1 });
  });
});
