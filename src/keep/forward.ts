// Reading forward from the watermark: at start, at every interval, when something waits for proof, when somebody asks.
// Where the service has forgotten the watermark there is a gap, and reading goes on behind it.
import { compareCursors, type Cursor } from '../wire/cursor.ts';
import { createBlindness } from './blindness.ts';
import { createHorizon, type Horizon } from './horizon.ts';
import type { Page } from './page.ts';
import { createCatchUp, wordsOf } from './progress.ts';
import type { Desk, Reading } from './reconcile.ts';
import { SWEEPING, type Sweep } from './sweep.ts';

const WAIT_FOR_WEBHOOK_MS = 1_000;
/** Webhooks are silent: no longer than this between two readings. */
const SILENT_INTERVAL_MS = 60_000;
/** What arrives within this time is proved by one call; the stream gets more, to do it without. */
const DEBOUNCE_MS = { alone: 100, streaming: 2_000 };
/** Longer than an interval by this: nothing could be read, and perhaps nothing be delivered. */
const OUTAGE_MS = 120_000;
/** What replay does not show yet is looked for again; the pause doubles up to the interval. */
const AGAIN_MS = 1_000;

export interface Forward extends Reading {
  prove(): void;
  now(): void;
  fresh(): boolean;
}

export function createForward(desk: Desk, sweep: Sweep): Forward {
  const { store, clock, log, budget, commit, say, intervalMs, overlapMs, silent, streaming } = desk;
  const blindness = createBlindness(desk);
  const catchUp = createCatchUp(clock);
  /** The last reading that went to its end, and when the one at work began. */
  let endedAt = -Infinity;
  let begunAt: number | null = null;
  /** Somebody asked while it was at work: what it has read by then may be too old. */
  let again = false;
  /** When the end was last reached; what comes long after that happened while deliveries may have failed as well. */
  let completeAt = -Infinity;
  let sweptAt = -Infinity;
  let sweptBefore = -Infinity;
  /** When to read before the interval is over, for the sake of what waits for proof. */
  let proveAt = Infinity;
  let vain = 0;
  /** Where to read instead of the watermark, which the service did not know. */
  let older: Cursor | null = null;
  /** Refused once: one refusal alone ends in no gap. */
  let doubted: Cursor | null = null;
  let horizon: Horizon | null = null;
  /** What the search is for. */
  let lost: Lost = { after: null, watermark: null, reason: 'reset_required' };
  /** In an earlier search, everything known up to here was refused. */
  let refused: Cursor | null = null;

  function interval(): number {
    return silent?.() ? Math.min(intervalMs, SILENT_INTERVAL_MS) : intervalMs;
  }

  function fresh(): boolean {
    return Math.abs(clock.now() - completeAt) <= intervalMs + OUTAGE_MS;
  }

  /** Kept apart as the budget gets short, so that it lasts for the whole minute. */
  function prove(): void {
    const debounce = streaming?.() ? DEBOUNCE_MS.streaming : DEBOUNCE_MS.alone;
    proveAt = Math.min(proveAt, Math.max(clock.now() + debounce, endedAt + budget.spacing()));
  }

  async function after(): Promise<Cursor | null | undefined> {
    if (horizon) {
      const next = await horizon.next();
      if (next === undefined) await leaveHorizon(horizon);
      return next;
    }
    const early = clock.now() >= endedAt && clock.now() < endedAt + interval();
    if (early && begunAt === null && !(await somethingWaits())) {
      proveAt = Infinity;
      return undefined;
    }
    const from = older ?? (await store.watermark()) ?? (await beginning());
    if (from !== undefined) begunAt ??= clock.now();
    else {
      endedAt = clock.now() - interval() + WAIT_FOR_WEBHOOK_MS;
      await say('idle', 'waiting for the first webhook');
    }
    return from;
  }

  async function somethingWaits(): Promise<boolean> {
    const newest = await store.newestCursor();
    return newest !== null && isBehind(await store.watermark(), newest);
  }

  /** For a store without a watermark: a cursor already seen, null for the beginning, undefined while there is none. */
  async function beginning(): Promise<Cursor | null | undefined> {
    if (desk.from === 'start') return null;
    if (desk.from !== 'first-webhook') return desk.from as Cursor;
    const begins = await store.beginsAt();
    if (begins !== null) return begins;
    const anchors = await store.anchors(clock.now() - overlapMs);
    const found = anchors.older ?? anchors.lowest;
    if (found === null) return undefined;
    // Once and for all: while replay fails, time goes by, and with it what is older than the overlap.
    await store.note({}, { begins_at: BigInt(found) });
    return found;
  }

  async function take(page: Page, from: Cursor | null): Promise<void> {
    if (horizon) {
      // Kept, whatever becomes of the search.
      await commit(page);
      return horizon.learn(page);
    }
    doubted = null;
    const watermark = await store.watermark();
    const moves = page.proved !== null && isBehind(watermark, page.proved);
    const results = await commit(page, {
      fresh: fresh(),
      ...(page.proved === null ? {} : { watermark: page.proved }),
      ...(moves ? { counts: { other_types: page.otherTypes } } : {}),
      ...(watermark === null ? { from: from ?? ZERO } : {}),
    });
    if (moves && !results.some(({ verdict }) => verdict === 'new')) desk.onEvents();
    if (moves) vain = 0;
    // From an older cursor, nothing new was found: the next reading meets the same refusal.
    const unknown = older !== null && !moves;
    if (older !== null) older = page.hasMore && unknown ? page.proved : null;
    catchUp.page(page.readings.length + page.otherTypes, page.youngest);
    if (page.hasMore) return goOn();
    catchUp.end();
    await caughtUp();
    if (unknown) await say('backing-off', 'the service does not know the watermark, nor anything newer');
  }

  async function goOn(): Promise<void> {
    const progress = catchUp.show();
    await say('running', progress && wordsOf(progress), { progress });
  }

  /** The end of the history: what came lately is swept over once more, at the most once an interval. */
  async function caughtUp(): Promise<void> {
    const begun = begunAt ?? clock.now();
    const ended = clock.now();
    rest();
    completeAt = ended;
    const watermark = await store.watermark();
    if (watermark !== null && desk.from !== 'first-webhook') await store.endHistory(watermark);
    await blindness.readToTheEnd(begun, sweptBefore);
    if (await somethingWaits()) {
      const pause = Math.max(budget.spacing(), AGAIN_MS * 2 ** Math.min(vain++, 20));
      if (proveAt < Infinity) proveAt = clock.now() + Math.min(interval(), pause);
    } else proveAt = Infinity;
    const due = ended - sweptAt >= interval() || ended < sweptAt;
    if (due) [sweptBefore, sweptAt] = [Math.min(sweptAt, ended), ended];
    const sweeps = due && watermark !== null && (await sweep.begin(watermark));
    await say(sweeps ? 'running' : 'idle', sweeps ? SWEEPING : null, { done: true, progress: null });
  }

  function rest(): void {
    endedAt = again ? -Infinity : clock.now();
    begunAt = null;
    again = false;
  }

  /** The stream has gone past what was refused: nothing is missing, and reading goes on from there. */
  function passed(): void {
    rest();
    endedAt = -Infinity;
  }

  async function stop(
    why: 'stuck' | 'unknown' | 'forgotten',
    from: Cursor | null,
    page: Page | null,
  ): Promise<string | null> {
    if (horizon) {
      await horizon.learn(why === 'stuck' ? page : null);
      return null;
    }
    catchUp.end();
    if (why === 'forgotten') return forgotten(from, page);
    if (why === 'stuck') {
      rest();
      return null;
    }
    if (from === null)
      return 'the service shows nothing without a cursor: set REPLAY_FROM to first-webhook or to a cursor';
    if (older === null && doubted !== from) {
      doubted = from;
      older = await olderCursor();
      return `the service does not know our cursor: ${older === null ? 'it is asked once more' : 'an older one is tried, once'}`;
    }
    older = null;
    doubted = null;
    const watermark = await store.watermark();
    if (watermark === null && desk.from !== 'first-webhook') return 'the service does not know REPLAY_FROM';
    // Perhaps it says so of what has expired, too. Of what is known here only: another account's beginning is not ours.
    return search(watermark ?? from, null, 'cursor_unknown');
  }

  /** A cursor before the watermark that the service is likely to know. */
  async function olderCursor(): Promise<Cursor | null> {
    const watermark = await store.watermark();
    const { older: past, lowest } = await store.anchors(clock.now() - overlapMs);
    return (
      [past, lowest].find((cursor) => cursor !== null && watermark !== null && isBehind(cursor, watermark)) ?? null
    );
  }

  /** The service no longer has what comes after this cursor. */
  async function forgotten(expired: Cursor | null, page: Page | null): Promise<string | null> {
    const watermark = await store.watermark();
    if (older === null && isBehind(expired, watermark)) {
      passed();
      return null;
    }
    const last = watermark ?? expired;
    older = null;
    lost = { after: last, watermark, reason: 'reset_required' };
    // What it shows all the same lies behind the gap.
    if (page?.first && isBehind(last, page.first)) await goOnBehind({ upTo: page.first, page });
    else await search(last, page?.next ?? null, 'reset_required');
    return null;
  }

  async function search(expired: Cursor | null, hint: Cursor | null, reason: Lost['reason']): Promise<null> {
    lost = { after: expired, watermark: await store.watermark(), reason };
    const above = [expired, refused].reduce((a, b) => (isBehind(a, b) ? b : a));
    horizon = createHorizon({
      expired: above,
      hint: isBehind(above, hint) ? hint : null,
      beginning: reason === 'reset_required',
      known: (bound) => store.cursorAbove(bound),
      below: (bound) => store.cursorBelow(bound),
    });
    await say('running', 'the watermark has expired: looking for the oldest event that the service still has');
    return null;
  }

  async function leaveHorizon(searched: Horizon): Promise<void> {
    horizon = null;
    const found = searched.found();
    if (found) return goOnBehind(found);
    refused = searched.refused();
    rest();
    if (lost.reason === 'cursor_unknown') {
      refused = null;
      return say(
        'backing-off',
        'EVENT_CURSOR_INVALID: the service knows neither our cursor nor any other that is known here: is API_KEY of this account?',
      );
    }
    const expired = lost.after;
    if (lost.watermark !== (await store.watermark())) return passed();
    await store.accept({
      readings: [],
      now: clock.now(),
      gap: { after: expired ?? ZERO, upTo: null, reason: 'reset_required' },
    });
    log.error({ after: expired, upTo: null }, GAP);
    await say('backing-off', 'the cursor has expired, and no newer one is known yet that the service accepts');
  }

  async function goOnBehind({ upTo, page }: { upTo: Cursor; page: Page }): Promise<void> {
    refused = null;
    const expired = lost.after;
    if (lost.watermark !== (await store.watermark())) {
      await commit(page);
      return passed();
    }
    const gap = { after: expired ?? ZERO, upTo, reason: lost.reason };
    const watermark = page.proved !== null && isBehind(upTo, page.proved) ? page.proved : upTo;
    log.error({ after: expired, upTo }, GAP);
    await commit(page, { gap, from: upTo, watermark });
    if (!page.hasMore) await caughtUp();
  }

  return {
    prove,
    now() {
      endedAt = -Infinity;
      again = begunAt !== null;
    },
    fresh,
    dueAt() {
      if (horizon || begunAt !== null) return 0;
      // The clock was set back: nobody knows how long ago it was.
      if (endedAt > clock.now()) return 0;
      return Math.min(endedAt + interval(), proveAt);
    },
    after,
    take,
    stop,
  };
}

interface Lost {
  /** The cursor that the service has forgotten, or does not know. */
  after: Cursor | null;
  /** Where the watermark stood then. */
  watermark: Cursor | null;
  reason: 'reset_required' | 'cursor_unknown';
}

const ZERO = '0' as Cursor;
const GAP = 'the service can no longer replay what comes after the watermark: a gap, see npx kit gaps';

/** Null comes before everything. */
function isBehind(a: Cursor | null, b: Cursor | null): boolean {
  return b !== null && (a === null || compareCursors(a, b) < 0);
}
