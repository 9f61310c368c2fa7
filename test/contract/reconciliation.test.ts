// What the contract says to a reader of ReplayEvents (3, 4.2, 5, 6.2, 7, 8): the reconciler on a real store, against a
// service over HTTP, with a clock that the test sets.
import { expect, onTestFinished } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { createService } from '../../src/service/service.ts';
import { readDelivery, readItem } from '../../src/wire/event.ts';
import { createRig, INTERVAL_MS, quiet, START, upTo, type Rig } from '../reconcile/harness.ts';
import { API_KEY, failure, fields, item, page, type Answer, type Lie } from '../reconcile/replay-server.ts';
import { holds } from './holds.ts';

const cursors = (last: number, first = 1): string[] => upTo(last, first).map(({ cursor }) => cursor);
const HTML: Answer['body'] = '<html>no</html>';

/** The service refuses the key: one call is made. With another key, reading goes on at the watermark. */
async function proveStop(refused: Lie): Promise<void> {
  const { server, pass, state, restart, stored, asked, text } = await quiet();
  server.lieAlways(refused);
  server.publish(item(6));
  const before = asked().length;
  await pass(10 * INTERVAL_MS);
  expect(asked().length - before, 'calls').toBe(1);
  expect(await state()).toMatchObject({ state: 'stopped', reason: expect.stringMatching(/40[13]/) });
  expect(text()).not.toContain(API_KEY);
  server.lieAlways();
  restart();
  await pass(5_000);
  expect(asked()[before + 1]).toBe('5');
  expect(stored()).toEqual(cursors(6));
}

/** The milliseconds between the calls while the service fails for this long. */
async function waitsOf({ server, pass }: Rig, failing: Lie, ms: number): Promise<number[]> {
  server.lieAlways(failing);
  const before = server.requests.length;
  await pass(ms);
  server.lieAlways();
  const times = server.requests.slice(before).map(({ at }) => at);
  return times.slice(1).map((at, i) => at - (times[i] ?? 0));
}

/** The service fails: reading pauses for longer and longer. Then it goes on at the watermark. */
async function proveBackOff(failing: Lie): Promise<void> {
  const rig = await quiet();
  rig.server.publish(item(6));
  const waits = await waitsOf(rig, failing, 40_000);
  expect(waits.length).toBeGreaterThanOrEqual(3);
  for (const [i, wait] of waits.entries()) expect(wait).toBeGreaterThanOrEqual(500 * 2 ** i);
  expect(await rig.state()).toMatchObject({ state: 'backing-off' });
  expect(await rig.watermark()).toBe('5');
  await rig.pass(INTERVAL_MS);
  expect(rig.stored()).toEqual(cursors(6));
}

// 3

const DEAD_KEYS: [key: string, reason: string][] = [
  ['a revoked API key', 'API_AUTH_REVOKED'],
  ['a revoked API key', 'API_AUTH_REQUIRED'],
  ['an expired API key', 'API_AUTH_REQUIRED'],
  ['an old secret after its grace', 'API_AUTH_REVOKED'],
];
for (const [key, reason] of DEAD_KEYS)
  holds('3.1', `${key} gets 401 ${reason}, and reconciliation stops until API_KEY is changed`, () =>
    proveStop(failure(401, 'UNAUTHENTICATED', reason)),
  );

holds(
  '3.1',
  'after a rotation reconciliation goes on at the watermark with the new secret of the API key',
  async () => {
    const { server, restart, settle, asked, stored } = await quiet();
    server.publish(item(6));
    const before = asked().length;
    // The server stands for one that accepts both secrets.
    server.lieAlways((request, truth) =>
      request.headers.authorization === 'Bearer svc_test_new' ? page([item(6)]) : truth,
    );
    restart({ service: createService({ baseUrl: server.url, apiKey: 'svc_test_new', paid: false }) });
    await settle();
    expect(asked()[before]).toBe('5');
    expect(stored()).toEqual(cursors(6));
  },
);

holds('3.2', 'a webhook that is enabled again has no backfill: replay brings the events of the meantime', async () => {
  const { server, webhook, pass, stored, watermark } = await quiet();
  server.publish(...upTo(9, 6));
  await webhook(9);
  await pass(INTERVAL_MS);
  expect([stored(), await watermark()]).toEqual([cursors(9), '9']);
});

holds('3.3', 'replay brings the event of a delivery that the service has abandoned', async () => {
  const { server, pass, stored, query } = await quiet();
  server.publish(item(6));
  await pass(INTERVAL_MS);
  expect(stored()).toContain('6');
  expect(query('select origin from events where cursor = 6')).toEqual([{ origin: 'replay' }]);
});

