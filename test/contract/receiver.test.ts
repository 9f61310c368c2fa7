// What the contract says to an endpoint of webhooks (2.16, 3.2, 3.3, 5.8, 6.3, 6.4): the real receiver over HTTP, with a
// store, and handlers as the test kit runs them.
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { expect, onTestFinished, vi } from 'vitest';
import { defineHandler, type KitEvent } from '#kit';
import { deliver as run, fixture } from '#kit/testing';
import { loadConfig } from '../../src/config.ts';
import { eventTypes } from '../../src/events.ts';
import { createVerifier } from '../../src/receive/verify.ts';
import {
  bodyOf,
  deliver,
  envelope,
  hmac,
  kept,
  message,
  openLine,
  pairs,
  head,
  rows,
  SECONDS,
  SECRET,
  send,
  signed,
  startReceiver,
  statuses,
  T0,
  type Receiver,
} from '../receive/harness.ts';
import { holds } from './holds.ts';

const NEW_SECRET = `whsec_${'f'.repeat(32)}`;
const BAD = 'ab'.repeat(32);
const body = bodyOf();

/** The columns of the one stored event. */
async function storedEvent(receiver: Receiver) {
  const { events } = await receiver.store.read.events({ limit: 2 }, 0);
  expect(events).toHaveLength(1);
  return events[0];
}

/** The event as a handler gets it. */
async function handled(fields: Parameters<typeof fixture>[1], type = 'MessageReceived'): Promise<KitEvent> {
  const got: KitEvent[] = [];
  await run(defineHandler({ on: type as 'MessageReceived', handle: (event) => void got.push(event) }), [
    fixture(type, fields as object),
  ]);
  expect(got).toHaveLength(1);
  return got[0] as KitEvent;
}

// 2.16

holds('2.16', 'the receiver takes only signing secrets with the prefix whsec_', () => {
  expect(loadConfig({ WEBHOOK_SECRET: SECRET }).WEBHOOK_SECRET).toEqual([SECRET]);
  expect(() => loadConfig({ WEBHOOK_SECRET: SECRET.slice('whsec_'.length) })).toThrow('whsec_');
});

holds('2.16', 'the receiver takes a signing secret of any length, because the contract names none', () => {
  expect(loadConfig({ WEBHOOK_SECRET: 'whsec_short' }).WEBHOOK_SECRET).toEqual(['whsec_short']);
});

// 3.2, 3.3

holds('3.2', 'the receiver counts the consecutive failures that switch a webhook off, until a success', async () => {
  const receiver = await startReceiver();
  for (let i = 0; i < 15; i++) await deliver(receiver.port, body, signed(body, SECONDS + 400));
  expect((await receiver.status()).failureRun).toBe(15);
  expect(await deliver(receiver.port, body)).toBe(204);
  expect((await receiver.status()).failureRun).toBe(0);
});

holds('3.2', 'a request whose signature matches no secret counts as no failure', async () => {
  const receiver = await startReceiver();
  for (let i = 0; i < 15; i++) await deliver(receiver.port, body, { 'X-Svc-Signature': `v1=${BAD}` });
  expect((await receiver.status()).failureRun).toBe(0);
});

holds('3.3', 'attempts 1 to 8 of a delivery, each signed anew, up to 8 hours later, are one event', async () => {
  const receiver = await startReceiver();
  const waits = [0, 30, 120, 600, 1_800, 3_600, 7_200, 14_400];
  for (const [i, wait] of waits.entries()) {
    receiver.clock.at += wait * 1_000;
    const headers = signed(body, receiver.clock.at / 1_000);
    expect(await deliver(receiver.port, body, { ...headers, 'X-Svc-Attempt': i + 1 })).toBe(204);
  }
  expect(rows(receiver)).toBe(1);
  expect(await receiver.counters()).toMatchObject({ accepted: 1, duplicates: 7 });
});

// 6.3: the delivery

