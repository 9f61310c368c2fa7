// The memory budget that bodies share: which bodies are dropped, and when memory is free again (E82, E84).
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { createBodyReader, type BodyReader } from '../../src/receive/body.ts';
import { chunk, chunked, LAST_CHUNK, MB, sized, watched } from './bodies.ts';
import {
  BODY_LIMIT,
  bodyOf,
  deliver,
  head,
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

/** A request whose body arrives as the test says. */
function bodyIn(length = BODY_LIMIT): { request: IncomingMessage; send: (bytes: number) => void; end: () => void } {
  const headers = { 'content-length': String(length) };
  const stream = { headers, socket: { destroyed: false }, pause() {}, resume() {} };
  const request = Object.assign(new EventEmitter(), stream) as unknown as IncomingMessage;
  return {
    request,
    send: (bytes) => void request.emit('data', Buffer.alloc(bytes)),
    end: () => void request.emit('end'),
  };
}

function lengthOf(read: Buffer[] | string): number | string {
  return typeof read === 'string' ? read : read.reduce((sum, { length }) => sum + length, 0);
}

describe('the budget for bodies in flight', () => {
  /** Opens a connection, sends part of a body and pauses. */
  async function slow(port: number, bytes: number, length: number): Promise<Line> {
    const line = await openLine(port);
    line.write(head([...pairs(Buffer.alloc(length, 0x20))]));
    line.write(Buffer.alloc(bytes, 0x20));
    return line;
  }

  test('counts the bytes that have arrived: the older of two bodies is dropped, not the next delivery', async () => {
    let now = 0;
    const bodies = watched(createBodyReader(MB, () => now));
    const receiver = await startReceiver({ bodies });
    const older = await slow(receiver.port, 400_000, 900_000);
    await until(() => bodies.arrived() === 400_000);
    now += 5_000;
    const younger = await slow(receiver.port, 400_000, 900_000);
    await until(() => bodies.arrived() === 800_000);
    now += 1_000;
    expect(await deliver(receiver.port, sized(300_000))).toBe(204);
    expect(statuses(await older.heard('\r\n\r\n'))).toEqual([408]);
    expect(younger.text()).toBe('');
    younger.write(Buffer.alloc(500_000, 0x20));
    expect(statuses(await younger.heard('\r\n\r\n'))).toEqual([204]);
    expect(await receiver.counters()).toMatchObject({ accepted: 1, quarantined: 1, 'refused.body_dropped': 1 });
    // The headers of the dropped delivery were not those of a delivery, so it does not count as one.
    expect(receiver.answered.map(({ status }) => status)).toEqual([204, 204]);
  });

  test('E82: the body that has held the most for the longest is dropped, not the slowest', async () => {
    let now = 0;
    const bodies = watched(createBodyReader(MB, () => now));
    const receiver = await startReceiver({ bodies });
    const slowest = await slow(receiver.port, 100_000, 300_000);
    await until(() => bodies.arrived() === 100_000);
    now += 4_000;
    const stranger = await slow(receiver.port, 600_000, BODY_LIMIT);
    await until(() => bodies.arrived() === 700_000);
    now += 1_000;
    const next = await slow(receiver.port, 400_000, BODY_LIMIT);
    expect(statuses(await stranger.heard('\r\n\r\n'))).toEqual([408]);
    slowest.write(Buffer.alloc(200_000, 0x20));
    expect(statuses(await slowest.heard('\r\n\r\n'))).toEqual([204]);
    expect(next.text()).toBe('');
  });

  test.each([
    { how: 'send as fast as they can, and come again when they are dropped', bytes: 6 * MB, again: true },
    { how: 'send as fast as they can, and stay away when they are dropped', bytes: 6 * MB, again: false },
    { how: 'are as slow as the delivery', bytes: 12_500, again: true },
    { how: 'send 12 MB within the time of the delivery', bytes: 500_000, again: true },
  ])('E82: 300 KiB at 1 Mbit/s get through beside 50 strangers of 12 MB, who $how', async ({ bytes, again }) => {
    let now = 0;
    const reader = createBodyReader(undefined, () => now);
    const start = () => {
      const stranger = { ...bodyIn(), left: 12 * MB, dropped: false };
      const result = reader.read(stranger.request, BODY_LIMIT);
      void result.then((cause) => (stranger.dropped = cause === 'body_dropped'));
      return stranger;
    };
    const delivery = bodyIn(25 * 12_500);
    const read = reader.read(delivery.request, BODY_LIMIT);
    let strangers = Array.from({ length: 50 }, start);
    for (let step = 0; step < 25; step++, now += 100) {
      for (const stranger of strangers) {
        const more = Math.min(bytes, stranger.left - 1);
        stranger.send(more);
        stranger.left -= more;
      }
      delivery.send(12_500);
      await Promise.resolve();
      if (again) strangers = strangers.map((stranger) => (stranger.dropped ? start() : stranger));
    }
    delivery.end();
    expect(lengthOf(await read)).toBe(25 * 12_500);
  });

  test('E82: a chunked body counts as twice what has arrived, because a proxy may send every body so', async () => {
    let now = 0;
    const reader = createBodyReader(2 * MB, () => now);
    const chunkedBody = bodyIn();
    delete chunkedBody.request.headers['content-length'];
    const read = reader.read(chunkedBody.request, BODY_LIMIT);
    const stranger = bodyIn();
    const dropped = reader.read(stranger.request, BODY_LIMIT);
    for (let step = 0; step < 3; step++, now += 100) {
      chunkedBody.send(100_000);
      stranger.send(600_000);
    }
    expect(await dropped).toBe('body_dropped');
    chunkedBody.end();
    expect(lengthOf(await read)).toBe(300_000);
  });

  test('E82: charges a complete body until it is handled', async () => {
    const reader = createBodyReader(MB);
    const { promise: handled, resolve } = Promise.withResolvers<void>();
    const read = async (whole?: Promise<void>): Promise<number | string> => {
      const { request, send: sendPart, end } = bodyIn();
      const result = reader.read(request, BODY_LIMIT, whole);
      sendPart(600_000);
      end();
      return lengthOf(await result);
    };
    expect(await read(handled)).toBe(600_000);
    expect(await read()).toBe('body_dropped');
    resolve();
    await handled;
    expect(await read()).toBe(600_000);
  });

  test.each([
    ['an accepted', sized(70_000), SECRET],
    ['a forged', sized(70_000), 'whsec_of_a_stranger'],
    ['a dropped', sized(200_000), SECRET],
  ])('E84: is free after %s body, although its sender never gets the answer', async (_, bytes, secret) => {
    const reader = createBodyReader(100_000);
    const handled: (Promise<unknown> | undefined)[] = [];
    const bodies: BodyReader = {
      read(request, limit, end, onPart) {
        handled.push(end);
        return reader.read(request, limit, end, onPart);
      },
    };
    const receiver = await startReceiver({ bodies });
    receiver.server.prependOnceListener('request', (__, response: ServerResponse) => {
      response.end = () => response;
    });
    const line = await openLine(receiver.port);
    const lines = Object.entries({ ...signed(bytes, SECONDS, secret), 'Content-Length': bytes.length });
    line.write(head(lines.map(([name, value]) => [name, String(value)])));
    line.write(bytes);
    await until(() => handled.length === 1);
    await handled[0];
    expect(await deliver(receiver.port, sized(90_000, '2'))).toBe(204);
    expect(line.text()).toBe('');
  });

  test('E84: small bodies in tiny chunks have a limit as well', async () => {
    const reader = createBodyReader();
    const dripped = Array.from({ length: 3 }, bodyIn);
    const read = dripped.map(({ request }) => reader.read(request, BODY_LIMIT).then(lengthOf));
    for (let n = 0; n < 15_000; n++) for (const { send: sendPart } of dripped) sendPart(1);
    for (const { end } of dripped) end();
    const results = await Promise.all(read);
    expect(results.filter((result) => result === 'body_dropped')).toHaveLength(1);
    expect(results.filter((result) => result === 15_000)).toHaveLength(2);
  });

  test('E84: bodies in tiny chunks, which take more memory than their bytes, are dropped before an honest small one', async () => {
    let now = 0;
    const reader = createBodyReader(undefined, () => now);
    const strangers = Array.from({ length: 960 }, () => bodyIn(100));
    const theirs = strangers.map(({ request }) => reader.read(request, BODY_LIMIT).then(lengthOf));
    for (let n = 0; n < 34; n++) for (const { send: sendPart } of strangers) sendPart(1);
    now += 5_000;
    const honest = bodyIn(4_000);
    const read = reader.read(honest.request, BODY_LIMIT);
    honest.send(2_000);
    now += 100;
    for (const { send: sendPart } of strangers) sendPart(1);
    honest.send(2_000);
    honest.end();
    expect(lengthOf(await read)).toBe(4_000);
    for (const { end } of strangers) end();
    expect(new Set(await Promise.all(theirs))).toEqual(new Set([35, 'body_dropped']));
  });

  test('does not count bytes that were only announced', async () => {
    const bodies = watched(createBodyReader(MB));
    const receiver = await startReceiver({ bodies });
    for (let i = 0; i < 20; i++) await slow(receiver.port, 1_000, BODY_LIMIT);
    await until(() => bodies.arrived() === 20_000);
    expect(await deliver(receiver.port, sized(MB - 1))).toBe(204);
    expect(bodies.reading()).toBe(20);
  });

  test('neither delays nor drops small bodies', async () => {
    const bodies = watched(createBodyReader(100_000));
    const receiver = await startReceiver({ bodies });
    await slow(receiver.port, 90_000, BODY_LIMIT);
    const small = sized(60_000, '2');
    const half = await openLine(receiver.port);
    half.write(head(pairs(small)));
    half.write(small.subarray(0, 30_000));
    await until(() => bodies.arrived() === 120_000);
    for (let n = 3; n < 8; n++) expect(await deliver(receiver.port, sized(64 * 1024, String(n)))).toBe(204);
    half.write(small.subarray(30_000));
    expect(statuses(await half.heard('\r\n\r\n'))).toEqual([204]);
    expect(rows(receiver)).toBe(6);
  });

  test('is free again once bodies were read, dropped, refused or aborted', async () => {
    const bodies = watched(createBodyReader(MB));
    const receiver = await startReceiver({ bodies, bodyLimit: MB });
    for (let n = 1; n < 5; n++) {
      expect(await deliver(receiver.port, sized(900_000, String(n)))).toBe(204);
      const before = bodies.arrived();
      const line = await slow(receiver.port, 900_000, 950_000);
      await until(() => bodies.arrived() === before + 900_000);
      line.socket.resetAndDestroy();
      await until(() => bodies.reading() === 0);
      expect(
        statuses(
          await raw(receiver.port, head([...pairs(body, false), chunked]), chunk(Buffer.alloc(MB + 1)), LAST_CHUNK),
        ),
      ).toEqual([413]);
    }
    expect(await receiver.counters()).toMatchObject({
      accepted: 4,
      'refused.body_limit': 4,
      'refused.body_aborted': 4,
    });
  });
});
