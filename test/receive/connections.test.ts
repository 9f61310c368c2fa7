// The bound on connections: which are closed when there are too many, and which never.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { boundConnections, defaultConnections } from '../../src/receive/connections.ts';
import { bodyOf, deliver, head, openLine, pairs, startReceiver, statuses, until, type Line } from './harness.ts';

const MOST = 4;
const body = bodyOf();
const GET = head([], 'GET /livez HTTP/1.1');

async function openLines(port: number, count: number): Promise<Line[]> {
  const lines: Line[] = [];
  // One after the other, so that the receiver sees them in this order.
  for (let n = 0; n < count; n++) lines.push(await openLine(port));
  return lines;
}

/** The receiver closes it for a new connection. Those of `others` stay open. */
async function expectLoss(port: number, lost: Line, others: Line[]): Promise<Line> {
  const open = others.filter((line) => !line.socket.closed);
  const next = await openLine(port);
  await until(() => lost.socket.closed);
  expect(open.filter((line) => line.socket.closed)).toEqual([]);
  return next;
}

test('E84: the connection that has been without a request for the longest is closed for a new one', async () => {
  const { port, server } = await startReceiver();
  const wasFull = boundConnections(server, MOST);
  const [first, second, third, fourth] = (await openLines(port, MOST)) as [Line, Line, Line, Line];
  first.write(GET);
  await first.heard('alive');
  third.write('POST /webhooks HTTP/1.1\r\nX-Slow: ');
  expect(wasFull()).toBe(false);
  await expectLoss(port, second, [first, third, fourth]);
  expect(wasFull()).toBe(true);
  expect(wasFull()).toBe(false);
  await expectLoss(port, third, [first, fourth]);
  await expectLoss(port, fourth, [first]);
  first.write(GET);
  await until(() => statuses(first.text()).length === 2);
});

describe('E84: if every connection has a request,', () => {
  /** A bounded receiver whose commits wait, and the numbers of requests that have begun and that have arrived. */
  async function startSlow() {
    const gate = Promise.withResolvers<void>();
    const receiver = await startReceiver({
      wrap: (store) => ({ ...store, accept: (batch) => gate.promise.then(() => store.accept(batch)) }),
    });
    boundConnections(receiver.server, MOST);
    const seen = { begun: 0, arrived: 0 };
    receiver.server.on('request', (request) => {
      seen.begun++;
      request.on('end', () => void seen.arrived++);
    });
    const [first, ...others] = (await openLines(receiver.port, MOST)) as [Line, ...Line[]];
    return { ...receiver, commit: gate.resolve, seen, first, others };
  }
  const whole = Buffer.concat([Buffer.from(head(pairs(body))), body]);

  test('the one whose body has been arriving for the longest is closed, and no delivery that waits for its commit', async () => {
    const { port, commit, seen, first, others } = await startSlow();
    first.write(whole);
    await until(() => seen.arrived === 1);
    for (const [n, line] of others.entries()) {
      line.write(whole.subarray(0, -1));
      await until(() => seen.begun === n + 2);
    }
    await expectLoss(port, others[0] as Line, [first, ...others.slice(1)]);
    commit();
    for (const line of others) if (!line.socket.closed) line.write(whole.subarray(-1));
    for (const line of [first, ...others.slice(1)]) expect(statuses(await line.heard('204'))).toEqual([204]);
  });

  test('one that does not read its answer is closed', async () => {
    const server = createServer((_, response) => void response.end(Buffer.alloc(32 * 1024 * 1024)));
    boundConnections(server, 1);
    server.listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const first = await openLine(port);
    first.socket.pause();
    const asked = once(server, 'request') as Promise<[IncomingMessage, ServerResponse]>;
    first.write(GET);
    const [, response] = await asked;
    await until(() => response.writableEnded);
    const next = await openLine(port);
    next.write(GET);
    await next.heard('200');
    first.socket.resume();
    await until(() => first.socket.closed);
  });

  test('and each a delivery that waits for its commit, the new connection is closed', async () => {
    const { port, commit, seen, first, others } = await startSlow();
    for (const line of [first, ...others]) line.write(whole);
    await until(() => seen.arrived === MOST);
    const next = await openLine(port);
    await until(() => next.socket.closed);
    commit();
    for (const line of [first, ...others]) expect(statuses(await line.heard('204'))).toEqual([204]);
  });
});

test('E84: a thousand strangers that only connect do not keep a delivery out', async () => {
  const receiver = await startReceiver();
  boundConnections(receiver.server, 50);
  const strangers = await Promise.all(Array.from({ length: 1_000 }, () => openLine(receiver.port)));
  expect(await deliver(receiver.port, body)).toBe(204);
  await until(() => strangers.filter((line) => !line.socket.closed).length <= 50);
});

test('E84: deliveries that connect together with more strangers than the bound get through', async () => {
  const receiver = await startReceiver();
  boundConnections(receiver.server, 50);
  const delivered = Array.from({ length: 5 }, (_, n) => deliver(receiver.port, bodyOf({ cursor: String(n + 1) })));
  const strangers = Array.from({ length: 300 }, () => openLine(receiver.port));
  expect(new Set(await Promise.all(delivered))).toEqual(new Set([204]));
  await Promise.all(strangers);
});

test('E84: the default follows from the file descriptors that there are', () => {
  expect(defaultConnections()).toBeGreaterThanOrEqual(100);
  expect(defaultConnections()).toBeLessThanOrEqual(4_000);
  const limits = (most: string) =>
    `Limit  Soft Limit  Hard Limit  Units\nMax open files            ${most}   4096   files\n`;
  expect(['256', '1024', '20000', 'unlimited'].map((most) => defaultConnections(limits(most)))).toEqual([
    128, 512, 1_000, 1_000,
  ]);
});
