// Pass forward from the watermark: at start, at every interval, when something waits for proof, when somebody asks.
// What happens where the service does not know the watermark is in lost-cursor.ts.
import { isBehind, ZERO, type Cursor } from '../wire/cursor.ts';
import { createAnchor } from './anchor.ts';
import { createCoverage, type Begun } from './coverage.ts';
import { createLostCursor } from './lost-cursor.ts';
import type { Page } from './page.ts';
import { createCatchUp, wordsOf } from './progress.ts';
import type { PassContext, Ended, Pass } from './pass.ts';
import { READING_AGAIN, type OverlapPass } from './overlap-pass.ts';

const WAIT_FOR_WEBHOOK_MS = 1_000;
/** Webhooks are silent: no longer than this between two readings. */
const SILENT_INTERVAL_MS = 60_000;
/** What arrives within this time is proved by one call; the stream gets more, to do it without. */
const DEBOUNCE_MS = { alone: 100, streaming: 2_000 };
/** Longer than an interval by this: nothing could be read, and perhaps nothing be delivered. */
const OUTAGE_MS = 120_000;
/** What replay does not show yet is looked for again; the pause doubles up to the interval. */
const AGAIN_MS = 1_000;

export interface ForwardPass extends Pass {
  prove(): void;
  now(): void;
  fresh(): boolean;
  ended(): Ended | null;
}

