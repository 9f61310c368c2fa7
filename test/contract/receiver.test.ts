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

holds('2.16', 'the signing secret has the prefix whsec_', () => {
  expect(loadConfig({ WEBHOOK_SECRET: SECRET }).WEBHOOK_SECRET).toEqual([SECRET]);
  expect(() => loadConfig({ WEBHOOK_SECRET: SECRET.slice('whsec_'.length) })).toThrow('whsec_');
});

holds('2.16', 'a secret of any length is accepted, because the contract names none', () => {
  expect(loadConfig({ WEBHOOK_SECRET: 'whsec_short' }).WEBHOOK_SECRET).toEqual(['whsec_short']);
});

// 3.2, 3.3

holds(
  '3.2',
  '15 consecutive failures switch the webhook off: the kit counts them, and a success ends the count',
  async () => {
    const receiver = await startReceiver();
    for (let i = 0; i < 15; i++) await deliver(receiver.port, body, signed(body, SECONDS + 400));
    expect((await receiver.status()).failureRun).toBe(15);
    expect(await deliver(receiver.port, body)).toBe(204);
    expect((await receiver.status()).failureRun).toBe(0);
  },
);

holds('3.2', 'what strangers send is no delivery, and counts no failure', async () => {
  const receiver = await startReceiver();
  for (let i = 0; i < 15; i++) await deliver(receiver.port, body, { 'X-Svc-Signature': `v1=${BAD}` });
  expect((await receiver.status()).failureRun).toBe(0);
});

holds(
  '3.3',
  'attempts 1 to 8 are the same delivery, signed again each time: one event, up to 8 hours later',
  async () => {
    const receiver = await startReceiver();
    const waits = [0, 30, 120, 600, 1_800, 3_600, 7_200, 14_400];
    for (const [i, wait] of waits.entries()) {
      receiver.clock.at += wait * 1_000;
      const headers = signed(body, receiver.clock.at / 1_000);
      expect(await deliver(receiver.port, body, { ...headers, 'X-Svc-Attempt': i + 1 })).toBe(204);
    }
    expect(rows(receiver)).toBe(1);
    expect(await receiver.counters()).toMatchObject({ accepted: 1, duplicates: 7 });
  },
);

// 6.3: the delivery

holds(
  '6.3',
  'a delivery is a POST with a JSON body to the registered address, and another method is refused',
  async () => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, { 'Content-Type': 'application/json' })).toBe(204);
    for (const method of ['GET', 'PUT'])
      expect(
        (await send(receiver.port, body, { method, headers: { ...signed(body), 'Content-Length': body.length } }))
          .status,
      ).toBe(405);
    expect(rows(receiver)).toBe(1);
  },
);

holds(
  '6.3',
  'at least once: the same id can arrive more than once, and is one event that is handled once',
  async () => {
    const got: string[] = [];
    const handler = defineHandler({ on: 'MessageReceived', handle: ({ id }) => void got.push(id ?? '') });
    const event = fixture('MessageReceived');
    await run(handler, event, { times: 3 });
    expect(got).toEqual([event.id]);
  },
);

holds('6.3', 'deduplicate by id, also without a cursor', async () => {
  const receiver = await startReceiver();
  for (const id of ['a', 'b', 'a']) {
    const sent = bodyOf({ id, cursor: null });
    expect(await deliver(receiver.port, sent)).toBe(204);
  }
  expect(kept(receiver).events.map(({ id }) => id)).toEqual(['a', 'b']);
});

holds('6.3', 'order is not guaranteed: events are ordered by cursor, as integers', async () => {
  const got: (string | null)[] = [];
  const handler = defineHandler({ on: 'MessageReceived', handle: ({ cursor }) => void got.push(cursor) });
  const cursors = ['9', '10', '99', '100', '9007199254740993'];
  const events = cursors.map((cursor) => fixture('MessageReceived', { cursor }));
  await run(handler, events, { order: [4, 1, 3, 0, 2] });
  expect(got).toEqual(cursors);
});

