// Fetches what webhooks missed: reads the service's history forward from the watermark, page by page, each page and the
// watermark in one transaction, and sweeps once more over the last minutes, because an event can become visible late.
// It never goes faster than its budget, never believes a page further than its items, and says why when it stops.
import { iso, type Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import { ServiceError, type Service } from '../service/service.ts';
import type { KeepStore, ReplayState } from '../store/store.ts';
import { compareCursors, type Cursor } from '../wire/cursor.ts';
import { REPLAY_LIMIT } from '../wire/replay.ts';
import type { Budget } from './budget.ts';
import { PageError, readPage, type Page } from './page.ts';

export interface ReconcilerOptions {
  store: KeepStore;
  service: Service;
  clock: Clock;
  log: Logger;
  budget: Budget;
  /** 'first-webhook', 'start', or a cursor. */
  from: string;
  types: string[];
  intervalMs: number;
  overlapMs: number;
  /** After events were committed. */
  onEvents: () => void;
}

/** What a step works on: reading forward moves the watermark, a sweep does not. */
type Reading = { kind: 'forward' } | { kind: 'sweep'; after: Cursor };

const WAIT_FOR_WEBHOOK_MS = 1_000;
/** How often a request by a person is looked for. */
const ASKED_MS = 1_000;
const BACKOFF_MS = { first: 1_000, most: 60_000 };

export interface Reconciler {
  /** One call at the most; milliseconds until the next step. */
  step: () => Promise<number>;
  state: () => ReplayState;
}

export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { store, service, clock, log, budget, types, intervalMs, overlapMs, onEvents } = options;
  let state: ReplayState = { state: 'idle', lastAt: null, reason: null };
  let reading: Reading | null = { kind: 'forward' };
  let nextAt = 0;
  let failures = 0;
  let stuckAt: Cursor | null = null;
  let triedOlder = false;
  let asked: number | null = null;

  async function step(): Promise<number> {
    asked ??= await store.reconcileAsked();
    const latest = await store.reconcileAsked();
    if (latest > asked) {
      asked = latest;
      failures = 0;
      reading ??= { kind: 'forward' };
      await say('running', null);
    } else if (state.state === 'stopped') return ASKED_MS;
    else if (clock.now() < nextAt) return Math.min(nextAt - clock.now(), ASKED_MS);
    reading ??= { kind: 'forward' };

    const after = reading.kind === 'sweep' ? reading.after : await anchor();
    if (after === undefined) {
      await say('idle', 'waiting for the first webhook');
      return WAIT_FOR_WEBHOOK_MS;
    }
    const wait = budget.take();
    if (wait > 0) {
      await say('running', 'waiting for the call budget');
      return Math.min(wait, ASKED_MS);
    }
    await say('running', null);
    try {
      await turn(reading, after);
      failures = 0;
    } catch (error) {
      await fail(error);
    }
    return Math.max(0, Math.min(nextAt - clock.now(), ASKED_MS));
  }

  /** Where to read on: a cursor already seen, null for the beginning, undefined while there is none. */
  async function anchor(): Promise<Cursor | null | undefined> {
    const watermark = await store.watermark();
    if (watermark !== null) return watermark;
    if (options.from === 'start') return null;
    if (options.from !== 'first-webhook') return options.from as Cursor;
    const { older, lowest } = await store.anchors(clock.now() - overlapMs);
    return older ?? lowest ?? undefined;
  }

  async function turn(current: Reading, after: Cursor | null): Promise<void> {
    const request = { ...(after === null ? {} : { after_cursor: after }), limit: REPLAY_LIMIT };
    const response = await service.call('ReplayEvents', request);
    const page = readPage(response, after, types);
    if (page.reset) return reset(current, after, page);
    const stuck = page.hasMore && page.proved === after;
    await commit(page, current, after);
    if (page.oddities.length > 0)
      log.warn({ oddities: page.oddities }, 'a page of ReplayEvents was odd; its items were kept');
    if (stuck) return standStill(after);
    stuckAt = null;
    triedOlder = false;
    if (page.hasMore) {
      if (current.kind === 'sweep' && page.proved) reading = { kind: 'sweep', after: page.proved };
      nextAt = clock.now();
      return;
    }
    await caughtUp(current);
  }

  async function commit(page: Page, current: Reading, after: Cursor | null): Promise<void> {
    const moves = current.kind === 'forward' && (page.proved !== after || (await store.watermark()) === null);
    const results = await store.accept({
      readings: page.readings,
      now: clock.now(),
      counts: { replay_calls: 1, other_types: page.otherTypes },
      ...(moves && page.proved ? { watermark: page.proved } : {}),
    });
    if (results.some(({ verdict }) => verdict === 'new')) onEvents();
  }

  /** Forward reading is at its end: sweep what is young, once, if that is anything; then rest. */
  async function caughtUp(current: Reading): Promise<void> {
    const watermark = await store.watermark();
    if (current.kind === 'forward' && watermark !== null) {
      if (options.from !== 'first-webhook') await store.endHistory(watermark);
      const { older, lowest } = await store.anchors(clock.now() - overlapMs);
      const from = older ?? lowest;
      if (from !== null && compareCursors(from, watermark) < 0) {
        reading = { kind: 'sweep', after: from };
        nextAt = clock.now();
        return;
      }
    }
    reading = null;
    nextAt = clock.now() + intervalMs;
    await say('idle', null, true);
  }

  /** has_more, and yet nothing new: asked once more, then left until the next interval. */
  async function standStill(at: Cursor | null): Promise<void> {
    if (stuckAt !== at) {
      stuckAt = at;
      nextAt = clock.now() + BACKOFF_MS.first;
      return;
    }
    stuckAt = null;
    reading = null;
    nextAt = clock.now() + intervalMs;
    log.error('ReplayEvents says that there is more, and shows nothing; tried again after the interval');
    await say('backing-off', 'replay does not advance: it says that there is more, and shows nothing');
  }

  /** The service has forgotten what comes after this cursor: a gap, and reading goes on behind it. */
  async function reset(current: Reading, after: Cursor | null, page: Page): Promise<void> {
    if (current.kind === 'sweep') {
      // What the sweep looks for is older than what the service keeps; everything up to the watermark was read before.
      reading = null;
      nextAt = clock.now() + intervalMs;
      return say('idle', null, true);
    }
    const { newest } = await store.anchors(clock.now());
    const newer = (cursor: Cursor | null): cursor is Cursor =>
      cursor !== null && (after === null || compareCursors(cursor, after) > 0);
    const upTo = [page.proved, page.next, newest].filter(newer).toSorted(compareCursors).at(-1) ?? null;
    const gap = { after: after ?? ('0' as Cursor), upTo, reason: 'reset_required' };
    const counts = { replay_calls: 1 };
    await store.accept({
      readings: page.readings,
      now: clock.now(),
      gap,
      counts,
      ...(upTo ? { watermark: upTo } : {}),
    });
    log.error(
      { after, upTo },
      'the service can no longer replay what comes after the watermark: a gap, see npx kit gaps',
    );
    onEvents();
    nextAt = clock.now() + (upTo === null ? intervalMs : 0);
    // Until a webhook shows a cursor behind the gap, there is nothing to ask for.
    if (upTo === null) await say('backing-off', 'the cursor has expired, and no newer one is known yet');
  }

  async function fail(error: unknown): Promise<void> {
    if (error instanceof PageError) return backOff(error.message);
    if (!(error instanceof ServiceError)) throw error;
    const { status, code, reason, requestId } = error;
    const facts = { status, code, reason, requestId };
    if (status === 401 || status === 403) {
      log.error(facts, 'reconciliation stopped: the service refuses API_KEY; mend it, then npx kit reconcile');
      nextAt = Infinity;
      return say('stopped', error.message);
    }
    if (reason === 'EVENT_CURSOR_INVALID' && !triedOlder) {
      const { lowest } = await store.anchors(clock.now());
      triedOlder = true;
      log.error(facts, 'the service does not know our cursor: trying an older one, once');
      if (lowest !== null) {
        reading = { kind: 'sweep', after: lowest };
        nextAt = clock.now() + BACKOFF_MS.first;
        return say('backing-off', error.message);
      }
    }
    log.warn(facts, 'a call of ReplayEvents failed; tried again');
    return backOff(error.message);
  }

  async function backOff(reason: string): Promise<void> {
    const ceiling = Math.min(BACKOFF_MS.most, BACKOFF_MS.first * 2 ** Math.min(failures++, 10));
    nextAt = clock.now() + ceiling * (0.5 + Math.random() / 2);
    await say('backing-off', reason);
  }

  async function say(now: ReplayState['state'], reason: string | null, done = false): Promise<void> {
    const lastAt = done ? iso(clock.now()) : state.lastAt;
    if (now === state.state && reason === state.reason && lastAt === state.lastAt) return;
    state = { state: now, lastAt, reason };
    await store.note({}, { replay: JSON.stringify(state) });
  }

  return { step, state: () => state };
}
