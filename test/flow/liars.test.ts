// A service that has one fault for ten minutes, and then tells the truth again. Whatever it lies about: no event is
// skipped, the call budget holds, `status` names what is wrong in words, and afterwards nothing is missing.
import { afterEach, describe, expect, test } from 'vitest';
import { createBudget } from '../../src/service/budget.ts';
import { createReconciler, type ReconcilerOptions } from '../../src/keep/reconcile.ts';
import { createService } from '../../src/service/service.ts';
import type { Answer, Fault, FaultName } from '../../src/simulator/faults.ts';
import { Refusal } from '../../src/simulator/refusal.ts';
import { createSimulatedService } from '../../src/simulator/service.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { createClock, createStoreFile, createTestLog, INTERVAL_MS, OVERLAP_MS } from '../keep/rig.ts';

const BUDGET = 20;
const MINUTE_MS = 60_000;
/** An answer that drips or floods is given up after so long, by the clock on the wall. */
const PATIENCE_MS = 100;

const ended: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0)) await end();
});

interface Shown {
  events: { cursor: string }[];
}

/** Events whose cursor ends in 0 or 5 become visible two minutes after they happened. */
const lateVisible =
  (now: () => number, happenedAt: (cursor: string) => number): Fault =>
  (truth) => {
    const { events } = truth.body as Shown;
    const seen = events.filter(({ cursor }) => !/[05]$/.test(cursor) || now() - happenedAt(cursor) > 2 * MINUTE_MS);
    return pageOf(truth, { events: seen, next_cursor: seen.at(-1)?.cursor ?? '' });
  };

const pageOf = (truth: Answer, more: object): Answer => ({ ...truth, body: { ...(truth.body as object), ...more } });
const refused =
  (status: number, reason: string): Fault =>
  () =>
    new Refusal(status, reason);

async function live(fault: FaultName | Fault | 'late') {
  const clock = createClock();
  const file = createStoreFile();
  const { store, query } = file;
  const { log } = createTestLog();
  const double = createSimulatedService({ seed: 11, clock });
  const { history } = double;
  const { secret: apiKey } = double.keys.create({ name: 'liar', scopes: ['events:read'], validDays: null });
  const client = createService({ baseUrl: await double.listen(), apiKey, paid: false });
  ended.push(async () => {
    await double.close();
    file.remove();
  });

  const calls: number[] = [];
  let impatient = false;
  const service: ReconcilerOptions['service'] = {
    call(operation, request) {
      calls.push(clock.time);
      return client.call(operation, request, impatient ? { signal: AbortSignal.timeout(PATIENCE_MS) } : {});
    },
  };
  const reconciler = createReconciler({
    store,
    service,
    clock,
    log,
    budget: createBudget(BUDGET, clock),
    from: 'first-webhook',
    types: ['*'],
    intervalMs: INTERVAL_MS,
    overlapMs: OVERLAP_MS,
    onEvents: () => {},
  });

  const happenedAt = new Map<string, number>();
  function happen(count: number): void {
    for (const { cursor } of double.happen(count)) happenedAt.set(cursor ?? '', clock.time);
  }

  async function webhook(): Promise<void> {
    const event = history.all().at(-1);
    if (!event) return;
    const { id, type, cursor, createdAt: created_at, sessionId: session_id, data } = event;
    const body = { id, type, created_at, cursor, session_id, webhook_id: 'w', data: { [type]: data } };
    await store.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(body)))], now: clock.time });
  }

  function kept(): Set<string> {
    const rows = query<{ cursor: string }>(`
      select cast(cursor as text) as cursor from events where cursor is not null
      union select cast(cursor as text) from quarantine where cursor is not null`);
    return new Set(rows.map(({ cursor }) => cursor));
  }

  /** At or below the watermark, and nowhere: neither as an event nor, where it was shown unreadable, put aside. */
  async function skipped(): Promise<string[]> {
    const watermark = BigInt((await store.watermark()) ?? -1);
    const there = kept();
    const aside = query<{ body: Buffer }>('select body from quarantine')
      .map(({ body }) => body.toString())
      .join();
    return history.all().flatMap(({ cursor, data }) => {
      if (cursor === null || BigInt(cursor) > watermark || there.has(cursor)) return [];
      return aside.includes(String(data['message_id'])) ? [] : [cursor];
    });
  }

  const words = new Set<string>();
  const passed = new Set<string>();
  async function pass(ms: number, look = false): Promise<void> {
    for (const end = clock.time + ms; clock.time < end;) {
      const delay = await reconciler.step();
      if (look) {
        const { state, reason } = (await store.status(clock.time)).reconcile;
        words.add(`${state}: ${reason}`);
        for (const cursor of await skipped()) passed.add(cursor);
      }
      clock.time += Math.min(Math.max(1, Math.ceil(delay)), end - clock.time);
    }
  }

  happen(1);
  await webhook();
  happen(20);
  await pass(MINUTE_MS);
  expect(await store.watermark()).toBe(history.all().at(-1)?.cursor);

  // The lie, while events go on to happen and a few are delivered.
  impatient = fault === 'F36 drip' || fault === 'F36 flood' || fault === 'F36 gzip';
  double.chaos.always(
    fault === 'late'
      ? lateVisible(
          () => clock.time,
          (cursor) => happenedAt.get(cursor) ?? 0,
        )
      : fault,
  );
  for (let minute = 0; minute < 10; minute++) {
    happen(6);
    if (minute % 3 === 2) await webhook();
    await pass(MINUTE_MS, true);
  }

  // The truth.
  double.chaos.always();
  impatient = false;
  happen(6);
  await pass(2 * INTERVAL_MS + MINUTE_MS);
  const unaided = (await store.watermark()) === history.all().at(-1)?.cursor;
  if ((await store.status(clock.time)).reconcile.state === 'stopped')
    await store.note({}, { reconcile_asked: clock.time });
  await pass(2 * INTERVAL_MS + MINUTE_MS);
  const there = kept();
  return {
    words: [...words],
    /** Behind the watermark, and nowhere, at any moment. */
    passed: [...passed],
    unaided,
    missing: history.all().filter(({ cursor }) => !there.has(cursor ?? '')),
    gaps: await store.gaps(),
    /** The most calls in any minute. */
    most: Math.max(...calls.map((from) => calls.filter((at) => at >= from && at < from + MINUTE_MS).length)),
    status: await store.status(clock.time),
  };
}