holds('6.3', 'a redirect counts as failure: no delivery is ever answered with a 3xx', async () => {
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

holds('6.3', 'a delivery with all headers of the table is accepted', async () => {
  const receiver = await startReceiver();
  expect(await deliver(receiver.port, body, HEADERS)).toBe(204);
  expect(await receiver.counters()).toMatchObject({ accepted: 1 });
});

for (const [name, value] of Object.entries({ 'Content-Type': 'text/plain', 'User-Agent': 'Svc-Webhooks/2' }))
  holds('6.3', `header ${name}: is not signed, so a delivery does not fail by it`, async () => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, { ...HEADERS, [name]: value })).toBe(204);
    expect(await deliver(receiver.port, bodyOf({ cursor: '2' }), { ...HEADERS, [name]: [] })).toBe(204);
  });

holds(
  '6.3',
  'header X-Svc-Event-Id: same as body id; the id is that of the body, because only it is signed',
  async () => {
    const receiver = await startReceiver();
    await deliver(receiver.port, body, { ...HEADERS, 'X-Svc-Event-Id': 'evt_other' });
    expect(kept(receiver).events).toMatchObject([{ id: 'evt_1' }]);
  },
);

holds('6.3', 'header X-Svc-Event-Type: the type, or webhook.ping; the type is that of the body', async () => {
  const receiver = await startReceiver();
  await deliver(receiver.port, body, { ...HEADERS, 'X-Svc-Event-Type': 'webhook.ping' });
  expect(await storedEvent(receiver)).toMatchObject({ type: 'MessageReceived' });
});

holds('6.3', 'header X-Svc-Delivery-Id: another delivery of the same event is a duplicate', async () => {
  const receiver = await startReceiver();
  for (const id of ['dlv_1', 'dlv_2']) await deliver(receiver.port, body, { ...HEADERS, 'X-Svc-Delivery-Id': id });
  expect(await receiver.counters()).toMatchObject({ accepted: 1, duplicates: 1 });
});

holds(
  '6.3',
  'header X-Svc-Attempt: from 1; a new event with a higher number shows failures that the kit did not see',
  async () => {
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
  },
);

holds('6.3', 'header X-Svc-Timestamp: Unix seconds; milliseconds, ISO time and nothing are refused', async () => {
  const receiver = await startReceiver();
  for (const timestamp of [String(T0), new Date(T0).toISOString(), '', [] as string[]]) {
    const headers = { 'X-Svc-Timestamp': timestamp, 'X-Svc-Signature': `v1=${hmac(body, String(timestamp))}` };
    expect(await deliver(receiver.port, body, headers)).toBe(401);
  }
  expect(await deliver(receiver.port, body)).toBe(204);
});

holds('6.3', 'header X-Svc-Signature: v1=<hex>; without it a delivery is refused', async () => {
  const receiver = await startReceiver();
  for (const signature of [hmac(body), `v2=${hmac(body)}`, `v1=${hmac(body).slice(1)}`, '', [] as string[]])
    expect(await deliver(receiver.port, body, { 'X-Svc-Signature': signature })).toBe(401);
  expect(await deliver(receiver.port, body)).toBe(204);
  expect(rows(receiver)).toBe(1);
});

