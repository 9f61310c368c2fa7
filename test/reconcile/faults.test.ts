// Reconciliation against a service that fails or lies. If a fault has a number, the title begins with it. After every
// step, harness.ts checks three promises: everything up to the watermark is stored, every requested cursor was seen
// before, and a step makes at most one call.
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { createAlarms } from '../../src/alarms/alarms.ts';
import { ServiceError } from '../../src/service/errors.ts';
import { API_KEY, failure, item, page, type Answer, type Item, type Lie } from './replay-server.ts';
import { createRig, INTERVAL_MS, OVERLAP_MS, type Rig, type RigOptions } from './harness.ts';
import { COMPOSE } from '../alarms/alert-endpoint.ts';

let rig: Rig;
afterEach(() => rig.close());

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, i) => item(first + i));

/** The service and the kit know events 1 to 5. The watermark is 5. */
async function caughtUp(options?: RigOptions): Promise<Rig> {
  rig = await createRig(options);
  rig.server.publish(...upTo(5));
  await rig.webhook(1);
  await rig.settle();
  expect(await rig.watermark()).toBe('5');
  return rig;
}

/** Two overlap periods after `caughtUp`, so that overlap passes have nothing to read. */
async function quiet(options?: RigOptions): Promise<Rig> {
  const ready = await caughtUp(options);
  ready.clock.time += 2 * OVERLAP_MS;
  await ready.settle();
  ready.clock.time += INTERVAL_MS;
  return ready;
}

const itemsOf = ({ body }: Answer): Item[] => (body as { events: Item[] }).events;

