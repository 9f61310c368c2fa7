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

const WAIT_FOR_WEBHOOK_MS = 1_000;
/** How often a request by a person is looked for. */
const ASKED_MS = 1_000;
const BACKOFF_MS = { first: 1_000, most: 60_000 };

type Kind = 'forward' | 'sweep';

export interface Reconciler {
  /** One call at the most; milliseconds until the next step. */
  step: () => Promise<number>;
}

export function createReconciler(options: ReconcilerOptions): Reconciler {
  const { store, service, clock, log, budget, types, intervalMs, overlapMs, onEvents } = options;
  let state: ReplayState = { state: 'idle', lastAt: null, reason: null };
  /** When reading forward is due. It comes before a sweep, however much of that is left. */
  let forwardAt = 0;
  /** Where the sweep goes on, while there is one. */
  let sweepFrom: Cursor | null = null;
  /** Where reading forward goes on instead of the watermark, which the service did not know. */
  let older: Cursor | null = null;
  /** Where the watermark went, and when, since about one overlap ago. */
  const moved: { at: number; to: Cursor }[] = [];
  let pauseUntil = 0;
  let failures = 0;
  let stuckAt: Cursor | null = null;
  let asked: number | null = null;

  async function step(): Promise<number> {
    await hear();
    const kind: Kind = sweepFrom !== null && clock.now() < forwardAt ? 'sweep' : 'forward';
    const wait = Math.max(pauseUntil, kind === 'sweep' ? 0 : forwardAt) - clock.now();
    if (wait > 0) return Math.min(wait, ASKED_MS);

    const after = kind === 'sweep' ? sweepFrom : await anchor();
    if (after === undefined) {
      await say('idle', 'waiting for the first webhook');
      return WAIT_FOR_WEBHOOK_MS;
    }
    const untilCall = budget.take();
    if (untilCall > 0) {
      await say('running', 'waiting for the call budget');
      return Math.min(untilCall, ASKED_MS);
    }
    if (state.state !== 'backing-off') await say('running', null);
    try {
      await read(kind, after);
    } catch (error) {
      await fail(kind, error);
    }
    return 0;
  }

  /** A person asks, and everything that keeps us waiting is forgotten. */
  async function hear(): Promise<void> {
    const latest = await store.reconcileAsked();
    asked ??= latest;
    if (latest <= asked) return;
    asked = latest;
    failures = 0;
    pauseUntil = 0;
    forwardAt = 0;
    await say('running', null);
  }

  /** Where to read on: a cursor already seen, null for the beginning, undefined while there is none. */
  async function anchor(): Promise<Cursor | null | undefined> {
    if (older !== null) return older;
    const watermark = await store.watermark();
    if (watermark !== null) return watermark;
    if (options.from === 'start') return null;
    if (options.from !== 'first-webhook') return options.from as Cursor;
    const anchors = await store.anchors(clock.now() - overlapMs);
    return anchors.older ?? anchors.lowest ?? undefined;
  }

  async function read(kind: Kind, after: Cursor | null): Promise<void> {
    const request = { ...(after === null ? {} : { after_cursor: after }), limit: REPLAY_LIMIT };
    const response = await service.call('ReplayEvents', request);
    const page = readPage(response, after, types);
    failures = 0;
    if (page.reset) return reset(kind, after, page);
    const watermark = await store.watermark();
    await commit(page, kind, watermark);
    if (page.oddities.length > 0)
      log.warn({ oddities: page.oddities }, 'a page of ReplayEvents was odd; its items were kept');
    if (page.hasMore && page.proved === after) return standStill(kind, after);
    stuckAt = null;
    if (kind === 'sweep') {
      sweepFrom = page.hasMore ? page.proved : null;
      return sweepFrom === null ? rest() : undefined;
    }
    // From an older cursor, nothing new was found: the next reading meets the same refusal.
    const unknown = older !== null && !behind(watermark, page.proved);
    if (older !== null) older = page.hasMore && unknown ? page.proved : null;
    if (!page.hasMore) await caughtUp();
    if (!page.hasMore && unknown)
      await say('backing-off', 'the service does not know the watermark, nor anything newer');
  }

  async function commit(page: Page, kind: Kind, watermark: Cursor | null): Promise<void> {
    const moves = kind === 'forward' && page.proved !== null && (watermark === null || behind(watermark, page.proved));
    const results = await store.accept({
      readings: page.readings,
      now: clock.now(),
      counts: { replay_calls: 1, ...(moves ? { other_types: page.otherTypes } : {}) },
      ...(moves && page.proved ? { watermark: page.proved } : {}),
    });
    if (moves && page.proved) moved.push({ at: clock.now(), to: page.proved });
    if (results.some(({ verdict }) => verdict === 'new')) onEvents();
  }

  /** Forward reading is at its end: what came lately is swept over once more, then it rests. */
  async function caughtUp(): Promise<void> {
    forwardAt = clock.now() + intervalMs;
    const watermark = await store.watermark();
    if (watermark !== null && options.from !== 'first-webhook') await store.endHistory(watermark);
    if (sweepFrom === null && watermark !== null) {
      const from = await beforeOverlap();
      if (behind(from, watermark)) sweepFrom = from;
    }
    if (sweepFrom === null) await rest();
  }

  /** Where a sweep begins: where the watermark stood one overlap ago; as long as that is not known, by what is stored. */
  async function beforeOverlap(): Promise<Cursor | null> {
    const before = clock.now() - overlapMs;
    while ((moved[1]?.at ?? Infinity) <= before) moved.shift();
    if (moved[0] && moved[0].at <= before) return moved[0].to;
    const { older: past, lowest, young } = await store.anchors(before);
    return young || moved.length > 0 ? (past ?? lowest) : null;
  }

  async function rest(): Promise<void> {
    await say('idle', null, true);
  }

  /** has_more, and yet nothing new: asked once more, then left until the next interval. */
  async function standStill(kind: Kind, at: Cursor | null): Promise<void> {
    if (stuckAt !== at) {
      stuckAt = at;
      pauseUntil = clock.now() + BACKOFF_MS.first;
      return;
    }
    stuckAt = null;
    if (kind === 'sweep') sweepFrom = null;
    forwardAt = clock.now() + intervalMs;
    log.error('ReplayEvents says that there is more, and shows nothing; tried again after the interval');
    await say('backing-off', 'replay does not advance: it says that there is more, and shows nothing');
  }

  /** The service has forgotten what comes after this cursor: a gap, and reading goes on behind it. */
  async function reset(kind: Kind, after: Cursor | null, page: Page): Promise<void> {
    if (kind === 'sweep') {
      // What the sweep looks for is older than what the service keeps; everything up to the watermark was read before.
      sweepFrom = null;
      return rest();
    }
    const { newest } = await store.anchors(clock.now());
    const newer = (cursor: Cursor | null): cursor is Cursor =>
      cursor !== null && (after === null || behind(after, cursor));
    // What was shown or stored is certain; next_cursor is only said.
    const certain = [page.proved, newest].filter(newer).toSorted(compareCursors).at(-1);
    const upTo = certain ?? (newer(page.next) ? page.next : null);
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
    older = null;
    onEvents();
    if (upTo !== null) return;
    // Until a webhook shows a cursor behind the gap, there is nothing to ask for.
    forwardAt = clock.now() + intervalMs;
    await say('backing-off', 'the cursor has expired, and no newer one is known yet');
  }

  async function fail(kind: Kind, error: unknown): Promise<void> {
    if (error instanceof PageError) return backOff(error.message);
    if (!(error instanceof ServiceError)) throw error;
    const { status, code, reason, requestId } = error;
    const facts = { status, code, reason, requestId };
    if (status === 401 || status === 403) {
      log.error(
        facts,
        'reconciliation stopped: the service refuses API_KEY; mend it and send SIGHUP; mended at the service, npx kit reconcile',
      );
      pauseUntil = Infinity;
      return say('stopped', error.message);
    }
    if (reason === 'EVENT_CURSOR_INVALID' && kind === 'sweep') {
      log.warn(facts, 'the service does not know the cursor that a sweep began at; it is left out');
      sweepFrom = null;
      return rest();
    }
    if (reason === 'EVENT_CURSOR_INVALID') {
      log.error(facts, 'the service does not know our cursor: an older one is tried, once');
      older = older === null ? await olderCursor() : null;
    } else log.warn(facts, 'a call of ReplayEvents failed; tried again');
    return backOff(error.message);
  }

  /** A cursor before the watermark that the service is likely to know. */
  async function olderCursor(): Promise<Cursor | null> {
    const watermark = await store.watermark();
    const { older: past, lowest } = await store.anchors(clock.now() - overlapMs);
    return [past, lowest].find((cursor) => cursor !== null && watermark !== null && behind(cursor, watermark)) ?? null;
  }

  async function backOff(reason: string): Promise<void> {
    const ceiling = Math.min(BACKOFF_MS.most, BACKOFF_MS.first * 2 ** Math.min(failures++, 10));
    pauseUntil = clock.now() + ceiling * (0.5 + Math.random() / 2);
    await say('backing-off', reason);
  }

  async function say(now: ReplayState['state'], reason: string | null, done = false): Promise<void> {
    const lastAt = done ? iso(clock.now()) : state.lastAt;
    if (now === state.state && reason === state.reason && lastAt === state.lastAt) return;
    state = { state: now, lastAt, reason };
    await store.note({}, { replay: JSON.stringify(state) });
  }

  return { step };
}

function behind(a: Cursor | null, b: Cursor | null): boolean {
  return a !== null && b !== null && compareCursors(a, b) < 0;
}