holds('6.3', 'the receiver accepts a delivery as a POST with a JSON body, and refuses another method', async () => {
  const receiver = await startReceiver();
  expect(await deliver(receiver.port, body, { 'Content-Type': 'application/json' })).toBe(204);
  for (const method of ['GET', 'PUT'])
    expect(
      (await send(receiver.port, body, { method, headers: { ...signed(body), 'Content-Length': body.length } })).status,
    ).toBe(405);
  expect(rows(receiver)).toBe(1);
});

holds('6.3', 'an event that arrives more than once with the same id is handled once', async () => {
  const got: string[] = [];
  const handler = defineHandler({ on: 'MessageReceived', handle: ({ id }) => void got.push(id ?? '') });
  const event = fixture('MessageReceived');
  await run(handler, event, { times: 3 });
  expect(got).toEqual([event.id]);
});

holds('6.3', 'deliveries with the same id are one event, also without a cursor', async () => {
  const receiver = await startReceiver();
  for (const id of ['a', 'b', 'a']) {
    const sent = bodyOf({ id, cursor: null });
    expect(await deliver(receiver.port, sent)).toBe(204);
  }
  expect(kept(receiver).events.map(({ id }) => id)).toEqual(['a', 'b']);
});

holds('6.3', 'events that arrive in any order are handled in the order of their cursors, as integers', async () => {
  const got: (string | null)[] = [];
  const handler = defineHandler({ on: 'MessageReceived', handle: ({ cursor }) => void got.push(cursor) });
  const cursors = ['9', '10', '99', '100', '9007199254740993'];
  const events = cursors.map((cursor) => fixture('MessageReceived', { cursor }));
  await run(handler, events, { order: [4, 1, 3, 0, 2] });
  expect(got).toEqual(cursors);
});

holds('6.3', 'the receiver answers no delivery with a 3xx, because a redirect counts as a failure', async () => {
  const receiver = await startReceiver();
  for (const path of ['/webhooks', '/webhooks/', '/WEBHOOKS', '/', '//webhooks', '/webhooks?a=b'])
    expect((await send(receiver.port, body, { path, headers: signed(body) })).status).toSatisfy(
      (status: number) => status < 300 || status >= 400,
    );
});

// 6.3: headers

/** All headers of a delivery, as the contract lists them. */
const HEADERS = {
  'Content-Type': 'application/json',
  'User-Agent': 'Svc-Webhooks/1',
  'X-Svc-Event-Id': 'evt_1',
  'X-Svc-Event-Type': 'MessageReceived',
  'X-Svc-Delivery-Id': 'dlv_1',
  'X-Svc-Attempt': '1',
};

holds('6.3', 'the receiver accepts a delivery with all headers that the contract lists', async () => {
  const receiver = await startReceiver();
  expect(await deliver(receiver.port, body, HEADERS)).toBe(204);
  expect(await receiver.counters()).toMatchObject({ accepted: 1 });
});

for (const [name, value] of Object.entries({ 'Content-Type': 'text/plain', 'User-Agent': 'Svc-Webhooks/2' }))
  holds('6.3', `the receiver accepts a delivery with another ${name} or none, because it is not signed`, async () => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, { ...HEADERS, [name]: value })).toBe(204);
    expect(await deliver(receiver.port, bodyOf({ cursor: '2' }), { ...HEADERS, [name]: [] })).toBe(204);
  });

holds(
  '6.3',
  'the id of an event is that of the body, not X-Svc-Event-Id, because only the body is signed',
  async () => {
    const receiver = await startReceiver();
    await deliver(receiver.port, body, { ...HEADERS, 'X-Svc-Event-Id': 'evt_other' });
    expect(kept(receiver).events).toMatchObject([{ id: 'evt_1' }]);
  },
);