// 2.13, 4.1, 4.2

holds('2.13', 'an event that replay, a webhook and the stream bring is one event', async () => {
  const { server, webhook, pass, store, query } = await quiet();
  server.publish(item(6));
  await webhook(6);
  await pass(INTERVAL_MS);
  const stream = readItem('stream', '6' as never, JSON.stringify({ MessageReceived: fields(6) }));
  expect(await store.ingest.accept({ readings: [stream], now: START })).toMatchObject([{ verdict: 'duplicate' }]);
  expect(query('select count(*) as n from events where cursor = 6')).toEqual([{ n: 1 }]);
  expect((await store.read.status(START)).conflicts).toBe(0);
});

holds('2.13', 'reconciliation compares the cursors of stored events as 64-bit integers, and rounds none', async () => {
  const { server, pass, stored, watermark } = await quiet();
  const large = ['9007199254740992', '9007199254740993', '9223372036854775806'];
  server.publish(item(10), item(9), ...large.map((cursor) => item(cursor)));
  await pass(INTERVAL_MS);
  expect(stored().slice(5)).toEqual(['9', '10', ...large]);
  expect(await watermark()).toBe(large[2]);
});

holds(
  '4.1',
  'reconciliation calls ReplayEvents with request and deadlineMs from 1 to 30000, without billing',
  async () => {
    const { server, pass } = await quiet();
    await pass(INTERVAL_MS);
    for (const { operation, body, headers } of server.requests) {
      expect(operation).toBe('ReplayEvents');
      expect(headers['content-type']).toBe('application/json');
      expect(Object.keys(body as object).toSorted()).toEqual(['deadlineMs', 'request']);
      expect(body).toMatchObject({ deadlineMs: expect.toSatisfy((ms: number) => ms >= 1 && ms <= 30_000) });
    }
    expect(server.requests.length).toBeGreaterThan(0);
  },
);

holds('4.2', 'reconciliation asks ReplayEvents for at most 1000 events after a cursor that it has seen', async () => {
  const { server, pass } = await quiet();
  server.publish(...upTo(2_500, 6));
  const before = server.requests.length;
  await pass(INTERVAL_MS);
  const asked = server.requests.slice(before, before + 3).map(({ body }) => (body as { request: object }).request);
  expect(asked).toEqual(['5', '1005', '2005'].map((after_cursor) => ({ after_cursor, limit: 1_000 })));
});

holds('4.2', 'reconciliation calls ReplayEvents without a cursor only if REPLAY_FROM=start', async () => {
  const rig = await createRig({ from: 'start' });
  onTestFinished(rig.close);
  rig.server.publish(...upTo(3));
  await rig.settle();
  expect(rig.asked()[0]).toBeUndefined();
  expect(rig.asked().slice(1)).not.toContain(undefined);
  expect(rig.stored()).toEqual(cursors(3));
});

holds('4.2', 'after a page with has_more reconciliation reads the next one, at next_cursor', async () => {
  const { server, pass, asked, stored } = await quiet();
  const before = asked().length;
  server.lie(page(upTo(7, 6), { has_more: true }), page(upTo(8, 8)));
  await pass(5_000);
  expect(asked().slice(before, before + 2)).toEqual(['5', '7']);
  expect(stored()).toEqual(cursors(8));
});

holds('4.2', 'after an empty page with has_more reconciliation reads on from its next_cursor', async () => {
  const { server, pass, asked, stored } = await quiet();
  const before = asked().length;
  server.publish(item(95));
  server.lie(page([], { next_cursor: '90', has_more: true }), page([item(95)]));
  await pass(5_000);
  expect(asked().slice(before, before + 2)).toEqual(['5', '90']);
  expect(stored()).toContain('95');
});

holds('4.2', 'after reset_required a gap names the expired events, and reconciliation goes on after it', async () => {
  const { server, webhook, pass, store, query, watermark } = await quiet();
  server.publish(...upTo(30, 6));
  await webhook(25);
  server.forget('20');
  await pass(INTERVAL_MS);
  expect(await store.read.gaps()).toMatchObject([{ after: '5', reason: 'reset_required', closedAt: null }]);
  expect(query(`select count(*) as n from events where type = 'kit.gap'`)).toEqual([{ n: 1 }]);
  expect(await watermark()).toBe('30');
});

