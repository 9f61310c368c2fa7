// Many requests at once: copies, pipelines, floods of forged deliveries, and slow connections beside signed traffic
// (hazards C1, I45, I75 to I77).
import { Agent } from 'node:http';
import { describe, expect, onTestFinished, test } from 'vitest';
import {
  bodyOf,
  deliver,
  head,
  kept,
  openLine,
  pairs,
  rows,
  send,
  signed,
  startReceiver,
  statuses,
  until,
} from './harness.ts';

function createAgent(maxSockets: number): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets });
  onTestFinished(() => agent.destroy());
  return agent;
}

const body = bodyOf();

test('I45: a thousand copies at once make one row, and each gets 204', async () => {
  const receiver = await startReceiver();
  const agent = createAgent(200);
  const answers = await Promise.all(Array.from({ length: 1_000 }, () => deliver(receiver.port, body, {}, agent)));
  expect(answers.filter((status) => status === 204)).toHaveLength(1_000);
  expect(rows(receiver)).toBe(1);
  expect((await receiver.store.read.event('1', 0))?.event.copies).toBe(999);
  expect(await receiver.counters()).toMatchObject({ events: 1, accepted: 1, duplicates: 999 });
});

test('three hundred events at once make three hundred rows in few transactions', async () => {
  const sockets = 200;
  const crowd = Promise.withResolvers<void>();
  let commits = 0;
  const receiver = await startReceiver({
    wrap: (store) => ({
      ...store,
      async accept(batch) {
        // The first commit waits until a request has arrived on every socket, so the speed of the disk does not matter.
        if (commits++ === 0) await crowd.promise;
        return store.accept(batch);
      },
    }),
  });
  let requests = 0;
  receiver.server.on('request', () => {
    if (++requests === sockets) crowd.resolve();
  });
  const agent = createAgent(sockets);
  const answers = await Promise.all(
    Array.from({ length: 300 }, (_, n) => deliver(receiver.port, bodyOf({ cursor: String(n + 1) }), {}, agent)),
  );
  expect(new Set(answers)).toEqual(new Set([204]));
  expect(rows(receiver)).toBe(300);
  expect(commits).toBeLessThan(150);
});

test('I77: a hundred deliveries in one pipeline are answered in order', async () => {
  const receiver = await startReceiver();
  const line = await openLine(receiver.port);
  // Every tenth delivery is quarantined, and every fifteenth is a copy. All get 204.
  const bodies = Array.from({ length: 100 }, (_, n) =>
    n % 10 === 3 ? Buffer.from(`{${n}`) : bodyOf({ cursor: String(n % 15 === 0 ? 1 : n) }),
  );
  line.write(Buffer.concat(bodies.flatMap((bytes) => [Buffer.from(head(pairs(bytes))), bytes])));
  await until(() => statuses(line.text()).length === 100);
  expect(new Set(statuses(line.text()))).toEqual(new Set([204]));
  const cursors = kept(receiver).events.map(({ cursor }) => Number(cursor));
  expect(cursors).toEqual(cursors.toSorted((a, b) => a - b));
  expect(kept(receiver).quarantine).toHaveLength(10);
});

test('I77: a connection that takes no answers is closed after 128 requests', async () => {
  const gate = Promise.withResolvers<void>();
  const receiver = await startReceiver({
    wrap: (store) => ({ ...store, accept: (batch) => gate.promise.then(() => store.accept(batch)) }),
  });
  const line = await openLine(receiver.port);
  const requests = (from: number, to: number): Buffer =>
    Buffer.concat(
      Array.from({ length: to - from }, (_, n) => bodyOf({ cursor: String(from + n) })).flatMap((bytes) => [
        Buffer.from(head(pairs(bytes))),
        bytes,
      ]),
    );
  line.write(requests(0, 128));
  expect((await send(receiver.port, '', { method: 'GET', path: '/livez' })).status).toBe(200);
  expect(line.socket.closed).toBe(false);
  line.write(requests(128, 129));
  expect(statuses(await line.closed())).toEqual([]);
  gate.resolve();
});

test('I77: a forged delivery in a pipeline does not prevent the answers to earlier deliveries', async () => {
  const receiver = await startReceiver();
  const line = await openLine(receiver.port);
  const bodies = Array.from({ length: 10 }, (_, n) => bodyOf({ cursor: String(n + 1) }));
  const forged = Buffer.concat([
    Buffer.from(
      head([
        ['X-Svc-Signature', 'v1='],
        ['Content-Length', '2'],
      ]),
    ),
    Buffer.from('{}'),
  ]);
  line.write(Buffer.concat([...bodies.flatMap((bytes) => [Buffer.from(head(pairs(bytes))), bytes]), forged]));
  expect(statuses(await line.closed())).toEqual([...bodies.map(() => 204), 401]);
  expect(rows(receiver)).toBe(10);
});

describe('strangers', () => {
  test('I76: in a flood are refused without any access to the store, and logged with one line per cause', async () => {
    let written = 0;
    const receiver = await startReceiver({
      wrap: (store) => ({
        ...store,
        accept: (batch) => (written++, store.accept(batch)),
        note: (counts, state) => (written++, store.note(counts, state)),
      }),
    });
    const agent = createAgent(50);
    const unsigned = { 'X-Svc-Event-Type': 'invented', 'X-Svc-Timestamp': '1' };
    const answers = await Promise.all(
      Array.from({ length: 1_000 }, async (_, n) => {
        const headers = n % 2 ? unsigned : { ...signed(body), 'X-Svc-Signature': `v1=${'0'.repeat(64)}` };
        return (await send(receiver.port, body, { headers, agent })).status;
      }),
    );
    expect(new Set(answers)).toEqual(new Set([401]));
    expect(written).toBe(0);
    expect(receiver.lines).toHaveLength(2);
    expect(new Set(receiver.lines.map(({ cause }) => cause))).toEqual(new Set(['bad_signature', 'no_signature']));
    expect(receiver.answered).toEqual([]);
    expect(await receiver.counters()).toEqual({ 'refused.no_signature': 500, 'refused.bad_signature': 500 });
  });

  test('I75: if two hundred are slow, they delay no signed delivery, and are cut off when their time is up', async () => {
    const receiver = await startReceiver();
    const slow = await Promise.all(Array.from({ length: 200 }, () => openLine(receiver.port)));
    for (const [index, line] of slow.entries()) {
      if (index % 2) line.write('POST /webhooks HTTP/1.1\r\nX-Slow: ');
      else line.write(Buffer.concat([Buffer.from(head(pairs(body))), body.subarray(0, 5)]));
    }
    for (let n = 1; n <= 20; n++) expect(await deliver(receiver.port, bodyOf({ cursor: String(n) }))).toBe(204);
    receiver.server.headersTimeout = 1;
    receiver.server.requestTimeout = 1;
    for (const line of slow) expect(statuses(await line.closed())).toEqual([408]);
    expect(rows(receiver)).toBe(20);
  });
});