holds('6.3', 'the type of an event is that of the body, not X-Svc-Event-Type', async () => {
  const receiver = await startReceiver();
  await deliver(receiver.port, body, { ...HEADERS, 'X-Svc-Event-Type': 'webhook.ping' });
  expect(await storedEvent(receiver)).toMatchObject({ type: 'MessageReceived' });
});

holds('6.3', 'a delivery of the same event with another X-Svc-Delivery-Id is a duplicate', async () => {
  const receiver = await startReceiver();
  for (const id of ['dlv_1', 'dlv_2']) await deliver(receiver.port, body, { ...HEADERS, 'X-Svc-Delivery-Id': id });
  expect(await receiver.counters()).toMatchObject({ accepted: 1, duplicates: 1 });
});

holds('6.3', 'a new event with an X-Svc-Attempt above 1 shows failures that the receiver did not see', async () => {
  const receiver = await startReceiver();
  receiver.clock.at = T0 + 60_000;
  for (const [cursor, attempt] of [
    ['1', 1],
    ['2', 3],
  ] as const) {
    const data = { MessageReceived: message({ timestamp_unix_ms: T0 + 59_000 }) };
    const sent = bodyOf({ cursor, data });
    await deliver(receiver.port, sent, { ...signed(sent, SECONDS + 60), 'X-Svc-Attempt': attempt });
  }
  expect(await receiver.counters()).toMatchObject({ accepted: 2, unseen_failures: 1 });
});

holds('6.3', 'the receiver refuses an X-Svc-Timestamp that is missing or is not in Unix seconds', async () => {
  const receiver = await startReceiver();
  for (const timestamp of [String(T0), new Date(T0).toISOString(), '', [] as string[]]) {
    const headers = { 'X-Svc-Timestamp': timestamp, 'X-Svc-Signature': `v1=${hmac(body, String(timestamp))}` };
    expect(await deliver(receiver.port, body, headers)).toBe(401);
  }
  expect(await deliver(receiver.port, body)).toBe(204);
});

holds('6.3', 'the receiver refuses a delivery without an X-Svc-Signature of the form v1=<hex>', async () => {
  const receiver = await startReceiver();
  for (const signature of [hmac(body), `v2=${hmac(body)}`, `v1=${hmac(body).slice(1)}`, '', [] as string[]])
    expect(await deliver(receiver.port, body, { 'X-Svc-Signature': signature })).toBe(401);
  expect(await deliver(receiver.port, body)).toBe(204);
  expect(rows(receiver)).toBe(1);
});

holds('6.3', 'WEBHOOK_HEADER_PREFIX sets the service’s short name in the header names', () => {
  const prefix = loadConfig({ WEBHOOK_SECRET: SECRET, WEBHOOK_HEADER_PREFIX: 'X-Acme-' }).WEBHOOK_HEADER_PREFIX;
  const verifier = createVerifier({ secrets: [SECRET], prefix, toleranceSeconds: 300 });
  const headers = { 'x-acme-timestamp': String(SECONDS), 'x-acme-signature': `v1=${hmac(body)}` };
  const claimed = verifier.headers({ headers }, T0);
  expect(claimed).toMatchObject({ timestamp: SECONDS });
  const check = verifier.body(claimed as never);
  check.update(body);
  expect(check.end(T0)).toEqual([0]);
});

// 6.3: the body

holds('6.3', 'a handler gets the id of the body as the id of the event', async () => {
  expect(await handled({ id: 'evt_of_the_service' })).toMatchObject({ id: 'evt_of_the_service' });
});

holds('6.3', 'a handler gets the type of the body, also one that the kit does not know', async () => {
  expect(await handled({ data: { anything: 1 } as object }, 'CallEnded')).toMatchObject({
    type: 'CallEnded',
    data: { anything: 1 },
  });
});

holds('6.3', 'an event keeps created_at of the body, ISO 8601 UTC, as its moment', async () => {
  const receiver = await startReceiver();
  await deliver(
    receiver.port,
    bodyOf({ type: 'CallEnded', created_at: '2026-01-01T11:59:58.123Z', data: { CallEnded: {} } }),
  );
  expect(await storedEvent(receiver)).toMatchObject({ createdAt: Date.UTC(2026, 0, 1, 11, 59, 58, 123) });
});