describe('a service that refuses', () => {
  test.each([
    ['401', failure(401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED')],
    ['403', failure(403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN')],
    ['403 of a proxy', { status: 403, body: '<html>Forbidden</html>' }],
  ])('F31: after %s replay stops, `status` says so, and the call is not repeated', async (_, refusal) => {
    const { server, pass, state, text } = await quiet();
    server.lieAlways(refusal);
    const before = server.requests.length;
    await pass(24 * INTERVAL_MS);
    expect(server.requests.length - before).toBe(1);
    expect(await state()).toMatchObject({ state: 'stopped', reason: expect.stringContaining(`${refusal.status}`) });
    expect(text()).toContain('npx kit reconcile');
    expect(text()).not.toContain(API_KEY);
  });

  test('F31: webhooks are still accepted, and replay resumes when a person asks', async () => {
    const { server, pass, webhook, ask, state, stored, watermark } = await quiet();
    server.lie(failure(401, 'UNAUTHENTICATED'));
    server.publish(...upTo(8, 6));
    await pass(INTERVAL_MS);
    await webhook(7);
    expect(await watermark()).toBe('5');
    await ask();
    await pass(5_000);
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '6', '7', '8']);
    expect(await watermark()).toBe('8');
  });

  test('F31: a key that is still refused stops replay again after one call', async () => {
    const { server, pass, ask, state } = await quiet();
    server.lieAlways(failure(401, 'UNAUTHENTICATED'));
    await pass(INTERVAL_MS);
    const before = server.requests.length;
    await ask();
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBe(1);
    expect(await state()).toMatchObject({ state: 'stopped' });
  });

  test('F31: if a person asks while the budget is used up, replay resumes with the next allowed call', async () => {
    const { server, pass, ask, state } = await caughtUp({ callsPerMinute: 3, intervalMs: 1_000, overlapMs: 0 });
    server.lie(failure(401, 'UNAUTHENTICATED'));
    while ((await state()).state !== 'stopped') await pass(1_000);
    server.publish(item(6));
    await ask();
    await pass(180_000);
    expect(await rig.watermark()).toBe('6');
  });

  test.each([
    ['F32: 429', failure(429, 'RATE_LIMITED', 'RATE_LIMITED')],
    ['F33: 500', failure(500, 'INTERNAL')],
    ['F33: 503', failure(503, 'UNAVAILABLE', 'ACCESS_CONTROL_UNAVAILABLE')],
    ['F33: 504 RPC_DEADLINE_EXCEEDED', failure(504, 'UNAVAILABLE', 'RPC_DEADLINE_EXCEEDED')],
    ['F33: 502 of a proxy', { status: 502, body: 'bad gateway' }],
    ['F36: a cut connection', 'destroy' as const],
  ] satisfies [string, Lie][])('%s: pauses grow, with jitter, up to a minute', async (_, refusal) => {
    const { server, pass, state, watermark } = await quiet();
    server.lieAlways(refusal);
    const before = server.requests.length;
    await pass(15 * 60_000);
    const times = server.requests.slice(before).map(({ at }) => at);
    const waits = times.slice(1).map((at, i) => at - (times[i] ?? 0));
    for (const [i, wait] of waits.entries()) {
      const ceiling = Math.min(60_000, 1_000 * 2 ** i);
      expect(wait).toBeGreaterThanOrEqual(ceiling / 2);
      expect(wait).toBeLessThanOrEqual(ceiling + 1);
    }
    const late = waits.slice(6);
    expect(late.length).toBeGreaterThan(8);
    expect(new Set(late).size, 'jitter').toBeGreaterThan(1);
    expect(await state()).toMatchObject({ state: 'backing-off' });
    expect(await watermark()).toBe('5');
  });

  test('F33: the log has the request id of a failed call, and after a success the back-off begins anew', async () => {
    const { server, pass, settle, text, state, clock } = await quiet();
    server.lie(...Array.from({ length: 6 }, () => failure(503, 'UNAVAILABLE')));
    await pass(3 * 60_000);
    expect(text()).toContain('req-503');
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
    clock.time += INTERVAL_MS;
    server.lie(failure(503, 'UNAVAILABLE'));
    await settle();
    const before = server.requests.length;
    await pass(1_001);
    expect(server.requests.length - before).toBe(1);
  });
});

describe('a cursor that the service does not know', () => {
  const unknown = failure(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID');
  /** Refuses these cursors as unknown. */
  const without =
    (...cursors: string[]): Lie =>
    ({ after }, truth) =>
      after !== undefined && cursors.includes(after) ? unknown : truth;

  test('F34: replay tries an older cursor, stores the new events, and continues after them', async () => {
    const { server, pass, stored, watermark, asked, state } = await quiet();
    server.publish(...upTo(9, 6));
    server.lieAlways(without('5'));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9']);
    expect(await watermark(), 'replay has shown everything up to here').toBe('9');
    // Until the overlap period has passed, an overlap pass may still begin at the refused cursor.
    await pass(OVERLAP_MS + 2 * INTERVAL_MS);
    const before = asked().length;
    await pass(5 * INTERVAL_MS);
    expect(new Set(asked().slice(before))).toEqual(new Set(['9']));
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
  });

  test('F34: while the watermark is refused and nothing is newer, calls are few; the next event is found', async () => {
    const { server, pass, stored, asked } = await quiet();
    server.lieAlways(without('5'));
    const before = asked().length;
    await pass(10 * INTERVAL_MS);
    expect(asked().length - before).toBeLessThanOrEqual(30);
    server.publish(item(6));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toContain('6');
  });

  test('F34: an overlap pass whose first cursor is refused does not delay the forward pass', async () => {
    const { server, pass, stored, watermark, state } = await caughtUp();
    server.lieAlways(without('1'));
    server.publish(...upTo(7, 6));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toContain('7');
    server.publish(item(8));
    await pass(INTERVAL_MS + 5_000);
    expect(await watermark()).toBe('8');
    await pass(OVERLAP_MS + INTERVAL_MS);
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
  });

  test('F34: if every cursor is refused, replay tries an older one once and backs off', async () => {
    const { server, pass, state, asked } = await quiet();
    server.lieAlways(unknown);
    const before = asked().length;
    await pass(60 * INTERVAL_MS);
    expect(asked().length - before).toBeLessThanOrEqual(90);
    expect(asked().slice(before, before + 2)).toEqual(['5', '3']);
    expect(await state()).toMatchObject({
      state: 'backing-off',
      reason: expect.stringContaining('EVENT_CURSOR_INVALID'),
    });
  });

  test('F34: if the older cursor is refused, too, replay tries the watermark again', async () => {
    const { server, pass, stored, watermark } = await quiet();
    server.publish(item(6));
    server.lie(unknown);
    server.lieAlways(without('1'));
    await pass(30 * INTERVAL_MS);
    expect(stored()).toContain('6');
    expect(await watermark()).toBe('6');
  });
});

describe('an expired watermark that the service reports as unknown', () => {
  const unknown = failure(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID');
  /** Refuses cursors below this one as unknown. Without a cursor, it shows an event that is not of this account. */
  const expired =
    (below: bigint): Lie =>
    ({ after }, truth) => {
      if (after === undefined) return page([item(7_000)]);
      return BigInt(after) < below ? unknown : truth;
    };
  const foreign = () => rig.asked().filter((after) => after === undefined);

  test('a gap is stored, and replay continues at the lowest known cursor that is accepted', async () => {
    const { server, webhook, pass, store, stored, watermark } = await quiet();
    server.publish(...upTo(200, 6));
    for (const cursor of [60, 120, 170, 180]) await webhook(cursor);
    server.lieAlways(expired(150n));
    await pass(5 * INTERVAL_MS);
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: '170', reason: 'cursor_unknown' }]);
    expect(await watermark()).toBe('200');
    expect(stored().slice(-31)).toEqual(upTo(200, 170).map(({ cursor }) => cursor));
    expect(foreign()).toEqual([]);
  });

  test('a gap is also stored if no older cursor is known, but not after a single refusal', async () => {
    rig = await createRig();
    rig.server.publish(...upTo(200));
    await rig.webhook(10);
    rig.server.lie(unknown);
    await rig.pass(3 * INTERVAL_MS);
    expect(await rig.watermark()).toBe('200');
    expect(await rig.store.read.gaps()).toEqual([]);
    await rig.close();

    rig = await createRig();
    rig.server.publish(...upTo(200));
    await rig.webhook(10);
    rig.server.lieAlways(failure(503, 'UNAVAILABLE'));
    await rig.pass(INTERVAL_MS);
    await rig.webhook(170);
    rig.server.lieAlways(expired(150n));
    await rig.pass(5 * INTERVAL_MS);
    expect(await rig.store.read.gaps()).toMatchObject([{ after: '10', upTo: '170' }]);
    expect(await rig.watermark()).toBe('200');
  });

  test('if every cursor is refused, there is no gap, few calls, and no event of another account', async () => {
    const { server, webhook, pass, store, state, watermark } = await quiet();
    for (const cursor of [60, 120, 170]) await webhook(cursor);
    server.lieAlways(expired(10_000n));
    const before = server.requests.length;
    await pass(30 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(30 * 6);
    expect(await store.read.gaps()).toEqual([]);
    expect(await watermark()).toBe('5');
    expect(foreign()).toEqual([]);
    const words = async () => (await state()).reason ?? '';
    for (let seconds = 0; seconds < 300 && !(await words()).includes('of this account?'); seconds++) await pass(1_000);
    expect(await words()).toContain('of this account?');
  });
});

describe('faults and clocks over a long time', () => {
  test('a fresh install begins at its first webhook, however long replay fails, also after a restart', async () => {
    rig = await createRig();
    rig.server.publish(...upTo(300));
    rig.server.lieAlways(failure(503, 'UNAVAILABLE'));
    for (let minute = 0; minute < 12; minute++) {
      await rig.webhook(minute * 20 + 1);
      await rig.pass(60_000);
      if (minute === 8) rig.restart();
    }
    rig.server.lieAlways();
    await rig.pass(5 * INTERVAL_MS);
    expect(new Set(rig.asked())).toContain('1');
    expect(rig.stored()).toEqual(upTo(300).map(({ cursor }) => cursor));
  });

  test('status and the alarm show since when replay fails, also after a restart', async () => {
    const { server, pass, store, clock, restart } = await quiet();
    const since = async () => (await store.read.status(clock.now())).reconcile.since;
    const alarms = createAlarms({
      store,
      clock,
      log: rig.log,
      alertUrl: undefined,
      compose: COMPOSE,
      freeBytes: () => 1e12,
    });
    const raised = async () => (
      await alarms.step(),
      await alarms.notify(),
      (await store.alarms.raised()).map(({ name }) => name)
    );
    server.lieAlways(failure(503, 'UNAVAILABLE'));
    await pass(100_000);
    const first = await since();
    expect(await raised()).not.toContain('reconcile_behind');
    restart();
    await pass(100_000);
    expect(await since()).toBe(first);
    expect(await raised()).toContain('reconcile_behind');
    server.lieAlways();
    await pass(2 * INTERVAL_MS);
    expect(await raised()).not.toContain('reconcile_behind');
  });

  test('after a clock was set back three hours, events that replay does not show are still counted', async () => {
    const { webhook, pass, clock, store, query } = await quiet();
    const searched = () => query<{ value: number }>(`select value from state where name = 'searched'`)[0]?.value;
    await pass(OVERLAP_MS);
    clock.step(-3 * 3_600_000);
    await webhook(50);
    const before = searched();
    await pass(20 * INTERVAL_MS);
    expect(searched()).not.toBe(before);
    expect((await store.read.counters())['unseen']).toBe(1);
  });

  test('if a person asks while the last page is on its way, another pass follows', async () => {
    const { server, now, stored, pass, asked } = await quiet({ intervalMs: 3_600_000 });
    now();
    server.lie((_, truth) => {
      server.publish(item(6));
      now();
      return truth;
    });
    await pass(10_000);
    expect(stored()).toContain('6');
    const before = asked().length;
    await pass(10 * INTERVAL_MS);
    expect(asked().length - before, 'once').toBeLessThanOrEqual(1);
  });

  test('a gap without an end is closed when its cursor is accepted again, even if no event follows', async () => {
    const { server, pass, store } = await quiet();
    server.lieAlways(page([], { reset_required: true }));
    await pass(2 * INTERVAL_MS);
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: null, closedAt: null }]);
    server.lieAlways();
    await pass(2 * INTERVAL_MS);
    expect(await store.read.gaps()).toMatchObject([{ after: '5', closedAt: expect.any(String) }]);
  });
});

