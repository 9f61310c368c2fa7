// How bodies arrive: lengths, encodings, budgets, and senders that pause, disconnect or send too much (hazards C1, I61
// to I70 and I75).
import { randomBytes } from 'node:crypto';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { createBodyReader } from '../../src/receive/body.ts';
import { signedHeaders } from '../../src/wire/sign.ts';
import { chunk, chunked, LAST_CHUNK, MB, sized, watched } from './bodies.ts';
import {
  BODY_LIMIT,
  bodyOf,
  deliver,
  head,
  kept,
  openLine,
  pairs,
  raw,
  rows,
  SECONDS,
  SECRET,
  signed,
  startReceiver,
  statuses,
  until,
  type Line,
} from './harness.ts';

const body = bodyOf();

describe('the size of a body', () => {
  test.each([MB + 1, 5 * MB, BODY_LIMIT])('I61: %d bytes are accepted, and kept as they came', async (bytes) => {
    const receiver = await startReceiver();
    const large = sized(bytes);
    expect(large).toHaveLength(bytes);
    expect(await deliver(receiver.port, large)).toBe(204);
    expect(kept(receiver).events[0]?.body.equals(large)).toBe(true);
  });

  test('I61: one byte above the limit is refused unread, and logged with the variable to raise', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(head(pairs(sized(BODY_LIMIT + 1))));
    const text = await line.heard('\r\n\r\n');
    expect(statuses(text)).toEqual([413]);
    expect(text).toMatch(/^connection: close\r$/im);
    expect(await receiver.counters()).toEqual({ 'refused.body_limit': 1 });
    expect(receiver.lines).toMatchObject([{ cause: 'body_limit', msg: expect.stringContaining('BODY_LIMIT_BYTES') }]);
  });

  test.each([
    ['2^32 + 5', String(2 ** 32 + 5), 413],
    ['10^15', String(10 ** 15), 413],
    ['-1', '-1', 400],
    ['5,5', '5,5', 400],
    ['5 5', '5 5', 400],
    ['0x10', '0x10', 400],
    ['+5', '+5', 400],
    ['1e3', '1e3', 400],
    ['10^30', `1${'0'.repeat(30)}`, 400],
  ])('I62: a Content-Length of %s is refused with nothing allocated', async (_, length, status) => {
    const receiver = await startReceiver();
    const text = await raw(receiver.port, head([...pairs(body, false), ['Content-Length', length]]), body);
    expect(statuses(text)).toEqual([status]);
    expect(text).toMatch(/^connection: close\r$/im);
    expect(rows(receiver)).toBe(0);
  });

  test('I64: may be unknown beforehand: a body in chunks is accepted', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(head([...pairs(body, false), chunked]));
    for (const byte of body) line.write(chunk(Buffer.from([byte])));
    line.write(LAST_CHUNK);
    expect(statuses(await line.heard('\r\n\r\n'))).toEqual([204]);
    expect(kept(receiver).events[0]?.body.equals(body)).toBe(true);
  });

  test('I64: is also limited if the body comes in chunks', async () => {
    const receiver = await startReceiver({ bodyLimit: 100_000 });
    const exact = sized(100_000);
    const over = sized(100_001, '2');
    for (const [bytes, status] of [
      [exact, 204],
      [over, 413],
    ] as const) {
      const text = await raw(receiver.port, head([...pairs(bytes, false), chunked]), chunk(bytes), LAST_CHUNK);
      expect(statuses(text)).toEqual([status]);
    }
    expect(rows(receiver)).toBe(1);
  });
});