holds('6.3', 'a handler gets the cursor of the body exactly, up to 64 bits', async () => {
  expect(await handled({ cursor: '9223372036854775807' })).toMatchObject({ cursor: '9223372036854775807' });
});

holds('6.3', 'a handler gets an event whose cursor is null', async () => {
  expect(await handled({ cursor: null })).toMatchObject({ cursor: null });
});

holds('6.3', 'an event keeps session_id of the body as its number', async () => {
  const receiver = await startReceiver();
  const session = '5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11';
  await deliver(receiver.port, bodyOf({ type: 'CallEnded', session_id: session, data: { CallEnded: {} } }));
  expect(await storedEvent(receiver)).toMatchObject({ sessionId: session });
});

holds('6.3', 'a handler gets an account-wide event, whose session_id is null', async () => {
  expect(await handled({ sessionId: null }, 'CampaignFinished')).toMatchObject({ sessionId: null });
});

holds('6.3', 'deliveries of one event to two webhooks, with two webhook_id, are one event', async () => {
  const receiver = await startReceiver();
  for (const webhook_id of ['wh_1', 'wh_2']) expect(await deliver(receiver.port, bodyOf({ webhook_id }))).toBe(204);
  expect(rows(receiver)).toBe(1);
});

holds('6.3', 'a handler gets the fields of the body’s data { "<EventType>": { …fields } }', async () => {
  expect((await handled({ data: { body: 'hi', added: 1 } as object })).data).toMatchObject({ body: 'hi', added: 1 });
});

holds('6.3', 'signed bytes that are no event are answered with a 2xx, and kept in quarantine', async () => {
  const receiver = await startReceiver();
  for (const bytes of ['{', '[]', JSON.stringify(envelope({ data: {} }))])
    expect(await deliver(receiver.port, bytes)).toBe(204);
  expect(kept(receiver).quarantine).toHaveLength(3);
});

// 6.3: the signature

/** printf '1767268800.{}' | openssl dgst -sha256 -hmac whsec_0123456789abcdef0123456789abcdef */
const BY_OPENSSL = '1f3bc0524cc6fc1346d15e38e64d7173445370f88245ad89a8de4a212b9f2aff';
holds('6.3', 'a signature is the hex of HMAC-SHA256 with the secret over <timestamp>.<raw body>', async () => {
  const receiver = await startReceiver();
  const headers = { 'X-Svc-Timestamp': '1767268800', 'X-Svc-Signature': `v1=${BY_OPENSSL}` };
  expect((await send(receiver.port, '{}', { headers })).status).toBe(204);
  for (const wrong of [hmac(body, SECONDS, NEW_SECRET), hmac(body, SECONDS - 1), hmac(`${body.toString()} `)])
    expect(await deliver(receiver.port, body, { 'X-Svc-Signature': `v1=${wrong}` })).toBe(401);
});

holds('6.3', 'a signature covers the raw body: other bytes of the same JSON are refused', async () => {
  const receiver = await startReceiver();
  const spaced = JSON.stringify(envelope(), null, 1);
  expect(await deliver(receiver.port, spaced, signed(body))).toBe(401);
  expect(await deliver(receiver.port, spaced)).toBe(204);
});

holds('6.3', 'a signature covers the raw bytes of a body, also those that are no UTF-8', async () => {
  const receiver = await startReceiver();
  const bytes = Buffer.from([...Buffer.from('{"id":"'), 0xff, 0xfe, ...Buffer.from('"}')]);
  const asText = signed(Buffer.from(bytes.toString()));
  expect(await deliver(receiver.port, bytes, asText)).toBe(401);
  expect(await deliver(receiver.port, bytes)).toBe(204);
  expect(kept(receiver).quarantine).toHaveLength(1);
});