holds('6.3', 'the header names contain the service’s short name: WEBHOOK_HEADER_PREFIX sets another', () => {
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

holds('6.3', 'body id: the unique event id', async () => {
  expect(await handled({ id: 'evt_of_the_service' })).toMatchObject({ id: 'evt_of_the_service' });
});

holds('6.3', 'body type: the event type, also one that the kit does not know', async () => {
  expect(await handled({ data: { anything: 1 } as object }, 'CallEnded')).toMatchObject({
    type: 'CallEnded',
    data: { anything: 1 },
  });
});

holds('6.3', 'body created_at: the moment of the event, ISO 8601 UTC', async () => {
  const receiver = await startReceiver();
  await deliver(
    receiver.port,
    bodyOf({ type: 'CallEnded', created_at: '2026-01-01T11:59:58.123Z', data: { CallEnded: {} } }),
  );
  expect(await storedEvent(receiver)).toMatchObject({ createdAt: Date.UTC(2026, 0, 1, 11, 59, 58, 123) });
});

holds('6.3', 'body cursor: the position in history, a 64-bit integer in a string', async () => {
  expect(await handled({ cursor: '9223372036854775807' })).toMatchObject({ cursor: '9223372036854775807' });
});

holds('6.3', 'body cursor: null is accepted', async () => {
  expect(await handled({ cursor: null })).toMatchObject({ cursor: null });
});

holds('6.3', 'body session_id: the originating number', async () => {
  const receiver = await startReceiver();
  const session = '5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11';
  await deliver(receiver.port, bodyOf({ type: 'CallEnded', session_id: session, data: { CallEnded: {} } }));
  expect(await storedEvent(receiver)).toMatchObject({ sessionId: session });
});

holds('6.3', 'body session_id: null for account-wide events, which are accepted and handled', async () => {
  expect(await handled({ sessionId: null }, 'CampaignFinished')).toMatchObject({ sessionId: null });
});

holds('6.3', 'body webhook_id: an event is one, whichever of the key’s webhooks got it', async () => {
  const receiver = await startReceiver();
  for (const webhook_id of ['wh_1', 'wh_2']) expect(await deliver(receiver.port, bodyOf({ webhook_id }))).toBe(204);
  expect(rows(receiver)).toBe(1);
});

holds('6.3', 'body data: { "<EventType>": { …fields } }; a handler gets the fields', async () => {
  expect((await handled({ data: { body: 'hi', added: 1 } as object })).data).toMatchObject({ body: 'hi', added: 1 });
});

holds('6.3', 'what is signed but no such body is answered with 2xx and kept, not lost', async () => {
  const receiver = await startReceiver();
  for (const bytes of ['{', '[]', JSON.stringify(envelope({ data: {} }))])
    expect(await deliver(receiver.port, bytes)).toBe(204);
  expect(kept(receiver).quarantine).toHaveLength(3);
});

// 6.3: the signature

/** printf '1767268800.{}' | openssl dgst -sha256 -hmac whsec_0123456789abcdef0123456789abcdef */
const BY_OPENSSL = '1f3bc0524cc6fc1346d15e38e64d7173445370f88245ad89a8de4a212b9f2aff';
holds('6.3', 'signature: hex of HMAC-SHA256 with the secret over <timestamp>.<raw body>', async () => {
  const receiver = await startReceiver();
  const headers = { 'X-Svc-Timestamp': '1767268800', 'X-Svc-Signature': `v1=${BY_OPENSSL}` };
  expect((await send(receiver.port, '{}', { headers })).status).toBe(204);
  for (const wrong of [hmac(body, SECONDS, NEW_SECRET), hmac(body, SECONDS - 1), hmac(`${body.toString()} `)])
    expect(await deliver(receiver.port, body, { 'X-Svc-Signature': `v1=${wrong}` })).toBe(401);
});

holds('6.3', 'signature: over the raw body, so that other bytes of the same JSON are refused', async () => {
  const receiver = await startReceiver();
  const spaced = JSON.stringify(envelope(), null, 1);
  expect(await deliver(receiver.port, spaced, signed(body))).toBe(401);
  expect(await deliver(receiver.port, spaced)).toBe(204);
});

holds('6.3', 'signature: before parsing, so that an unsigned body is refused whatever it holds', async () => {
  const receiver = await startReceiver();
  for (const bytes of ['{', '[[[[', body])
    expect(await deliver(receiver.port, bytes, { 'X-Svc-Signature': `v1=${BAD}` })).toBe(401);
  expect(rows(receiver)).toBe(0);
});

holds('6.3', 'signature: compared in constant time, and each value with each secret', async () => {
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
    `timestamp: one that is ${Math.abs(seconds)} s ${seconds < 0 ? 'old' : 'ahead'} is ${status === 204 ? 'accepted' : 'rejected'}`,
    async () => {
      const receiver = await startReceiver();
      expect(await deliver(receiver.port, body, signed(body, SECONDS + seconds))).toBe(status);
      expect(rows(receiver)).toBe(status === 204 ? 1 : 0);
    },
  );

holds('6.3', 'timestamp: is signed, so that an old delivery cannot be sent again with a new one', async () => {
  const receiver = await startReceiver();
  receiver.clock.at = T0 + 600_000;
  expect(await deliver(receiver.port, body, { ...signed(body), 'X-Svc-Timestamp': SECONDS + 600 })).toBe(401);
});

for (const [where, value] of Object.entries({
  first: `v1=${hmac(body)},v1=${BAD}`,
  second: `v1=${BAD},v1=${hmac(body)}`,
}))
  holds('6.3', `signature: with two v1= values, the ${where} may be the one that matches`, async () => {
    const receiver = await startReceiver();
    expect(await deliver(receiver.port, body, { 'X-Svc-Signature': value })).toBe(204);
  });

holds('6.3', 'signature: two v1= values that both do not match are refused', async () => {
  const receiver = await startReceiver();
  expect(await deliver(receiver.port, body, { 'X-Svc-Signature': `v1=${BAD},v1=${BAD}` })).toBe(401);
});

holds(
  '6.3',
  'rotation: during its grace, deliveries carry both signatures; old, new or both secrets accept them',
  async () => {
    const both = { 'X-Svc-Signature': `v1=${hmac(body, SECONDS, NEW_SECRET)},v1=${hmac(body)}` };
    for (const secrets of [[SECRET], [NEW_SECRET], [NEW_SECRET, SECRET]]) {
      const receiver = await startReceiver({ secrets });
      expect(await deliver(receiver.port, body, both)).toBe(204);
    }
  },
);

holds('6.3', 'rotation: several secrets are configured at once, and change without a restart', async () => {
  expect(loadConfig({ WEBHOOK_SECRET: `${NEW_SECRET},${SECRET}` }).WEBHOOK_SECRET).toEqual([NEW_SECRET, SECRET]);
  const receiver = await startReceiver();
  const headers = signed(body, SECONDS, NEW_SECRET);
  expect(await deliver(receiver.port, body, headers)).toBe(401);
  receiver.verifier.useSecrets([NEW_SECRET, SECRET]);
  expect(await deliver(receiver.port, body, headers)).toBe(204);
});

// 6.3: the answer

holds('6.3', 'a delivery that is on disk is answered with a 2xx, new or not', async () => {
  const receiver = await startReceiver();
  expect([await deliver(receiver.port, body), await deliver(receiver.port, body)]).toEqual([204, 204]);
  expect(rows(receiver)).toBe(1);
});

holds(
  '6.3',
  'the answer comes within 10 s, also if the store cannot be written: then it is no 2xx, and comes again',
  async () => {
    const receiver = await startReceiver();
    const unlock = receiver.lock();
    onTestFinished(unlock);
    const line = await openLine(receiver.port);
    line.write(head(pairs(body)));
    line.write(body);
    await vi.waitUntil(() => receiver.groupCommit.waiting() === 1, { timeout: 10_000, interval: 2 });
    receiver.clock.at += 9_000;
    expect(statuses(await line.heard('\r\n\r\n'))).toEqual([503]);
  },
);

holds('6.3', 'the response body is ignored: answers have none', async () => {
  const receiver = await startReceiver();
  expect(await send(receiver.port, body, { headers: signed(body) })).toMatchObject({ status: 204, text: '' });
  expect(await send(receiver.port, body)).toMatchObject({ status: 401, text: '' });
});

holds(
  '6.3',
  'webhook.ping: a signed event with data { message }, cursor null and session_id null, is accepted',
  async () => {
    const receiver = await startReceiver();
    const ping = { type: 'webhook.ping', cursor: null, session_id: null, data: { message: 'a test' } };
    expect(await deliver(receiver.port, bodyOf(ping))).toBe(204);
    expect(await storedEvent(receiver)).toMatchObject({ type: 'webhook.ping', cursor: null, sessionId: null });
  },
);

holds('6.3', 'webhook.ping: a handler can ask for it and gets its message', async () => {
  const event = await handled({ data: { message: 'a test' } as object }, 'webhook.ping');
  expect(event).toMatchObject({ cursor: null, data: { message: 'a test' } });
});

// 6.4

for (const type of ['MessageReceived', 'MessageSent', 'MessageStatusUpdated', 'webhook.ping'])
  holds('6.4', `${type} is a type that handlers can ask for`, async () => {
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

holds('6.4', 'events of types whose fields are not shown arrive with all of their fields', async () => {
  const data = { text: 'x', count: '9223372036854775807', nested: { list: [1, null, true] } };
  expect((await handled({ data: data as object }, 'MessageStatusUpdated')).data).toMatchObject(data);
});

// 8

holds('8', 'a delivery of up to 12 MiB is accepted', async () => {
  const receiver = await startReceiver();
  const large = bodyOf({ data: { MessageReceived: message({ body: 'x'.repeat(12 * 1024 * 1024 - 1_000) }) } });
  expect(large.length).toBeLessThanOrEqual(12 * 1024 * 1024);
  expect(await deliver(receiver.port, large)).toBe(204);
  expect(rows(receiver)).toBe(1);
});