describe('a body that is too large', () => {
  /** Writes as fast as the other side reads, until it answers or closes. */
  async function pour(line: Line, part: Buffer): Promise<string> {
    line.socket.on('drain', more);
    function more(): void {
      while (line.socket.writable && line.text() === '' && line.socket.write(part));
    }
    more();
    return line.heard('\r\n\r\n');
  }

  test.each([
    ['in chunks', chunked, chunk(randomBytes(65_536))],
    ['of a known length', ['Content-Length', String(200 * MB)] as [string, string], randomBytes(65_536)],
  ])('%s gets 413, and the status arrives although the sender is still sending', async (_, length, part) => {
    const receiver = await startReceiver({ bodyLimit: MB });
    const line = await openLine(receiver.port);
    line.write(head([...pairs(body, false), length]));
    const text = await pour(line, part);
    expect(statuses(text)).toEqual([413]);
    expect(text).toMatch(/^connection: close\r$/im);
    expect(line.broken()).toBe(false);
    await line.closed();
    expect(rows(receiver)).toBe(0);
  });

  test('is cut off a moment after the answer if the sender ignores the answer', async () => {
    const receiver = await startReceiver({ bodyLimit: 100_000 });
    const line = await openLine(receiver.port, { stubborn: true });
    line.write(head([...pairs(body, false), ['Content-Length', String(200 * MB)]]));
    await line.heard('\r\n\r\n');
    const part = Buffer.alloc(10_000);
    await until(() => !line.socket.writable || !line.socket.write(part) || line.socket.closed);
    expect(statuses(await line.closed())).toEqual([413]);
  });
});

describe('a refused body', () => {
  const complete: [string, string][] = [
    ['X-Svc-Event-Id', 'evt_1'],
    ['X-Svc-Event-Type', 'MessageReceived'],
    ['X-Svc-Delivery-Id', 'dlv_1'],
    ['X-Svc-Attempt', '1'],
  ];

  test.each([
    ['body_dropped', 408, 200_000, 'identity'],
    ['body_limit', 413, BODY_LIMIT + 1, 'identity'],
    ['content_encoding', 415, 200_000, 'gzip'],
  ])(
    'E82: %s counts for the failure run if the headers are those of a delivery',
    async (cause, status, length, encoding) => {
      const receiver = await startReceiver({ bodies: createBodyReader(100_000) });
      for (const headers of [complete.slice(1), complete]) {
        const more: [string, string][] = [
          ['Content-Length', String(length)],
          ['Content-Encoding', encoding],
        ];
        const lines = [...pairs(body, false), ...headers, ...more];
        const text = await raw(receiver.port, head(lines), Buffer.alloc(150_000));
        expect(statuses(text)).toEqual([status]);
      }
      expect(receiver.answered).toEqual([{ status, cause }]);
      expect((await receiver.status()).failureRun).toBe(1);
    },
  );
});

describe('a delivery whose timestamp is more than a day off', () => {
  const headersOf = (id: string, timestamp: number): Record<string, string> =>
    signedHeaders({ body, secrets: [SECRET], type: 'x', id, deliveryId: 'd', attempt: 1, timestampSeconds: timestamp });

  test.each([-2 * 86_400, 40 * 86_400])('counts for the failure run, as the clock may be wrong (%d s)', async (off) => {
    const receiver = await startReceiver();
    const headers = headersOf('evt_1', SECONDS + off);
    for (let n = 0; n < 3; n++) expect(await deliver(receiver.port, body, headers)).toBe(401);
    expect(await receiver.status()).toMatchObject({ failureRun: 3, failures: { causes: { far_timestamp: 3 } } });
    expect(await deliver(receiver.port, body)).toBe(204);
    expect((await receiver.status()).failureRun, 'a good delivery shows that the clock is right').toBe(0);
  });

  test('does not count without all headers of a delivery', async () => {
    const receiver = await startReceiver();
    for (const missing of ['X-Svc-Event-Id', 'X-Svc-Event-Type', 'X-Svc-Delivery-Id', 'X-Svc-Attempt']) {
      const { [missing]: _, ...headers } = headersOf('evt_1', SECONDS + 2 * 86_400);
      expect(await deliver(receiver.port, body, headers)).toBe(401);
    }
    expect(await receiver.counters()).toEqual({ 'refused.far_timestamp': 4 });
    expect((await receiver.status()).failureRun).toBe(0);
  });

  test.each(['doctor_1', 'trigger_1'])('does not count if the kit itself has sent it (%s)', async (id) => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, headersOf(id, SECONDS - 3 * 86_400))).toBe(401);
    expect(await receiver.counters()).toEqual({ 'refused.far_timestamp': 1 });
    expect((await receiver.status()).failureRun).toBe(0);
  });
});