export function createForwardPass(context: PassContext, overlap: OverlapPass): ForwardPass {
  const { store, clock, log, budget, types, commit, say, intervalMs, overlapMs, silent, streaming } = context;
  const coverage = createCoverage(context);
  const catchUp = createCatchUp(clock);
  /** The last reading that went to its end, and when the one at work began. */
  let endedAt = -Infinity;
  let begun: Begun | null = null;
  /** Somebody asked while it was at work: what it has read by then may be too old. */
  let again = false;
  /** When the end was last reached; what comes long after that happened while deliveries may have failed as well. */
  let completed: Ended | null = null;
  /** By the monotonic clock. */
  let historyEndedAt: number | null = null;
  let sweptAt = -Infinity;
  /** When to read before the interval is over, for the sake of what waits for proof. */
  let proveAt = Infinity;
  let vain = 0;
  /** The watermark as this reading saw it last: somebody else may lower it. */
  let reached: Cursor | null = null;
  const anchor = createAnchor(context);
  const lostCursor = createLostCursor({ context, rest, caughtUp });

  function interval(): number {
    return silent?.() ? Math.min(intervalMs, SILENT_INTERVAL_MS) : intervalMs;
  }

  function fresh(): boolean {
    return completed !== null && clock.monotonic() - completed.at <= intervalMs + OUTAGE_MS;
  }

  /** Kept apart as the budget gets short, so that it lasts for the whole minute. */
  function prove(): void {
    const debounce = streaming?.() ? DEBOUNCE_MS.streaming : DEBOUNCE_MS.alone;
    proveAt = Math.min(proveAt, Math.max(clock.monotonic() + debounce, endedAt + budget.spacing()));
  }

  async function after(): Promise<Cursor | null | undefined> {
    const search = lostCursor.search();
    if (search) return search.next();
    const watermark = await store.watermark();
    const wentDown = isBehind(watermark, reached);
    reached = watermark;
    if (wentDown || (begun === null && (await anchor.lower()))) return restart();
    const early = clock.monotonic() < endedAt + interval();
    if (early && begun === null && !(await somethingWaits())) {
      proveAt = Infinity;
      return undefined;
    }
    const from = lostCursor.instead() ?? (await store.watermark()) ?? (await beginning());
    if (from !== undefined) begun ??= { at: clock.monotonic(), event: await store.newestEvent() };
    else {
      endedAt = clock.monotonic() - interval() + WAIT_FOR_WEBHOOK_MS;
      await say('idle', 'waiting for the first webhook');
    }
    return from;
  }

  async function somethingWaits(): Promise<boolean> {
    const newest = await store.newestCursor();
    return newest !== null && isBehind(await store.watermark(), newest);
  }

  /** What was read above where the watermark stands now says nothing: everything begins there. */
  function restart(): undefined {
    overlap.forget();
    coverage.forget();
    lostCursor.forget();
    rest(true);
    return undefined;
  }

  /** Deliveries say that the watermark stands too high. */
  async function isAhead(upTo: number): Promise<boolean> {
    const now = clock.now();
    const ahead = await store.watermarkAhead(types, upTo, now);
    if (!ahead || !(await store.lowerWatermark({ to: ahead.to, why: 'evidence', now })).done) return false;
    log.error(
      ahead,
      'the watermark stood too high: deliveries came from below it that replay did not show; reading begins again',
    );
    reached = ahead.to;
    restart();
    return true;
  }

  /** For a store without a watermark: a cursor already seen, null for the beginning, undefined while there is none. */
  async function beginning(): Promise<Cursor | null | undefined> {
    if (context.from === 'first-webhook') return anchor.begin();
    await store.openHistory();
    return context.from === 'start' ? null : (context.from as Cursor);
  }

  async function take(page: Page, from: Cursor | null): Promise<void> {
    const search = lostCursor.search();
    if (search) {
      // Kept, whatever becomes of the search.
      await commit(page);
      return search.learn(page);
    }
    const watermark = await store.watermark();
    const top = await provedBy(page);
    const moves = top !== null && isBehind(watermark, top);
    const results = await commit(page, {
      fresh: fresh(),
      ...(top === null ? {} : { watermark: top }),
      ...(from === null ? {} : { after: from }),
      ...(moves ? { counts: { other_types: page.otherTypes } } : {}),
      ...(watermark === null ? { from: from ?? ZERO } : {}),
    });
    reached = await store.watermark();
    if (moves && !results.some(({ verdict }) => verdict === 'new')) context.onEvents();
    if (moves) vain = 0;
    // From an older cursor, nothing new was found: the next reading meets the same refusal.
    const unknown = lostCursor.instead() !== null && !moves;
    lostCursor.known(page, moves);
    catchUp.page(page.readings.length + page.otherTypes, page.youngest);
    if (page.hasMore) return readOn();
    catchUp.end();
    await caughtUp();
    if (unknown) await say('backing-off', 'the service does not know the watermark, nor anything newer');
  }

  /** At the end of history, the service has also gone past what a filter hides: as far as something is known here. */
  async function provedBy({ proved, next, hasMore }: Page): Promise<Cursor | null> {
    if (hasMore || next === null || !isBehind(proved, next)) return proved;
    const ceiling = await store.ceiling();
    const known = await (isBehind(next, ceiling) || ceiling === null
      ? store.cursorUpTo(next)
      : store.cursorBelow(ceiling));
    return isBehind(proved, known) ? known : proved;
  }

  async function readOn(): Promise<void> {
    const progress = catchUp.show();
    await say('running', progress && wordsOf(progress), { progress });
  }

  /** The end of the history: what came lately is swept over once more, at the most once an interval. */
  async function caughtUp(): Promise<void> {
    const read = begun ?? { at: clock.monotonic(), event: 0 };
    rest();
    const watermark = await store.watermark();
    completed = { at: clock.monotonic(), watermark };
    if (context.from !== 'first-webhook') await endHistory(watermark);
    if (await isAhead(read.event)) return;
    await coverage.readToTheEnd(read, overlap.covered());
    if (await somethingWaits()) {
      const pause = Math.max(budget.spacing(), AGAIN_MS * 2 ** Math.min(vain++, 20));
      if (proveAt < Infinity) proveAt = clock.monotonic() + Math.min(interval(), pause);
    } else proveAt = Infinity;
    const due = clock.monotonic() - sweptAt >= interval();
    if (due) sweptAt = clock.monotonic();
    const sweeps = due && watermark !== null && (await overlap.begin(watermark));
    await say(sweeps ? 'running' : 'idle', sweeps ? READING_AGAIN : null, { done: true, progress: null });
  }

  /** What the first catch-up has not shown came after the store was there; what it has may be undecided for an overlap. */
  async function endHistory(watermark: Cursor | null): Promise<void> {
    historyEndedAt ??= clock.monotonic();
    await store.endHistory(watermark ?? ZERO);
    if (clock.monotonic() - historyEndedAt >= overlapMs) await store.closeHistory();
  }

  function rest(goOn = again): void {
    endedAt = goOn ? -Infinity : clock.monotonic();
    begun = null;
    again = false;
  }

  async function stop(
    why: 'stuck' | 'unknown' | 'forgotten',
    from: Cursor | null,
    page: Page | null,
  ): Promise<string | null> {
    const search = lostCursor.search();
    if (!search) catchUp.end();
    if (search) await search.learn(why === 'stuck' ? page : null);
    else if (why === 'forgotten') await lostCursor.forgotten(from, page);
    else if (why === 'stuck') rest();
    else if (from !== null) return lostCursor.unknown(from);
    else return 'the service shows nothing without a cursor: set REPLAY_FROM to first-webhook or to a cursor';
    return null;
  }

  return {
    prove,
    now() {
      endedAt = -Infinity;
      again = begun !== null;
    },
    fresh,
    ended: () => completed,
    dueAt() {
      if (lostCursor.search() || begun !== null) return -Infinity;
      return Math.min(endedAt + interval(), proveAt);
    },
    after,
    take,
    stop,
  };
}