holds('6.3', 'the receiver refuses an unsigned body before it parses it, whatever it holds', async () => {
  const receiver = await startReceiver();
  for (const bytes of ['{', '[[[[', body])
    expect(await deliver(receiver.port, bytes, { 'X-Svc-Signature': `v1=${BAD}` })).toBe(401);
  expect(rows(receiver)).toBe(0);
});

holds('6.3', 'the receiver compares each signature with each secret, in constant time', async () => {
  const receiver = await startReceiver({ secrets: [SECRET, NEW_SECRET] });
  const compare = vi.spyOn(crypto, 'timingSafeEqual');
  syncBuiltinESMExports();
  onTestFinished(() => {
    compare.mockRestore();
    syncBuiltinESMExports();
  });
  expect(await deliver(receiver.port, body, { 'X-Svc-Signature': `v1=${hmac(body)},v1=${BAD}` })).toBe(204);
  expect(compare).toHaveBeenCalledTimes(4);
});

for (const [seconds, status] of [
  [-300, 204],
  [-301, 401],
  [300, 204],
  [301, 401],
] as const)
  holds(
    '6.3',
    `a delivery whose timestamp is ${Math.abs(seconds)} s ${seconds < 0 ? 'old' : 'ahead'} is ${status === 204 ? 'accepted' : 'refused'}`,
    async () => {
      const receiver = await startReceiver();
      expect(await deliver(receiver.port, body, signed(body, SECONDS + seconds))).toBe(status);
      expect(rows(receiver)).toBe(status === 204 ? 1 : 0);
    },
  );

holds('6.3', 'a timestamp is signed: an old delivery with a new timestamp is refused', async () => {
  const receiver = await startReceiver();
  receiver.clock.at = T0 + 600_000;
  expect(await deliver(receiver.port, body, { ...signed(body), 'X-Svc-Timestamp': SECONDS + 600 })).toBe(401);
});

for (const [where, value] of Object.entries({
  first: `v1=${hmac(body)},v1=${BAD}`,
  second: `v1=${BAD},v1=${hmac(body)}`,
}))
  holds('6.3', `of two v1= values in a signature, the ${where} may be the one that matches`, async () => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, { 'X-Svc-Signature': value })).toBe(204);
  });

holds('6.3', 'a value of another version beside a v1= value that matches does not matter', async () => {
  const receiver = await startReceiver();
  expect(await deliver(receiver.port, body, { 'X-Svc-Signature': `v2=${BAD}` })).toBe(401);
  expect(await deliver(receiver.port, body, { 'X-Svc-Signature': `v2=${BAD},v1=${hmac(body)}` })).toBe(204);
});

holds('6.3', 'a delivery with two v1= values that both do not match is refused', async () => {
  const receiver = await startReceiver();
  expect(await deliver(receiver.port, body, { 'X-Svc-Signature': `v1=${BAD},v1=${BAD}` })).toBe(401);
});

holds(
  '6.3',
  'a delivery with both signatures of a rotation is accepted with the old, the new or both secrets',
  async () => {
    const both = { 'X-Svc-Signature': `v1=${hmac(body, SECONDS, NEW_SECRET)},v1=${hmac(body)}` };
    for (const secrets of [[SECRET], [NEW_SECRET], [NEW_SECRET, SECRET]]) {
      const receiver = await startReceiver({ secrets });
      expect(await deliver(receiver.port, body, both)).toBe(204);
    }
  },
);

holds('6.3', 'the receiver takes several secrets at once, and other secrets without a restart', async () => {
  expect(loadConfig({ WEBHOOK_SECRET: `${NEW_SECRET},${SECRET}` }).WEBHOOK_SECRET).toEqual([NEW_SECRET, SECRET]);
  const receiver = await startReceiver();
  const headers = signed(body, SECONDS, NEW_SECRET);
  expect(await deliver(receiver.port, body, headers)).toBe(401);
  receiver.verifier.useSecrets([NEW_SECRET, SECRET]);
  expect(await deliver(receiver.port, body, headers)).toBe(204);
});