describe('a request that is not well formed', () => {
  test.each<[string, string, string]>([
    ['I63: Content-Length and Transfer-Encoding', head([...pairs(body), chunked]), chunk(body).toString() + LAST_CHUNK],
    ['I63: two lengths', head([...pairs(body), ['Content-Length', '5']]), body.toString()],
    ['I63: two lengths that agree', head([...pairs(body), ['Content-Length', String(body.length)]]), body.toString()],
    ['I63: bare newlines', head(pairs(body)).replaceAll('\r\n', '\n'), body.toString()],
    ['I63: a folded header line', head(['X-Long: a\r\n folded', ...pairs(body)]), body.toString()],
    ['I63: a blank before the colon', head(['X-Long : a', ...pairs(body)]), body.toString()],
    ['I63: a NUL in a header', head(['X-Nul: a\u0000b', ...pairs(body)]), body.toString()],
    ['I63: chunk sizes that are no numbers', head([...pairs(body, false), chunked]), 'zz\r\n'],
    ['I63: another transfer encoding', head([...pairs(body, false), ['Transfer-Encoding', 'gzip']]), body.toString()],
    [
      'I63: chunked, twice',
      head([...pairs(body, false), ['Transfer-Encoding', 'chunked, chunked']]),
      chunk(body).toString() + LAST_CHUNK,
    ],
    ['I44: a CRLF smuggled into a header', head(['X-Svc-Delivery-Id: a\rX-Evil: b', ...pairs(body)]), body.toString()],
    ['no request at all', '\u0016\u0003\u0001\u0002\u0000\u0001', '\r\n\r\n'],
  ])('%s: refused before authentication, the connection closed, nothing kept', async (_, start, rest) => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(start);
    line.write(rest);
    const text = await line.closed();
    expect(text === '' ? 400 : statuses(text)[0]).toSatisfy(
      (status: number) => [400, 401, 408, 413].includes(status),
      text,
    );
    expect(statuses(text)).not.toContain(204);
    expect(rows(receiver)).toBe(0);
  });

  test('I63: a flood of chunk extensions is cut off', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(head([...pairs(body, false), chunked]));
    line.write(`1;${'x'.repeat(20_000)}`);
    const text = await line.closed();
    expect(statuses(text).every((status) => status === 413 || status === 400 || status === 408)).toBe(true);
    expect(rows(receiver)).toBe(0);
  });

  test('I65: bytes after the declared length are neither part of the body nor a second delivery', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(head(pairs(body)));
    line.write(Buffer.concat([body, Buffer.from('trailing')]));
    const text = await line.closed();
    expect(statuses(text).at(-1)).toBe(400);
    expect(kept(receiver).events.every((event) => event.body.equals(body))).toBe(true);
    expect(kept(receiver).quarantine).toEqual([]);
  });

  test('I65: a declared length that is shorter than the signed body is refused', async () => {
    const receiver = await startReceiver();
    const text = await raw(
      receiver.port,
      head([...pairs(body, false), ['Content-Length', String(body.length - 1)]]),
      body,
    );
    expect(statuses(text)[0]).toSatisfy((status: number) => status === 401 || status === 400);
    expect(rows(receiver)).toBe(0);
  });

  test('I65: a connection that ends before the declared length leaves nothing', async () => {
    const bodies = watched(createBodyReader());
    const receiver = await startReceiver({ bodies });
    const line = await openLine(receiver.port);
    line.write(head([...pairs(body, false), ['Content-Length', String(body.length + 1)]]));
    line.write(body);
    line.socket.end();
    expect(statuses(await line.closed()).every((status) => status === 400 || status === 408)).toBe(true);
    expect([rows(receiver), bodies.reading()]).toEqual([0, 0]);
  });

  test('I65, I75: a sender that stops in the middle gets 408 when its time is up', async () => {
    const receiver = await startReceiver();
    receiver.server.requestTimeout = 100;
    receiver.server.headersTimeout = 50;
    const [slowBody, slowHead] = [await openLine(receiver.port), await openLine(receiver.port)];
    slowBody.write(head(pairs(body)));
    slowBody.write(body.subarray(0, 10));
    slowHead.write(`POST /webhooks HTTP/1.1\r\nHost: x\r\nX-Svc-`);
    expect(statuses(await slowBody.closed())).toEqual([408]);
    expect(statuses(await slowHead.closed())).toEqual([408]);
    expect(rows(receiver)).toBe(0);
    expect(await deliver(receiver.port, body)).toBe(204);
  });

  test('I75: no request may take more than 15 s', async () => {
    const { server } = await startReceiver();
    const { headersTimeout, requestTimeout } = server;
    expect(headersTimeout).toBeGreaterThan(0);
    expect(requestTimeout).toBeGreaterThan(10_000);
    expect(Math.max(headersTimeout, requestTimeout)).toBeLessThan(15_000);
    // Longer than load balancers keep an idle connection, so that they reuse none that the server is closing.
    expect(server.keepAliveTimeout).toBeGreaterThanOrEqual(75_000);
    expect(server.maxRequestsPerSocket).toBe(0);
  });
});