describe('answers that are too large', () => {
  const most = 64 * 1024 * 1024;
  const limits = (from: number) => rig.server.requests.slice(from).map(({ limit }) => limit);

  test('after an answer above 64 MiB the limit is halved until a page fits, and later raised again', async () => {
    const { server, pass, watermark } = await quiet();
    server.publish(...upTo(600, 6));
    const before = server.requests.length;
    server.lieAlways(({ limit = 0 }, truth) => (limit > 250 ? { body: Buffer.alloc(most + 1) } : truth));
    await pass(10_000);
    expect(limits(before).slice(0, 3)).toEqual([1_000, 500, 250]);
    server.lieAlways();
    await pass(2 * INTERVAL_MS);
    expect(await watermark()).toBe('600');
    expect(limits(before).at(-1)).toBe(1_000);
  });

  test('the limit is halved after RPC_DEADLINE_EXCEEDED, too', async () => {
    const { server, pass } = await quiet();
    const before = server.requests.length;
    server.lie(failure(504, 'UNAVAILABLE', 'RPC_DEADLINE_EXCEEDED'), failure(503, 'UNAVAILABLE'));
    await pass(30_000);
    expect(limits(before).slice(0, 3), '503 says nothing of its size').toEqual([1_000, 500, 500]);
  });

  test.each<[string, unknown]>([
    ['breaks off', new TypeError('terminated')],
    ['does not come to its end in time', new DOMException('', 'TimeoutError')],
  ])('the limit is halved after an answer that %s', async (_, cause) => {
    rig = await createRig();
    const asked: unknown[] = [];
    rig.restart({
      service: {
        call: async (_operation, { limit }) => {
          asked.push(limit);
          if (asked.length < 3) throw new ServiceError({ code: 'unreachable', message: 'test', cause });
          return { events: [], next_cursor: '', has_more: false, reset_required: false };
        },
      },
    });
    await rig.webhook(1);
    await rig.pass(3 * INTERVAL_MS);
    expect(asked.slice(0, 5)).toEqual([1_000, 500, 250, 500, 1_000]);
  });
});