holds('4.2', 'an item of ReplayEvents that is no event goes into quarantine, and reading goes on', async () => {
  const { server, pass, stored, watermark, query } = await quiet();
  server.publish({ cursor: '6', json_payload: 'not JSON' }, item(7));
  await pass(INTERVAL_MS);
  expect([stored().at(-1), await watermark()]).toEqual(['7', '7']);
  expect(query('select count(*) as n from quarantine')).toEqual([{ n: 1 }]);
});

// 5

holds('5.1', 'ReplayEvents carries Authorization: Bearer <API_KEY>', async () => {
  const { server } = await quiet();
  expect(new Set(server.requests.map(({ headers }) => headers.authorization))).toEqual(new Set([`Bearer ${API_KEY}`]));
});

holds('5.3', 'an API key without events:read gets 403, and reconciliation stops until it is changed', () =>
  proveStop(failure(403, 'FORBIDDEN')),
);

holds('5.4', 'with an API key restricted to numbers, reconciliation misses none of their events', async () => {
  const { server, pass, stored, watermark } = await quiet();
  const seen = [95, 97, 140];
  server.publish(...seen.map((cursor) => item(cursor)));
  server.lieAlways(({ after }) => {
    const to = Math.min(150, Number(after) + 10);
    const items = seen.filter((cursor) => cursor > Number(after) && cursor <= to).map((cursor) => item(cursor));
    return page(items, { next_cursor: String(to), has_more: to < 150 });
  });
  await pass(2 * INTERVAL_MS);
  expect(stored().slice(5)).toEqual(seen.map(String));
  expect(await watermark()).toBe('140');
});