describe('a sender that disconnects', () => {
  test.each<[string, [string, string][]]>([
    ['plainly', []],
    ['with gzip', [['Content-Encoding', 'gzip']]],
    ['with br', [['Content-Encoding', 'br']]],
  ])('I66: in the middle of a body, %s, 300 times, leaves nothing pending', async (_, more) => {
    const bodies = watched(createBodyReader());
    const receiver = await startReceiver({ bodies });
    const lines = await Promise.all(Array.from({ length: 300 }, () => openLine(receiver.port)));
    for (const line of lines)
      line.write(Buffer.concat([Buffer.from(head([...pairs(body), ...more])), body.subarray(0, 20)]));
    if (more.length === 0) await until(() => bodies.arrived() === 300 * 20);
    for (const [index, { socket }] of lines.entries()) {
      if (index % 2) socket.destroy();
      else socket.resetAndDestroy();
    }
    const connections = async (): Promise<number> =>
      new Promise((resolve) => receiver.server.getConnections((_error, n) => resolve(n)));
    let left = await connections();
    await until(() => {
      void connections().then((n) => (left = n));
      return left === 0 && bodies.reading() === 0;
    });
    expect(rows(receiver)).toBe(0);
    expect(receiver.answered).toEqual([]);
    expect(await deliver(receiver.port, body)).toBe(204);
  });

  test('before the answer leaves its delivery stored, and its retry is a duplicate', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(Buffer.concat([Buffer.from(head(pairs(body))), body]));
    await until(() => rows(receiver) === 1);
    line.socket.destroy();
    expect(await deliver(receiver.port, body)).toBe(204);
    expect(rows(receiver)).toBe(1);
  });
});