describe('an error with words that the contract does not have', () => {
  test.each([
    ['the key', API_KEY],
    ['a hundred kilobytes', 'A'.repeat(100_000)],
    ['escape characters', 'X\u001b[2J\u0007'],
  ])('%s, in the fields of an error, is neither shown nor logged', async (_, word) => {
    const { server, pass, state, text } = await quiet();
    const requestId = word === API_KEY ? 'r' : word;
    const error = { code: word, message: word, requestId, reason: word };
    server.lie({ status: 503, body: { error } }, { status: 503, body: { error: { ...error, code: 'UNAVAILABLE' } } });
    server.lieAlways({ status: 401, body: { error: { ...error, code: 'UNAUTHENTICATED', requestId: 'r' } } });
    await pass(INTERVAL_MS);
    expect(await state()).toMatchObject({ state: 'stopped', reason: 'ReplayEvents: 401 UNAUTHENTICATED' });
    expect(text().includes(word)).toBe(false);
    expect(text().length).toBeLessThan(10_000);
  });
});

describe('an answer that is no valid page', () => {
  const six = item(6);
  const fine = { events: [six], next_cursor: '6', has_more: false, reset_required: false };

  test.each([
    ['404', failure(404, 'NOT_FOUND', 'RPC_METHOD_NOT_FOUND')],
    ['413', failure(413, 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE')],
    ['a redirect', { status: 302, headers: { location: '/v1/rpc/Elsewhere' }, body: '' }],
    ['a redirect that keeps the method', { status: 307, headers: { location: '/v1/rpc/Elsewhere' }, body: '' }],
    ['HTML with status 200', { body: '<html>please log in</html>' }],
    ['nothing at all', { body: '' }],
    ['a bare array', { body: [] }],
    ['an array of items', { body: [six] }],
    ['half of the JSON', { body: JSON.stringify(fine).slice(0, -20) }],
    ['null', { body: 'null' }],
    ['no events', { body: { ...fine, events: undefined } }],
    ['events that are an object', { body: { ...fine, events: { 0: six } } }],
    ['has_more as text', { body: { ...fine, has_more: 'false' } }],
    ['no has_more', { body: { ...fine, has_more: undefined } }],
    ['next_cursor as a number', { body: { ...fine, next_cursor: 6 } }],
    ['reset_required as text', { body: { ...fine, reset_required: 'no' } }],
    ['an error envelope with status 200', { body: failure(500, 'INTERNAL').body }],
    ['a body that gzip spoils', { headers: { 'content-encoding': 'gzip' }, body: gzipSync('{}').subarray(0, 12) }],
  ] satisfies [string, Answer][])('F35: %s is refused as a whole and requested again', async (_, answer) => {
    const { server, step, pass, state, stored, watermark } = await quiet();
    server.publish(six);
    server.lie(answer);
    await step();
    expect(await state()).toMatchObject({ state: 'backing-off', reason: expect.any(String) });
    expect(stored()).not.toContain('6');
    expect(await watermark()).toBe('5');
    await pass(5_000);
    expect(
      server.requests.every(({ operation }) => operation === 'ReplayEvents'),
      'no redirect followed',
    ).toBe(true);
    expect(stored()).toContain('6');
    expect(await watermark()).toBe('6');
  });

  test('F35: an empty first page that promises more is refused', async () => {
    rig = await createRig({ from: 'start' });
    rig.server.lieAlways(page([], { has_more: true }));
    await rig.pass(10 * INTERVAL_MS);
    expect(await rig.state()).toMatchObject({ state: 'backing-off' });
    expect(rig.server.requests.length).toBeLessThan(40);
  });
});

describe('a page that is wrong about where it ends', () => {
  /** Shows the same two events for every request, with the promise of more. */
  const standing = page([item(4), item(5)], { has_more: true });

  test.each([
    ['F37: an empty page that says there is more', page([], { has_more: true, next_cursor: '5' })],
    ['F37: the same items again and again', standing],
  ])('%s: the page is requested once more, then only after the next interval', async (_, answer) => {
    const { server, pass, state, watermark, text } = await quiet();
    server.lieAlways(answer);
    const before = server.requests.length;
    await pass(10_000);
    expect(server.requests.length - before).toBe(2);
    expect(await state()).toMatchObject({ state: 'backing-off', reason: expect.stringContaining('does not advance') });
    expect(text()).toContain('shows nothing');
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(22);
    expect(await watermark()).toBe('5');
  });

  test('F37: replay continues when the service shows new events again', async () => {
    const { server, pass, stored, state } = await quiet();
    server.lie(standing, standing);
    server.publish(item(6));
    await pass(2 * INTERVAL_MS);
    expect(stored()).toContain('6');
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
  });

  test.each([
    ['back', '2'],
    ['far beyond its last item', '900'],
    ['at no cursor at all', 'abc'],
    ['nowhere', ''],
    ['past 64 bits', '9'.repeat(30)],
  ])('F38: if next_cursor points %s, replay continues after the last item', async (_, next_cursor) => {
    const { server, settle, stored, watermark, asked } = await quiet();
    server.publish(...upTo(9, 6));
    server.lie((_request, truth) => page(itemsOf(truth).slice(0, 2), { has_more: true, next_cursor }));
    await settle();
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '6', '7', '8', '9']);
    expect(await watermark()).toBe('9');
    expect(asked()).toContain('7');
  });

  test('F38: at the end of history, a far too high next_cursor does not raise the watermark', async () => {
    const { server, settle, pass, stored, watermark } = await quiet();
    server.publish(item(6));
    server.lie(page([item(6)], { next_cursor: '900' }), page([], { next_cursor: '900' }));
    await settle();
    expect(await watermark()).toBe('6');
    server.publish(item(7));
    await pass(INTERVAL_MS + 5_000);
    expect(stored()).toContain('7');
  });
});