/** Every fault of the double, and how `status` names it. */
const LIARS: Record<FaultName, RegExp> = {
  '429': /429 RATE_LIMITED/,
  '500': /500 INTERNAL/,
  '503': /503 UNAVAILABLE/,
  '504': /504 UNAVAILABLE \(RPC_DEADLINE_EXCEEDED\)/,
  F34: /EVENT_CURSOR_INVALID\): the service does not know our cursor/,
  'F35 not found': /404 NOT_FOUND/,
  'F35 too large': /413 VALIDATION_FAILED \(PAYLOAD_TOO_LARGE\)/,
  'F35 redirect': /API_BASE_URL redirects/,
  'F35 html': /other than a JSON object \(text\/html\)/,
  'F35 empty': /other than a JSON object \(nothing\)/,
  'F35 array': /other than a JSON object/,
  'F35 half': /other than a JSON object/,
  'F35 types': /a page of ReplayEvents was refused: events does not fit the contract/,
  'F36 cut': /the answer broke off/,
  'F36 drip': /no whole answer from API_BASE_URL in time/,
  'F36 flood': /more than 67108864 bytes|no whole answer/,
  'F36 gzip': /more than 67108864 bytes|no whole answer/,
  'F37 stuck': /replay does not advance/,
  'F38 back': /next_cursor is not the last item/,
  'F38 ahead': /replay does not advance.*next_cursor is not the last item/,
  'F39 empty': /replay does not advance/,
  'F39 ahead': /next_cursor is not the last item/,
  'F40 order': /items out of order/,
  'F40 repeated': /items shown twice/,
  'F40 old': /items that were not asked for/,
  'F40 many': /more than 1000 items/,
  'F40 no cursor': /items without a cursor/,
  'F41 not JSON': /items that cannot be read/,
  'F41 no key': /items that cannot be read/,
  'F41 two keys': /items that cannot be read/,
};

describe('a service that lies for ten minutes', () => {
  test.each(Object.entries(LIARS))('%s', async (name, words) => {
    const told = await live(name as FaultName);
    expect(told.words.join('\n')).toMatch(words);
    expect(told.unaided, 'it goes on by itself').toBe(true);
    expect(told.passed, 'behind the watermark, and nowhere').toEqual([]);
    expect(told.gaps).toEqual([]);
    holdsWhole(told);
  });

  test.each([
    ['401', refused(401, 'API_AUTH_REVOKED'), /401 UNAUTHENTICATED \(API_AUTH_REVOKED\)/],
    ['403', refused(403, 'API_KEY_IP_FORBIDDEN'), /403 FORBIDDEN \(API_KEY_IP_FORBIDDEN\)/],
  ] satisfies [string, Fault, RegExp][])(
    '%s: it has stopped, and says so, until somebody asks',
    async (_, fault, words) => {
      const told = await live(fault);
      expect(told.words).toEqual([expect.stringMatching(words)]);
      expect(told.words[0]).toMatch(/^stopped/);
      expect(told.unaided).toBe(false);
      expect(told.passed).toEqual([]);
      holdsWhole(told);
    },
  );

  test('F42: the cursor is said to have expired, and is accepted again: the gap that had no end is closed', async () => {
    const told = await live((truth) => pageOf(truth, { events: [], reset_required: true }));
    expect(told.words.join()).toMatch(/the cursor has expired, and no newer one is known yet that the service accepts/);
    expect(told.unaided).toBe(true);
    expect(told.passed).toEqual([]);
    expect(told.gaps).toMatchObject([{ upTo: null, closedBy: expect.stringContaining('nothing is missing') }]);
    holdsWhole(told);
  });

  test('F42: pages with items that ask for a reset are kept, and each is a gap', async () => {
    const told = await live((truth) => pageOf(truth, { reset_required: true }));
    expect(told.gaps).toHaveLength(10);
    expect(told.passed).toEqual([]);
    holdsWhole(told);
  });

  test('F45: what becomes visible two minutes late is found by reading once more, and said', async () => {
    const told = await live('late');
    expect(told.passed, 'it cannot be known yet').not.toEqual([]);
    expect(told.words.join()).toMatch(/became visible late/);
    expect(told.unaided).toBe(true);
    holdsWhole(told);
  });
});

/** Afterwards nothing is missing, and the budget held all the time. */
function holdsWhole({ missing, most, status }: Awaited<ReturnType<typeof live>>): void {
  expect(missing).toEqual([]);
  expect(most, 'calls in any 60 seconds').toBeLessThanOrEqual(BUDGET);
  expect(status.reconcile).toMatchObject({ state: 'idle', reason: null });
}