holds('5.5', 'an API key that does not allow the address gets 403, and reconciliation stops', () =>
  proveStop(failure(403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN')),
);

holds('5.6', 'above the API key’s own limit reconciliation gets 429, and backs off', () =>
  proveBackOff(failure(429, 'RATE_LIMITED', 'API_KEY_RATE_LIMITED')),
);

// 6.2

holds('6.2', 'reconciliation reads stored events after a cursor, up to 1000 per call of ReplayEvents', async () => {
  const { server, pass, stored, asked } = await quiet();
  server.publish(...upTo(3_005, 6));
  const before = asked().length;
  await pass(INTERVAL_MS);
  expect(stored()).toHaveLength(3_005);
  expect(asked().slice(before, before + 3)).toEqual(['5', '1005', '2005']);
});

holds(
  '6.3',
  'an event that replay brings before its webhook is one event, and gets the id of the webhook',
  async () => {
    const { server, pass, store, query } = await quiet();
    server.publish(item(6));
    await pass(INTERVAL_MS);
    const data = { MessageReceived: fields(6) };
    const delivery = { id: 'evt_6', type: 'MessageReceived', created_at: '2026-01-01T12:00:00Z', cursor: '6', data };
    const reading = readDelivery(Buffer.from(JSON.stringify(delivery)));
    expect(await store.ingest.accept({ readings: [reading], now: START })).toMatchObject([{ verdict: 'duplicate' }]);
    expect(query('select id from events where cursor = 6')).toEqual([{ id: 'evt_6' }]);
  },
);

// 7

holds('7.1', 'the log has the requestId of a failed call, and not the message of the service', async () => {
  const { server, pass, text, state } = await quiet();
  server.lieAlways(failure(503, 'UNAVAILABLE'));
  await pass(10_000);
  expect(text()).toContain('req-503');
  expect(`${text()} ${JSON.stringify(await state())}`).not.toContain('texto que pode mudar');
});

for (const [status, code] of [
  [401, 'UNAUTHENTICATED'],
  [403, 'FORBIDDEN'],
] as const) {
  holds('7.2', `after ${status} ${code} of ReplayEvents reconciliation stops until API_KEY is changed`, () =>
    proveStop(failure(status, code)),
  );
  holds('7.2', `after ${status} of ReplayEvents without an error envelope reconciliation stops, too`, () =>
    proveStop({ status, body: HTML }),
  );
}
for (const [status, code] of [
  [404, 'NOT_FOUND'],
  [400, 'VALIDATION_FAILED'],
  [413, 'VALIDATION_FAILED'],
  [409, 'CONFLICT'],
  [402, 'PAYMENT_REQUIRED'],
  [429, 'RATE_LIMITED'],
  [503, 'UNAVAILABLE'],
  [504, 'UNAVAILABLE'],
  [500, 'INTERNAL'],
] as const) {
  holds('7.2', `after ${status} ${code} of ReplayEvents reconciliation backs off, and goes on`, () =>
    proveBackOff(failure(status, code)),
  );
  holds('7.2', `after ${status} of ReplayEvents without an error envelope reconciliation backs off, too`, () =>
    proveBackOff({ status, body: HTML }),
  );
}

for (const [reason, status, code] of [
  ['API_AUTH_REVOKED', 401, 'UNAUTHENTICATED'],
  ['API_AUTH_REQUIRED', 401, 'UNAUTHENTICATED'],
  ['AUTH_REQUIRED', 401, 'UNAUTHENTICATED'],
  ['API_KEY_IP_FORBIDDEN', 403, 'FORBIDDEN'],
  ['RPC_METHOD_FORBIDDEN', 403, 'FORBIDDEN'],
] as const)
  holds('7.4', `after ${reason} reconciliation stops, and its state names the reason`, async () => {
    const { server, pass, state } = await quiet();
    server.lieAlways(failure(status, code, reason));
    await pass(INTERVAL_MS);
    expect(await state()).toMatchObject({ state: 'stopped', reason: expect.stringContaining(reason) });
  });

for (const [reason, status, code] of [
  ['RATE_LIMITED', 429, 'RATE_LIMITED'],
  ['ACCESS_CONTROL_UNAVAILABLE', 503, 'UNAVAILABLE'],
] as const)
  holds('7.4', `after ${reason} reconciliation backs off`, () => proveBackOff(failure(status, code, reason)));

holds('7.4', 'after RPC_DEADLINE_EXCEEDED reconciliation asks for fewer events, then for more again', async () => {
  const { server, pass } = await quiet();
  const before = server.requests.length;
  server.lie(...Array.from({ length: 2 }, () => failure(504, 'UNAVAILABLE', 'RPC_DEADLINE_EXCEEDED')));
  await pass(10 * INTERVAL_MS);
  const limits = server.requests.slice(before).map(({ limit }) => limit);
  expect(limits.slice(0, 3)).toEqual([1_000, 500, 250]);
  expect(limits.at(-1)).toBe(1_000);
});

holds('7.4', 'after EVENT_CURSOR_INVALID reconciliation asks for an older cursor, and records no gap', async () => {
  const { server, pass, stored, watermark, store } = await quiet();
  server.publish(...upTo(8, 6));
  server.lieAlways(({ after }, truth) =>
    after === '5' ? failure(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID') : truth,
  );
  await pass(2 * INTERVAL_MS);
  expect([stored(), await watermark()]).toEqual([cursors(8), '8']);
  expect(await store.read.gaps()).toEqual([]);
});

// 8

holds('8', 'reconciliation makes at most RECONCILE_CALLS_PER_MINUTE of the account’s 120 calls', async () => {
  const { RECONCILE_CALLS_PER_MINUTE: most } = loadConfig({ WEBHOOK_SECRET: `whsec_${'0'.repeat(32)}` });
  expect(most).toBeLessThanOrEqual(120);
  const { server, restart, pass } = await quiet();
  restart({ callsPerMinute: most });
  const before = server.requests.length;
  server.lieAlways(({ after = '5' }) => page([item(BigInt(after) + 1n)], { has_more: true }));
  await pass(3 * 60_000);
  const times = server.requests.slice(before).map(({ at }) => at);
  expect(times.length).toBeGreaterThan(most);
  for (const from of times)
    expect(times.filter((at) => at >= from && at < from + 60_000).length).toBeLessThanOrEqual(most);
});

holds('8', 'after a 429 reconciliation waits 1, 2, 4, 8 … s up to 60 s, with random variation', async () => {
  const waits = await waitsOf(await quiet(), failure(429, 'RATE_LIMITED', 'RATE_LIMITED'), 10 * 60_000);
  expect(waits.length).toBeGreaterThan(10);
  for (const [i, wait] of waits.entries()) {
    const most = Math.min(60_000, 1_000 * 2 ** i);
    expect(wait).toBeGreaterThanOrEqual(most / 2);
    expect(wait).toBeLessThanOrEqual(most + 1);
  }
  expect(new Set(waits.slice(6)).size, 'random variation').toBeGreaterThan(1);
});

holds('8', 'reconciliation loses no event of a page of ReplayEvents with more than 1000', async () => {
  const { server, pass, stored } = await quiet();
  server.publish(...upTo(1_605, 6));
  server.lie(page(upTo(1_605, 6)));
  await pass(INTERVAL_MS);
  expect(stored()).toEqual(cursors(1_605));
});