describe('faulty items', () => {
  test('F40: items that are out of order, repeated or below after_cursor are sorted, and each is one row', async () => {
    const { server, settle, stored, watermark, text } = await quiet();
    server.publish(...upTo(12, 6));
    server.lie(page([item(9), item(7), item(3), item(12), item(7), item(10), item(6), item(11), item(8)]));
    await settle();
    expect(stored()).toHaveLength(12);
    expect(await watermark()).toBe('12');
    expect(text()).toContain('out of order');
  });

  test('F40: cursors are compared as integers', async () => {
    rig = await createRig({ from: '5' });
    rig.server.publish(item(5), item(9), item(10), item('9007199254740993'), item('9223372036854775807'));
    rig.server.lie((_, truth) => page(itemsOf(truth).toReversed()));
    await rig.settle();
    expect(rig.stored()).toEqual(['9', '10', '9007199254740993', '9223372036854775807']);
    expect(await rig.watermark()).toBe('9223372036854775807');
  });

  test('F40: a page with more than a thousand items loses none', async () => {
    const { server, settle, stored, watermark } = await quiet();
    server.publish(...upTo(1_505, 6));
    server.lie(page(upTo(1_505, 6)));
    await settle();
    expect(stored()).toHaveLength(1_505);
    expect(await watermark()).toBe('1505');
  });

  test.each([
    ['without a cursor', { json_payload: item(7).json_payload }],
    ['with a number for a cursor', { ...item(7), cursor: 7 }],
    ['with an odd cursor', item('0x7')],
    ['that is null', null],
    ['that is text', 'seven'],
  ])('F40: an item %s goes to quarantine, and its neighbours are stored', async (_, odd) => {
    rig = await createRig({ from: '5' });
    rig.server.publish(item(5), item(6), item(8));
    rig.server.lie(page([item(6), odd, item(8)]));
    await rig.settle();
    expect(rig.stored()).toEqual(['6', '8']);
    expect(await rig.watermark()).toBe('8');
    const kept = await rig.store.read.quarantine(10);
    expect(kept).toMatchObject([{ origin: 'replay', cursor: null }]);
  });

  test('F40: faulty pages are logged once, and again only after a page without faults', async () => {
    rig = await createRig({ from: '5' });
    const odd = page([item(6), item(8), item(7)]);
    const said = (): number => rig.text().split('was odd').length - 1;
    rig.server.publish(...upTo(8, 5));
    rig.server.lieAlways(odd);
    await rig.pass(5 * INTERVAL_MS);
    const once = said();
    expect(once).toBeGreaterThan(0);
    await rig.pass(5 * INTERVAL_MS);
    expect(said()).toBe(once);
    rig.server.lieAlways();
    await rig.pass(5 * INTERVAL_MS);
    expect(said()).toBe(once);
    rig.server.lieAlways(odd);
    await rig.pass(5 * INTERVAL_MS);
    expect(said()).toBeGreaterThan(once);
  });

  test('F40: a page whose items all lack a cursor causes no loop of calls', async () => {
    const { server, pass, watermark } = await quiet();
    server.lieAlways(page([{ json_payload: item(7).json_payload }], { has_more: true, next_cursor: '7' }));
    const before = server.requests.length;
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(22);
    expect(await watermark()).toBe('5');
  });

  test.each([
    ['is not JSON', '{"MessageReceived":'],
    ['is empty', ''],
    ['holds no key', '{}'],
    ['holds two keys', JSON.stringify({ MessageReceived: {}, MessageSent: {} })],
    ['is an array', '[]'],
    ['is null', 'null'],
    ['holds a type without fields', '{"MessageReceived":5}'],
    ['is nested two hundred thousand deep', '['.repeat(200_000)],
    ['is no text', 17],
    ['is missing', undefined],
  ])(
    'F41: an item whose json_payload %s goes to quarantine with its cursor, and the watermark passes it',
    async (_, payload) => {
      const { server, settle, stored, watermark, store, query } = await quiet();
      server.publish(item(6), item(8));
      server.lie(page([item(6), { cursor: '7', json_payload: payload }, item(8)]));
      await settle();
      expect(stored()).toEqual(['1', '2', '3', '4', '5', '6', '8']);
      expect(await watermark()).toBe('8');
      const [kept] = await store.read.quarantine(10);
      expect(kept).toMatchObject({ origin: 'replay', cursor: '7', reason: expect.any(String) });
      if (typeof payload === 'string') {
        const raw = query<{ body: Buffer }>('select body from quarantine').map(({ body }) => body.toString());
        expect(raw, 'the raw bytes').toEqual([payload]);
      }
    },
  );

  test('F41: the same unreadable bytes at two cursors are two entries in quarantine', async () => {
    const { server, settle, store } = await quiet();
    server.publish({ cursor: '6', json_payload: 'broken' }, { cursor: '7', json_payload: 'broken' });
    await settle();
    expect(await store.read.quarantine(10)).toMatchObject([{ cursor: '7' }, { cursor: '6' }]);
  });

  test('F41: the watermark passes an unreadable last item, which is stored once', async () => {
    const { server, settle, pass, store, watermark, asked } = await quiet();
    server.publish(item(6), { cursor: '7', json_payload: 'broken' });
    await settle();
    expect(await watermark()).toBe('7');
    await pass(INTERVAL_MS + 5_000);
    expect(asked().at(-1)).not.toBe('6');
    expect((await store.read.status(rig.clock.now())).quarantined).toBe(1);
  });

  test('F41: an unreadable last item costs no additional call per interval', async () => {
    const { server, settle, pass } = await quiet();
    server.publish({ cursor: '6', json_payload: 'broken' });
    await settle();
    await pass(OVERLAP_MS + 2 * INTERVAL_MS);
    const before = server.requests.length;
    await pass(10 * INTERVAL_MS);
    expect(server.requests.length - before).toBeLessThanOrEqual(10);
  });
});

