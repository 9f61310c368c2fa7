// What the public listener answers to whom, over real HTTP.
import { connect } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { until } from '../harness.ts';
import { bodyOf, SECRET, startReceiver } from './fixture.ts';

const BODY = bodyOf();
type Kit = Awaited<ReturnType<typeof startReceiver>>;
type Headers = Record<string, string | string[]>;

describe('a request is refused before its body is trusted:', () => {
  const hexOf = (kit: Kit): string => kit.headers(BODY)['x-svc-signature']?.slice(3) ?? '';
  const sign =
    (make: (hex: string) => string | string[]) =>
    (kit: Kit): Headers => ({ ...kit.headers(BODY), 'x-svc-signature': make(hexOf(kit)) });
  const stamp =
    (value: string | string[]) =>
    (kit: Kit): Headers => ({ ...kit.headers(BODY), 'x-svc-timestamp': value });
  test.each<[string, number, string, (kit: Kit) => Headers]>([
    ['no signature', 401, 'no_signature', () => ({ 'x-svc-timestamp': '1800000000' })],
    ['an empty signature', 401, 'no_signature', sign(() => '')],
    ['no v1=', 401, 'no_signature', sign((hex) => hex)],
    ['63 digits', 401, 'no_signature', sign((hex) => `v1=${hex.slice(1)}`)],
    ['good digits and more', 401, 'no_signature', sign((hex) => `v1=${hex}zz`)],
    ['another version', 401, 'no_signature', sign((hex) => `v2=${hex}`)],
    ['an upper-case version', 401, 'no_signature', sign((hex) => `V1=${hex}`)],
    ['semicolons', 401, 'no_signature', sign((hex) => `v1=${'0'.repeat(64)};v1=${hex}`)],
    [
      'too many signatures',
      401,
      'no_signature',
      sign((hex) => [...Array(9).fill(`v1=${'0'.repeat(64)}`), `v1=${hex}`].join(',')),
    ],
    ['another secret', 401, 'bad_signature', (kit) => kit.headers(BODY, { secret: 'whsec_two' })],
    [
      'no timestamp',
      401,
      'bad_timestamp',
      (kit) => ({ 'x-svc-signature': kit.headers(BODY)['x-svc-signature'] ?? '' }),
    ],
    ['two timestamps', 401, 'bad_timestamp', stamp(['1800000000', '1800000000'])],
    ['a timestamp in words', 401, 'bad_timestamp', stamp('NaN')],
    ['a timestamp with a fraction', 401, 'bad_timestamp', stamp('1800000000.0')],
    ['milliseconds', 401, 'bad_timestamp', stamp('1800000000000')],
    ['a moved boundary', 401, 'bad_timestamp', stamp('1800000000.{"id":"evt_1"')],
    ['a timestamp changed by one', 401, 'bad_signature', stamp('1800000001')],
    ['301 s of age', 401, 'clock_skew', (kit) => kit.headers(BODY, { at: 1_800_000_000 - 301 })],
    ['301 s ahead', 401, 'clock_skew', (kit) => kit.headers(BODY, { at: 1_800_000_000 + 301 })],
    ['compression', 415, 'content_encoding', (kit) => ({ ...kit.headers(BODY), 'content-encoding': 'gzip' })],
  ])('%s → %i %s', async (_, status, cause, headers) => {
    const kit = await startReceiver();
    const answer = await kit.ask(BODY, { headers: headers(kit) });
    await kit.receiver.flush();
    expect([answer.statusCode, answer.text, kit.accepted.length, kit.counts[`refused.${cause}`]]).toEqual([
      status,
      '',
      0,
      1,
    ]);
  });

  const BAD = `v1=${'0'.repeat(64)}`;
  const also = (more: Headers) => (kit: Kit) => ({ ...kit.headers(BODY), ...more });
  test.each<[string, (kit: Kit) => Headers]>([
    ['300 s of age', (kit) => kit.headers(BODY, { at: 1_800_000_000 - 300 })],
    ['upper-case digits', sign((hex) => `v1=${hex.toUpperCase()}`)],
    ['a bad and a good signature', sign((hex) => `${BAD},v1=${hex}`)],
    ['a good and a bad one, with a space', sign((hex) => `v1=${hex}, ${BAD}`)],
    ['no content type', also({})],
    ['a foreign content type', also({ 'content-type': 'multipart/form-data; boundary=x' })],
    ['chunks without a length', also({ 'transfer-encoding': 'chunked' })],
    ['identity encoding', also({ 'content-encoding': 'identity' })],
  ])('%s is taken', async (_, headers) => {
    const kit = await startReceiver();
    expect((await kit.ask(BODY, { headers: headers(kit) })).statusCode).toBe(204);
    expect(kit.accepted).toHaveLength(1);
  });

  test('other paths and methods, unreadable HTTP and expectations get their own answers', async () => {
    const kit = await startReceiver({ BODY_LIMIT_BYTES: '2048' });
    const of = async (method: string, path: string): Promise<number | undefined> =>
      (await kit.ask(Buffer.alloc(0), { method, path, headers: {} })).statusCode;
    expect(
      await Promise.all([
        of('GET', '/webhooks'),
        of('POST', '/webhooks/'),
        of('POST', '/WEBHOOKS'),
        of('GET', '/livez'),
        of('GET', '/readyz'),
      ]),
    ).toEqual([405, 404, 404, 200, 200]);
    expect(await kit.raw('POST /webhooks HTTP/1.1\r\nHost: a\r\nContent-Length: 5,5\r\n\r\n')).toBe(
      'HTTP/1.1 400 Bad Request',
    );
    expect(await kit.raw('POST /webhooks HTTP/1.1\r\nHost: a\r\nExpect: kittens\r\nConnection: close\r\n\r\n')).toBe(
      'HTTP/1.1 417 Expectation Failed',
    );
    const live = 'GET /livez HTTP/1.1\r\nHost: a\r\n\r\n';
    expect(await kit.raw(live, 'no HTTP\r\n\r\n')).toContain('400 Bad Request');
    expect(await kit.raw(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`)).toContain('431');
    const large = Buffer.alloc(2_049, 'x');
    expect((await kit.ask(large)).statusCode).toBe(413);
    expect(
      (await kit.ask(large, { headers: { ...kit.headers(large), 'transfer-encoding': 'chunked' } })).statusCode,
    ).toBe(413);
    await kit.receiver.flush();
    expect(kit.counts).toMatchObject({ 'refused.method': 1, 'refused.path': 2, 'refused.body_limit': 2 });
  });
});

test('100 Continue is said only after the headers have passed', async () => {
  const kit = await startReceiver();
  const { 'x-svc-timestamp': at, 'x-svc-signature': signature } = kit.headers(BODY);
  const head = (sig: string): string =>
    `POST /webhooks HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: ${BODY.length}\r\nX-Svc-Timestamp: ${at}\r\nX-Svc-Signature: ${sig}\r\n\r\n`;
  expect(await kit.raw(head('v1=no'))).toBe('HTTP/1.1 401 Unauthorized');
  expect(await kit.raw(`${head(signature ?? '')}${BODY.toString()}`)).toBe('HTTP/1.1 100 Continue');
  expect(kit.accepted).toHaveLength(1);
});

test('a rotation of secrets refuses no delivery', async () => {
  const kit = await startReceiver();
  const both = loadConfig({ WEBHOOK_SECRET: `whsec_two,${SECRET}` });
  kit.receiver.useSecrets(both);
  const answers = await Promise.all([
    kit.ask(BODY),
    kit.ask(BODY, { headers: kit.headers(BODY, { secret: 'whsec_two' }) }),
  ]);
  kit.receiver.useSecrets(loadConfig({ WEBHOOK_SECRET: 'whsec_two' }));
  expect([...answers.map(({ statusCode }) => statusCode), (await kit.ask(BODY)).statusCode]).toEqual([204, 204, 401]);
});

test('deliveries that come together share a commit, and are answered in order on one connection', async () => {
  const kit = await startReceiver();
  const one = (n: number): string => {
    const body = bodyOf({ id: `evt_${n}` });
    const own = kit.headers(body);
    return `POST /webhooks HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\nX-Svc-Timestamp: ${own['x-svc-timestamp']}\r\nX-Svc-Signature: ${own['x-svc-signature']}\r\n${n === 19 ? 'Connection: close\r\n' : ''}\r\n${body.toString()}`;
  };
  expect(await kit.raw(Array.from({ length: 20 }, (_, n) => one(n)).join(''))).toBe('HTTP/1.1 204 No Content');
  expect(kit.accepted).toHaveLength(20);
});

test.each(['busy', 'io', 'full'] as const)(
  'while the store is %s deliveries wait, and get 503 after 8 s',
  async (code) => {
    const kit = await startReceiver();
    kit.fail(code);
    let status: number | undefined;
    void kit.ask(BODY).then(({ statusCode }) => (status = statusCode));
    await until('the answer', () => {
      kit.time.monotonic += 1_500;
      return status !== undefined;
    });
    expect(status).toBe(503);
    expect((await kit.ask(Buffer.alloc(0), { method: 'GET', path: '/readyz', headers: {} })).statusCode).toBe(503);
    const { reopened, madeRoom } = kit.told;
    expect([reopened > 0, madeRoom > 0]).toEqual([code === 'io', code === 'full']);
    const soon = kit.ask(BODY);
    kit.fail(undefined);
    expect((await soon).statusCode).toBe(204);
    await kit.receiver.flush();
    expect(kit.state).toMatchObject({ failures_in_a_row: 0 });
  },
);

test('while a disk hangs, what waits gets 503 after 8 s, and what was being written may be on it', async () => {
  const kit = await startReceiver();
  const { promise, resolve } = Promise.withResolvers<void>();
  void kit.hold(promise);
  let status: number | undefined;
  void kit.ask(BODY).then(({ statusCode }) => (status = statusCode));
  await until('the answer', () => {
    kit.time.monotonic += 1_500;
    void kit.receiver.flush();
    return status !== undefined;
  });
  resolve();
  await kit.receiver.flush();
  expect([status, kit.accepted.length]).toEqual([503, 1]);
});

test.each([
  ['of the kit', 'kit_1', 1],
  ['of the service', 'evt_1', 0],
])('a test %s that is accepted leaves the failures in a row at %s', async (_, id, failures) => {
  const kit = await startReceiver();
  await kit.ask(BODY, { headers: kit.headers(BODY, { secret: 'whsec_wrong' }) });
  await kit.ask(bodyOf({ id }));
  await kit.receiver.flush();
  expect(kit.state).toMatchObject({ failures_in_a_row: failures });
});

test('a drain answers what has begun, and refuses new connections', async () => {
  const kit = await startReceiver();
  const { promise, resolve } = Promise.withResolvers<void>();
  void kit.hold(promise);
  const begun = kit.ask(BODY);
  await until(
    'it to arrive',
    async () => (await new Promise<number>((found) => kit.receiver.server.getConnections((_, n) => found(n)))) > 0,
  );
  await turn();
  kit.receiver.stopSoon();
  expect((await kit.ask(Buffer.alloc(0), { method: 'GET', path: '/readyz', headers: {} })).text).toBe('draining\n');
  const drained = kit.receiver.drain();
  resolve();
  expect((await begun).statusCode).toBe(204);
  await drained;
  await expect(kit.ask(BODY)).rejects.toThrow('ECONNREFUSED');
});

test('senders that leave in the middle of a body leave nothing behind', async () => {
  const kit = await startReceiver();
  const { 'x-svc-timestamp': at, 'x-svc-signature': signature } = kit.headers(BODY);
  for (let n = 0; n < 50; n++) {
    const socket = connect(kit.port, '127.0.0.1');
    socket.write(
      `POST /webhooks HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\nX-Svc-Timestamp: ${at}\r\nX-Svc-Signature: ${signature}\r\n\r\n{`,
      () => socket.destroy(),
    );
  }
  await until('all to be counted', async () => {
    await kit.receiver.flush();
    return (kit.counts['refused.body_aborted'] ?? 0) === 50;
  });
  expect((await kit.ask(BODY)).statusCode).toBe(204);
});

test('many large bodies at once are all taken, in turn', async () => {
  const kit = await startReceiver();
  const bodies = Array.from({ length: 20 }, (_, n) =>
    bodyOf({ id: `evt_${n}`, data: { MessageReceived: { body: 'x'.repeat(4 * 2 ** 20) } } }),
  );
  const answers = await Promise.all(bodies.map((body) => kit.ask(body)));
  expect(new Set(answers.map(({ statusCode }) => statusCode))).toEqual(new Set([204]));
});
