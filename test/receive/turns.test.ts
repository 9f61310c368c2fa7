// Large bodies are read and hashed in turns, so that other deliveries need not wait for them.
import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { closeAfterAnswer } from '../../src/receive/server.ts';
import { PART, readInTurns } from '../../src/receive/turns.ts';
import { bodyOf, deliver, message, signed, startReceiver, until } from './harness.ts';

const MEGABYTES = 'x'.repeat(4 * 1024 * 1024);

/** A request that sends a part whenever it is read. `log` receives its name. */
function stream(name: string, length: number | undefined, log: string[]) {
  const headers = length === undefined ? {} : { 'content-length': String(length) };
  const socket = { destroyed: false };
  let paused = false;
  const request = Object.assign(new EventEmitter(), {
    headers,
    socket,
    pause: () => (paused = true),
    resume() {
      log.push(name);
      paused = false;
    },
  });
  readInTurns(request as unknown as IncomingMessage);
  return {
    socket,
    paused: () => paused,
    send: (bytes: number) => void request.emit('data', Buffer.alloc(bytes)),
  };
}

test('E83: a body below 64 KiB never waits; a larger one pauses after each part', async () => {
  const log: string[] = [];
  const { send, paused } = stream('body', 200_000, log);
  send(PART - 1);
  expect(paused()).toBe(false);
  send(1);
  expect(paused()).toBe(true);
  await until(() => !paused());
  send(PART - 1);
  expect(paused()).toBe(false);
  send(PART);
  expect(paused()).toBe(true);
  await until(() => log.length === 2);
});

test('E83: the smallest body has the first turn, and one without a length counts as twice what has arrived', async () => {
  const log: string[] = [];
  const bodies = { endless: undefined, long: 12_000_000, short: 300_000, middle: 1_000_000 };
  for (const [name, length] of Object.entries(bodies)) stream(name, length, log).send(PART);
  await until(() => log.length === 4);
  expect(log).toEqual(['endless', 'short', 'middle', 'long']);
});

test('E83: a body whose connection is closed has no turn', async () => {
  const log: string[] = [];
  const [gone, next] = [stream('gone', 100_000, log), stream('next', 200_000, log)];
  gone.send(PART);
  next.send(PART);
  gone.socket.destroyed = true;
  await until(() => log.length > 0);
  expect(log).toEqual(['next']);
});

test('E83: small deliveries are answered before large ones that began earlier', async () => {
  const receiver = await startReceiver();
  const answered: string[] = [];
  const large = bodyOf({ cursor: '1', data: { MessageReceived: message({ body: MEGABYTES }) } });
  const began = Array.from({ length: 3 }, async () => {
    const status = await deliver(receiver.port, large, signed(large));
    answered.push(`large ${status}`);
  });
  for (let n = 0; n < 3; n++) {
    const small = bodyOf({ id: `evt_small_${n}`, cursor: String(n + 2) });
    answered.push(`small ${await deliver(receiver.port, small, signed(small))}`);
  }
  await Promise.all(began);
  expect(answered.toSorted()).toEqual([...Array(3).fill('large 204'), ...Array(3).fill('small 204')]);
  expect(answered[0]).toBe('small 204');
});

test('E84: of refused senders who go on sending, at most a hundred keep their connections for a moment', () => {
  const closed: number[] = [];
  const sockets = Array.from({ length: 102 }, (_, n) => {
    const socket = Object.assign(new EventEmitter(), { end() {}, destroy: () => closed.push(n), destroySoon() {} });
    const request = Object.assign(new EventEmitter(), { headers: {}, socket, resume() {} });
    const response = { setHeader() {} } as unknown as ServerResponse;
    closeAfterAnswer(request as unknown as IncomingMessage, response);
    return socket;
  });
  for (const socket of sockets) socket.destroySoon();
  expect(closed).toEqual([0, 1]);
  for (const socket of sockets) socket.emit('close');
});