// 6.3: the answer

holds('6.3', 'the receiver answers a delivery that is on disk with a 2xx, new or not', async () => {
  const receiver = await startReceiver();
  expect([await deliver(receiver.port, body), await deliver(receiver.port, body)]).toEqual([204, 204]);
  expect(rows(receiver)).toBe(1);
});

holds('6.3', 'the receiver answers within 10 s, and with a 503 if the store cannot be written', async () => {
  const receiver = await startReceiver();
  const unlock = receiver.lock();
  onTestFinished(unlock);
  const line = await openLine(receiver.port);
  line.write(head(pairs(body)));
  line.write(body);
  await vi.waitUntil(() => receiver.groupCommit.waiting() === 1, { timeout: 10_000, interval: 2 });
  receiver.clock.at += 9_000;
  expect(statuses(await line.heard('\r\n\r\n'))).toEqual([503]);
});

holds('6.3', 'the receiver answers without a body, because the service ignores it', async () => {
  const receiver = await startReceiver();
  expect(await send(receiver.port, body, { headers: signed(body) })).toMatchObject({ status: 204, text: '' });
  expect(await send(receiver.port, body)).toMatchObject({ status: 401, text: '' });
});

holds('6.3', 'the receiver accepts a webhook.ping with data { message }, cursor null and session_id null', async () => {
  const receiver = await startReceiver();
  const ping = { type: 'webhook.ping', cursor: null, session_id: null, data: { message: 'a test' } };
  expect(await deliver(receiver.port, bodyOf(ping))).toBe(204);
  expect(await storedEvent(receiver)).toMatchObject({ type: 'webhook.ping', cursor: null, sessionId: null });
});

holds('6.3', 'a handler can ask for webhook.ping, and gets its message', async () => {
  const event = await handled({ data: { message: 'a test' } as object }, 'webhook.ping');
  expect(event).toMatchObject({ cursor: null, data: { message: 'a test' } });
});

// 6.4

for (const type of ['MessageReceived', 'MessageSent', 'MessageStatusUpdated', 'webhook.ping'])
  holds('6.4', `a handler can ask for events of the type ${type}`, async () => {
    expect(await handled({}, type)).toMatchObject({ type });
  });

const MESSAGE = {
  session_id: '5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11',
  from: '15550100@network',
  body: 'hi',
  message_id: 'm1',
  is_group: true,
  timestamp_unix_ms: 1_767_268_800_123,
  message_type: 'text',
  push_name: 'Ana',
};
for (const [name, value] of Object.entries(MESSAGE))
  holds('6.4', `MessageReceived has ${name} (${name === 'timestamp_unix_ms' ? 'integer' : typeof value})`, async () => {
    expect((await handled({ data: MESSAGE })).data).toMatchObject({ [name]: value });
    const wrong = typeof value === 'string' ? 7 : 'no';
    expect(eventTypes.MessageReceived.data.safeParse({ ...MESSAGE, [name]: wrong }).success).toBe(false);
  });

holds('6.4', 'a handler gets all fields of an event of a type whose fields the contract does not show', async () => {
  const data = { text: 'x', count: '9223372036854775807', nested: { list: [1, null, true] } };
  expect((await handled({ data: data as object }, 'MessageStatusUpdated')).data).toMatchObject(data);
});

// 8

holds('8', 'the receiver accepts a delivery of up to 12 MiB', async () => {
  const receiver = await startReceiver();
  const large = bodyOf({ data: { MessageReceived: message({ body: 'x'.repeat(12 * 1024 * 1024 - 1_000) }) } });
  expect(large.length).toBeLessThanOrEqual(12 * 1024 * 1024);
  expect(await deliver(receiver.port, large)).toBe(204);
  expect(rows(receiver)).toBe(1);
});