describe('a compressed body', () => {
  const compressed: [string, Buffer][] = [
    ['gzip', gzipSync(body)],
    ['GZIP', gzipSync(body)],
    ['gzip, gzip', gzipSync(gzipSync(body))],
    ['br', brotliCompressSync(body)],
    ['deflate', deflateSync(body)],
    ['zstd', randomBytes(40)],
    ['identity, gzip', gzipSync(body)],
    ['x-unknown', body],
  ];

  test.each(compressed)('I67: (%s) is refused unread, with any signature', async (encoding, bytes) => {
    const receiver = await startReceiver();
    for (const signatures of [signed(bytes), signed(body), {}]) {
      expect(await deliver(receiver.port, bytes, { ...signatures, 'Content-Encoding': encoding })).toBe(415);
    }
    const line = await openLine(receiver.port);
    line.write(head([...pairs(bytes), ['Content-Encoding', encoding]]));
    const text = await line.heard('\r\n\r\n');
    expect(statuses(text)).toEqual([415]);
    expect(text).toMatch(/^connection: close\r$/im);
    expect(await receiver.counters()).toEqual({ 'refused.content_encoding': 4 });
  });

  test.each(['gzip', 'br'])(
    'I68: (%s) of 64 MB uncompressed is refused without being decompressed',
    async (encoding) => {
      const receiver = await startReceiver();
      const bomb = encoding === 'gzip' ? gzipSync(Buffer.alloc(64 * MB)) : brotliCompressSync(Buffer.alloc(64 * MB));
      const before = process.memoryUsage().rss;
      expect(await deliver(receiver.port, bomb, { 'Content-Encoding': encoding })).toBe(415);
      expect(process.memoryUsage().rss - before).toBeLessThan(32 * MB);
    },
  );

  test.each(['identity', 'Identity'])('I67: (%s) is accepted, because it is not compressed', async (encoding) => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, { 'Content-Encoding': encoding })).toBe(204);
  });
});

describe('a Content-Type', () => {
  test.each([
    [undefined],
    [';;;'],
    ['a/b, c/d'],
    ['text/plain'],
    ['multipart/form-data; boundary=x'],
    ['application/x-www-form-urlencoded'],
    ['application/json; charset=utf-16'],
    ['application/vnd.svc+json'],
    ['application/octet-stream'],
  ])('I69: of %s makes no difference to a signed body', async (type) => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, type === undefined ? {} : { 'Content-Type': type })).toBe(204);
    expect(kept(receiver).events[0]?.body.equals(body)).toBe(true);
  });
});

describe('Expect', () => {
  const expecting: [string, string] = ['Expect', '100-continue'];

  test('I70: 100-continue is answered once the headers are accepted, and the delivery once it is stored', async () => {
    const receiver = await startReceiver();
    const line = await openLine(receiver.port);
    line.write(head([...pairs(body), expecting]));
    expect(statuses(await line.heard('\r\n\r\n'))).toEqual([100]);
    line.write(body);
    expect(statuses(await line.heard('204'))).toEqual([100, 204]);
    expect(rows(receiver)).toBe(1);
  });

  test.each<[string, number, string]>([
    ['no signature', 401, head([['Content-Length', '10'], expecting])],
    [
      'a stale timestamp',
      401,
      head([
        ...Object.entries(signed(body, 1_000_000_000)).map(([name, value]): [string, string] => [name, String(value)]),
        ['Content-Length', '10'],
        expecting,
      ]),
    ],
    [
      'a body that is too large',
      413,
      head([...pairs(body, false), ['Content-Length', String(BODY_LIMIT + 1)], expecting]),
    ],
    ['a compressed body', 415, head([...pairs(body), ['Content-Encoding', 'gzip'], expecting])],
    ['another method', 405, head([...pairs(body), expecting], 'PUT /webhooks HTTP/1.1')],
    ['another path', 404, head([...pairs(body), expecting], 'POST /elsewhere HTTP/1.1')],
  ])('I70: 100-continue with %s is answered with %d at once, without a 100', async (_, status, start) => {
    const receiver = await startReceiver();
    expect(statuses(await raw(receiver.port, start))).toEqual([status]);
  });

  test('I70: any other value gets 417', async () => {
    const receiver = await startReceiver();
    expect(statuses(await raw(receiver.port, head([...pairs(body), ['Expect', 'kittens']])))).toEqual([417]);
    expect(rows(receiver)).toBe(0);
  });
});
