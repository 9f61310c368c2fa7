// Reading forward from the watermark: at start, at every interval, when something waits for proof, when somebody asks.
// What happens where the service does not know the watermark is in loss.ts.
import type { Cursor } from '../wire/cursor.ts';
import { createBlindness } from './blindness.ts';
import { createLoss, isBehind, ZERO } from './loss.ts';
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
  const { store, clock, budget, commit, say, intervalMs, overlapMs, silent, streaming } = desk;
  const blindness = createBlindness(desk);
  const catchUp = createCatchUp(clock);
  /** The last reading that went to its end, and when the one at work began. */
  let endedAt = -Infinity;
  let begunAt: number | null = null;
  /** Somebody asked while it was at work: what it has read by then may be too old. */
  let again = false;
  /** When the end was last reached; what comes long after that happened while deliveries may have failed as well. */
  let completeAt = -Infinity;
  /** By the monotonic clock. */
  let historyEndedAt: number | null = null;
  let sweptAt = -Infinity;
  let sweptBefore = -Infinity;
  /** When to read before the interval is over, for the sake of what waits for proof. */
  let proveAt = Infinity;
  let vain = 0;
  const loss = createLoss({ desk, rest, caughtUp });

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
    const search = loss.search();
    if (search) return search.next();
    const early = clock.now() >= endedAt && clock.now() < endedAt + interval();
    if (early && begunAt === null && !(await somethingWaits())) {
      proveAt = Infinity;
      return undefined;
    }
    const from = loss.instead() ?? (await store.watermark()) ?? (await beginning());
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
    if (desk.from !== 'first-webhook') {
      await store.openHistory();
      return desk.from === 'start' ? null : (desk.from as Cursor);
    }
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
    const search = loss.search();
    if (search) {
      // Kept, whatever becomes of the search.
      await commit(page);
      return search.learn(page);
    }
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
    const unknown = loss.instead() !== null && !moves;
    loss.known(page, moves);
    catchUp.page(page.readings.length + page.otherTypes, page.youngest);
    if (page.hasMore) return readOn();
    catchUp.end();
    await caughtUp();
    if (unknown) await say('backing-off', 'the service does not know the watermark, nor anything newer');
  }

  async function readOn(): Promise<void> {
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
    if (desk.from !== 'first-webhook') await endHistory(watermark);
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

  /** What the first catch-up has not shown came after the store was there; what it has may be undecided for an overlap. */
  async function endHistory(watermark: Cursor | null): Promise<void> {
    historyEndedAt ??= clock.monotonic();
    await store.endHistory(watermark ?? ZERO);
    if (clock.monotonic() - historyEndedAt >= overlapMs) await store.closeHistory();
  }

  function rest(goOn = again): void {
    endedAt = goOn ? -Infinity : clock.now();
    begunAt = null;
    again = false;
  }

  async function stop(
    why: 'stuck' | 'unknown' | 'forgotten',
    from: Cursor | null,
    page: Page | null,
  ): Promise<string | null> {
    const search = loss.search();
    if (!search) catchUp.end();
    if (search) await search.learn(why === 'stuck' ? page : null);
    else if (why === 'forgotten') await loss.forgotten(from, page);
    else if (why === 'stuck') rest();
    else if (from !== null) return loss.unknown(from);
    else return 'the service shows nothing without a cursor: set REPLAY_FROM to first-webhook or to a cursor';
    return null;
  }

  return {
    prove,
    now() {
      endedAt = -Infinity;
      again = begunAt !== null;
    },
    fresh,
    dueAt() {
      if (loss.search() || begunAt !== null) return 0;
      // The clock was set back: nobody knows how long ago it was.
      if (endedAt > clock.now()) return 0;
      return Math.min(endedAt + interval(), proveAt);
    },
    after,
    take,
    stop,
  };
}
