// Runs the reconciler against a service that has one fault for ten minutes, and then works again. The simulator answers
// over HTTP, reconciler and store file are real, and the clock is simulated.
import { createBudget } from '../../src/service/budget.ts';
import { createReconciler } from '../../src/reconcile/reconciler.ts';
import type { ReconcilerOptions } from '../../src/reconcile/pass.ts';
import { createService } from '../../src/service/service.ts';
import type { Answer, Fault, FaultName } from '../../src/tools/simulator/faults.ts';
import { Refusal } from '../../src/tools/simulator/refusal.ts';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { createClock, createStoreFile, createTestLog, INTERVAL_MS, OVERLAP_MS } from '../reconcile/harness.ts';

export const BUDGET = 20;
const MINUTE_MS = 60_000;
/** The real time, in milliseconds, after which a call is aborted if its answer drips or floods. */
const TIMEOUT_MS = 100;

interface Shown {
  events: { cursor: string }[];
}

/** Events whose cursor ends in 0 or 5 become visible two minutes after they happened. */
const visibleLate =
  (now: () => number, happenedAt: (cursor: string) => number): Fault =>
  (truth) => {
    const { events } = truth.body as Shown;
    const seen = events.filter(({ cursor }) => !/[05]$/.test(cursor) || now() - happenedAt(cursor) > 2 * MINUTE_MS);
    return pageOf(truth, { events: seen, next_cursor: seen.at(-1)?.cursor ?? '' });
  };

export const pageOf = (truth: Answer, more: object): Answer => ({
  ...truth,
  body: { ...(truth.body as object), ...more },
});
export const refused =
  (status: number, reason: string): Fault =>
  () =>
    new Refusal(status, reason);

export async function live(fault: FaultName | Fault | 'late') {
  const clock = createClock();
  const file = createStoreFile();
  const { store, query } = file;
  const { log } = createTestLog();
  const simulator = createSimulatedService({ seed: 11, clock });
  const { history } = simulator;
  const { secret: apiKey } = simulator.keys.create({ name: 'faulty', scopes: ['events:read'], validDays: null });
  const client = createService({ baseUrl: await simulator.listen(), apiKey, paid: false });

  const calls: number[] = [];
  let timesOut = false;
  const service: ReconcilerOptions['service'] = {
    call(operation, request) {
      calls.push(clock.time);
      return client.call(operation, request, timesOut ? { signal: AbortSignal.timeout(TIMEOUT_MS) } : {});
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
    for (const { cursor } of simulator.happen(count)) happenedAt.set(cursor ?? '', clock.time);
  }

  async function webhook(): Promise<void> {
    const event = history.all().at(-1);
    if (!event) return;
    const { id, type, cursor, createdAt: created_at, sessionId: session_id, data } = event;
    const body = { id, type, created_at, cursor, session_id, webhook_id: 'w', data: { [type]: data } };
    await store.ingest.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(body)))], now: clock.time });
  }

  function kept(): Set<string> {
    const rows = query<{ cursor: string }>(`
      select cast(cursor as text) as cursor from events where cursor is not null
      union select cast(cursor as text) from quarantine where cursor is not null`);
    return new Set(rows.map(({ cursor }) => cursor));
  }

  /** Events at or below the watermark that are neither stored nor in quarantine. */
  async function skipped(): Promise<string[]> {
    const watermark = BigInt((await store.state.get('watermark')) ?? -1);
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
        const { state, reason } = (await store.read.status(clock.time)).reconcile;
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
  if ((await store.state.get('watermark')) !== history.all().at(-1)?.cursor)
    throw new Error('replay was not read to its end');

  // Ten minutes with the fault. Events go on happening, and a few are delivered.
  timesOut = fault === 'drip' || fault === 'flood' || fault === 'gzip';
  simulator.chaos.always(
    fault === 'late'
      ? visibleLate(
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

  simulator.chaos.always();
  timesOut = false;
  happen(6);
  await pass(2 * INTERVAL_MS + MINUTE_MS);
  const unaided = (await store.state.get('watermark')) === history.all().at(-1)?.cursor;
  if ((await store.read.status(clock.time)).reconcile.state === 'stopped')
    await store.state.note({}, { reconcile_asked: clock.time });
  await pass(2 * INTERVAL_MS + MINUTE_MS);
  const there = kept();
  const told = {
    words: [...words],
    /** Events that at some moment were below the watermark and not stored. */
    passed: [...passed],
    unaided,
    missing: history.all().filter(({ cursor }) => !there.has(cursor ?? '')),
    gaps: await store.read.gaps(),
    /** The highest number of calls within a minute. */
    most: Math.max(...calls.map((from) => calls.filter((at) => at >= from && at < from + MINUTE_MS).length)),
    status: await store.read.status(clock.time),
  };
  await simulator.close();
  file.remove();
  return told;
}

/** Every fault of the simulator, and how `status` names it. */
export const STATUS_WORDS: Record<FaultName, RegExp> = {
  '429': /429 RATE_LIMITED/,
  '500': /500 INTERNAL/,
  '503': /503 UNAVAILABLE/,
  '504': /504 UNAVAILABLE \(RPC_DEADLINE_EXCEEDED\)/,
  'uncertain-sent': /503 UNAVAILABLE \(OUTCOME_UNCERTAIN\)/,
  'uncertain-unsent': /503 UNAVAILABLE \(OUTCOME_UNCERTAIN\)/,
  'deadline-unsent': /504 UNAVAILABLE \(RPC_DEADLINE_EXCEEDED\)/,
  'cursor-invalid': /EVENT_CURSOR_INVALID\): the service does not know our cursor/,
  'not-found': /404 NOT_FOUND/,
  'too-large': /413 VALIDATION_FAILED \(PAYLOAD_TOO_LARGE\)/,
  redirect: /API_BASE_URL redirects/,
  html: /other than a JSON object \(text\/html\)/,
  // The name of the code follows from the status alone.
  'proxy-500': /: 500 \w+$/m,
  'proxy-502': /502 UNAVAILABLE/,
  'proxy-503': /503 UNAVAILABLE/,
  empty: /other than a JSON object \(nothing\)/,
  array: /other than a JSON object/,
  half: /other than a JSON object/,
  'page-types': /a page of ReplayEvents was refused: events does not fit the contract/,
  cut: /the answer broke off/,
  drip: /no whole answer from API_BASE_URL in time/,
  flood: /more than 67108864 bytes|no whole answer/,
  gzip: /more than 67108864 bytes|no whole answer/,
  'page-stuck': /replay does not advance/,
  'page-back': /a next_cursor that is not the last item/,
  'page-ahead': /replay does not advance/,
  'page-empty': /replay does not advance/,
  // At the end of history a higher next_cursor is correct, because the service may have filtered out later events.
  'page-end': /^idle: null$/m,
  'page-short': /^(idle|catching up): null$/m,
  'items-reversed': /items out of order/,
  'items-repeated': /items shown twice/,
  'items-old': /items that were not asked for/,
  'items-many': /more than 1000 items/,
  'items-no-cursor': /items without a cursor/,
  'payload-not-json': /items that cannot be read/,
  'payload-no-key': /items that cannot be read/,
  'payload-two-keys': /items that cannot be read/,
};