describe('a cursor that has expired', () => {
  const gapEvents = () => rig.query<{ n: number }>(`select count(*) as n from events where type = 'kit.gap'`)[0]?.n;

  /** The service refuses requests without a cursor. */
  const noBeginning = (server: Rig['server']) =>
    server.lieAlways(({ after }, truth) => (after === undefined ? failure(400, 'VALIDATION_FAILED') : truth));

  test('F42: if the service shows its oldest event, the gap is exactly the expired events', async () => {
    const { server, webhook, settle, store, stored, watermark } = await quiet();
    server.publish(...upTo(30, 6));
    await webhook(25);
    server.forget('20');
    await settle();
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: '21' }]);
    expect(stored()).toEqual(['1', '2', '3', '4', '5', ...upTo(30, 21).map(({ cursor }) => cursor)]);
    expect(await watermark()).toBe('30');
  });

  test('F42: replay continues at the lowest known cursor that the service still accepts', async () => {
    const { server, webhook, settle, store, watermark } = await quiet();
    noBeginning(server);
    server.publish(...upTo(3_000, 6));
    for (const cursor of [9, 400, 800, 1_200, 1_600, 2_000, 2_400, 2_800]) await webhook(cursor);
    server.forget('1300');
    await settle();
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: '1600' }]);
    expect(await watermark()).toBe('3000');
    expect(server.requests.length).toBeLessThan(20);
  });

  test('F42: the gap is stored and raised as one kit.gap, and replay continues at a known cursor', async () => {
    const { server, webhook, settle, pass, store, stored, watermark, woken } = await quiet();
    noBeginning(server);
    server.publish(...upTo(30, 6));
    await webhook(25);
    server.forget('20');
    const before = woken();
    await settle();
    expect(await store.read.gaps()).toMatchObject([
      { after: '5', upTo: '25', reason: 'reset_required', closedAt: null },
    ]);
    expect(gapEvents()).toBe(1);
    expect(woken()).toBeGreaterThan(before);
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '25', '26', '27', '28', '29', '30']);
    expect(await watermark()).toBe('30');
    await pass(10 * INTERVAL_MS);
    expect(await store.read.gaps()).toHaveLength(1);
    expect(gapEvents()).toBe(1);
  });

  test('F42: the kit.gap event tells a handler what is missing', async () => {
    const { server, webhook, settle, query } = await quiet();
    noBeginning(server);
    server.publish(...upTo(30, 6));
    await webhook(25);
    server.forget('20');
    await settle();
    const [raised] = query<{ body: Buffer; origin: string }>(`select body, origin from events where type = 'kit.gap'`);
    expect(raised?.origin).toBe('kit');
    expect(JSON.parse(String(raised?.body))).toEqual({
      'kit.gap': { gap: 1, after: '5', upTo: '25', reason: 'reset_required' },
    });
  });

  test('F42: without a newer known cursor, the gap is raised once and gets its end from the next webhook', async () => {
    const { server, webhook, pass, store, state, stored, watermark } = await quiet();
    noBeginning(server);
    server.publish(...upTo(30, 6));
    server.forget('20');
    const before = server.requests.length;
    await pass(5 * INTERVAL_MS);
    expect(server.requests.length - before, 'the watermark and the beginning, once an interval').toBeLessThanOrEqual(
      12,
    );
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: null }]);
    expect(gapEvents()).toBe(1);
    expect(await state()).toMatchObject({ state: 'backing-off', reason: expect.stringContaining('expired') });
    await webhook(28);
    await pass(2 * INTERVAL_MS);
    expect(await store.read.gaps()).toMatchObject([{ after: '5', upTo: '28' }]);
    expect(gapEvents()).toBe(1);
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '28', '29', '30']);
    expect(await watermark()).toBe('30');
  });

  test('F42: the items of a page with reset_required are stored', async () => {
    const { server, settle, stored, watermark, store } = await quiet();
    server.publish(...upTo(9, 6));
    server.forget('7');
    server.lie(page([item(8), item(9)], { reset_required: true }));
    await settle();
    expect(stored()).toEqual(['1', '2', '3', '4', '5', '8', '9']);
    expect(await watermark()).toBe('9');
    expect(await store.read.gaps()).toHaveLength(1);
  });

  test('F42: if history expires a second time, there is a second gap', async () => {
    const { server, webhook, settle, pass, store } = await quiet();
    server.publish(...upTo(60, 6));
    await webhook(25);
    server.forget('20');
    await settle();
    await webhook(55);
    server.publish(...upTo(99, 61));
    server.lie((_, truth) => page([], { ...truth, reset_required: true }));
    await webhook(90);
    await pass(INTERVAL_MS + 5_000);
    expect((await store.read.gaps()).map(({ after, upTo: end }) => [after, end])).toEqual([
      ['5', '21'],
      ['60', '61'],
    ]);
    expect(gapEvents()).toBe(2);
  });

  test('F42: a gap and its event are one transaction with the watermark', async () => {
    const { server, webhook, settle, refuse, store, watermark } = await quiet();
    server.publish(...upTo(30, 6));
    await webhook(25);
    server.forget('20');
    const allow = refuse('events', `new.type = 'kit.gap'`);
    await expect(settle()).rejects.toMatchObject({ code: 'unwritable' });
    expect(await store.read.gaps()).toEqual([]);
    expect(await watermark()).toBe('5');
    allow();
    await settle();
    expect(await store.read.gaps()).toHaveLength(1);
    expect(await watermark()).toBe('30');
  });

  test('F45: an event that becomes visible late after a gap is found by an overlap pass from the end of the gap', async () => {
    const { server, webhook, settle, pass, stored, asked } = await quiet();
    server.publish(...upTo(30, 6));
    await webhook(8);
    server.forget('20');
    await settle();
    server.publish(...upTo(40, 32));
    await pass(INTERVAL_MS + 5_000);
    server.publish(item(31));
    const before = asked().length;
    await pass(INTERVAL_MS + 5_000);
    expect(stored()).toContain('31');
    expect(asked().slice(before)).toEqual(['40', '21']);
  });

  test('F42: an overlap pass over expired events leaves no gap', async () => {
    const { server, pass, store, state, watermark } = await caughtUp();
    server.publish(...upTo(9, 6));
    server.forget('3');
    await pass(INTERVAL_MS + 5_000);
    expect(await store.read.gaps()).toEqual([]);
    expect(await state()).toMatchObject({ state: 'idle', reason: null });
    expect(await watermark()).toBe('9');
  });

  test('F42: a fresh install whose first cursor has already expired makes few calls', async () => {
    rig = await createRig();
    rig.server.publish(...upTo(9));
    await rig.webhook(2);
    rig.server.forget('5');
    noBeginning(rig.server);
    await rig.pass(10 * INTERVAL_MS);
    expect(rig.server.requests.length).toBeLessThanOrEqual(22);
    await rig.webhook(9);
    await rig.pass(2 * INTERVAL_MS);
    expect(await rig.watermark()).toBe('9');
    expect(gapEvents()).toBe(1);
  });
});
