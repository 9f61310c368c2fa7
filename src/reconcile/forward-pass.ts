// The forward pass reads from the watermark to the end of history and raises the watermark.
import { isBehind, ZERO, type Cursor } from '../wire/cursor.ts';
import { createBeginning } from './beginning.ts';
import { createCoverage } from './coverage.ts';
import { READING_AGAIN, type OverlapPass } from './overlap-pass.ts';
import type { Page } from './page.ts';
import type { Ended, Pass, PassContext } from './pass.ts';
import { createCatchUp, wordsOf } from './progress.ts';
import { createSchedule } from './schedule.ts';
import { createSearchPass } from './search-pass.ts';

const WAIT_FOR_WEBHOOK_MS = 1_000;
/** If no forward pass has ended for an interval plus this time, an outage may have stopped deliveries, too. */
const OUTAGE_MS = 120_000;

// oxlint-disable-next-line max-lines-per-function -- one pass: its beginning, its pages and its end share state
export function createForwardPass(context: PassContext, overlap: OverlapPass) {
  const { store, clock, log, types, commit, say, intervalMs } = context;
  const beginning = createBeginning(context);
  const catchUp = createCatchUp(clock);
  const coverage = createCoverage(context);
  const schedule = createSchedule(context);
  const search = createSearchPass(context, { rest: schedule.rest, caughtUp });
  let completed: Ended | null = null;
  /** When the last overlap pass began, by the monotonic clock. */
  let overlapAt = -Infinity;
  /** The watermark that this pass saw last. If it is higher than the present one, the watermark was lowered. */
  let reached: Cursor | null = null;

  /** True if the pass ended recently, so that events found now happened while deliveries could be accepted. */
  function fresh(): boolean {
    return completed !== null && clock.monotonic() - completed.at <= intervalMs + OUTAGE_MS;
  }

  async function after(): Promise<Cursor | null | undefined> {
    const watermark = await store.state.get('watermark');
    const wentDown = isBehind(watermark, reached);
    reached = watermark;
    if (wentDown || (!schedule.begun() && (await beginning.lower()))) return restart();
    if (schedule.isEarly() && !(await somethingWaits())) {
      schedule.proved();
      return undefined;
    }
    const from = search.older() ?? (await store.state.get('watermark')) ?? (await beginning.after());
    if (from === undefined) {
      schedule.wait(WAIT_FOR_WEBHOOK_MS);
      await say('idle', 'waiting for the first webhook');
    } else if (!schedule.begun()) schedule.begin(await store.keep.newestEvent());
    return from;
  }

  async function somethingWaits(): Promise<boolean> {
    const newest = await store.replay.newestCursor();
    return isBehind(await store.state.get('watermark'), newest);
  }

  /** Begins anew at the lowered watermark: all passes forget what they have read above it. */
  function restart(): undefined {
    overlap.forget();
    coverage.forget();
    search.forget();
    schedule.rest(true);
    return undefined;
  }

  async function take(page: Page, from: Cursor | null): Promise<void> {
    const watermark = await store.state.get('watermark');
    const top = await provedBy(page);
    const moves = isBehind(watermark, top);
    const results = await commit(page, {
      fresh: fresh(),
      ...(top === null ? {} : { watermark: top }),
      ...(from === null ? {} : { after: from }),
      ...(moves ? { counts: { other_types: page.otherTypes } } : {}),
      ...(watermark === null ? { from: from ?? ZERO } : {}),
    });
    reached = await store.state.get('watermark');
    if (moves && !results.some(({ verdict }) => verdict === 'new')) context.onEvents();
    if (moves) schedule.moved();
    // The service refused the watermark, and the page after an older cursor has nothing new: the refusal will repeat.
    const unknown = search.older() !== null && !moves;
    search.accepted(page, moves);
    catchUp.page(page.readings.length + page.otherTypes, page.youngest);
    if (page.hasMore) {
      const progress = catchUp.show();
      return say('running', progress && wordsOf(progress), { progress });
    }
    catchUp.end();
    await caughtUp();
    if (unknown) await say('backing-off', 'the service does not know the watermark, and has nothing newer');
  }

  /**
   * How far the page raises the watermark. At the end of history, `next_cursor` may be above the last item, because the
   * service filters events. The watermark may then rise to the highest known cursor up to `next_cursor`.
   */
  async function provedBy({ proved, next, hasMore }: Page): Promise<Cursor | null> {
    if (hasMore || next === null || !isBehind(proved, next)) return proved;
    const ceiling = await store.replay.ceiling();
    const bounded = ceiling !== null && !isBehind(next, ceiling);
    const known = await (bounded ? store.replay.cursorBelow(ceiling) : store.replay.cursorUpTo(next));
    return isBehind(proved, known) ? known : proved;
  }

  /** Ends the pass at the end of history. The overlap pass follows, at most once per interval. */
  async function caughtUp(): Promise<void> {
    const begun = schedule.begun() ?? { at: clock.monotonic(), event: 0 };
    schedule.rest();
    const watermark = await store.state.get('watermark');
    completed = { at: clock.monotonic(), watermark };
    await beginning.caughtUp(watermark);
    if (await isAhead(begun.event)) return;
    await coverage.caughtUp(begun, overlap.covered());
    if (await somethingWaits()) schedule.notShown();
    else schedule.proved();
    const due = schedule.intervalIsOver(overlapAt);
    if (due) overlapAt = clock.monotonic();
    const again = due && watermark !== null && (await overlap.begin(watermark));
    await say(again ? 'running' : 'idle', again ? READING_AGAIN : null, { done: true, progress: null });
  }

  /** Lowers the watermark if deliveries prove that it is too high. */
  async function isAhead(upTo: number): Promise<boolean> {
    const now = clock.now();
    const ahead = await store.replay.watermarkAhead(types, upTo, now);
    if (!ahead || !(await store.replay.lowerWatermark({ to: ahead.to, why: 'evidence', now })).done) return false;
    log.error(
      ahead,
      'the watermark stood too high: events were delivered below it that replay did not show; reading again from there',
    );
    reached = ahead.to;
    restart();
    return true;
  }

  return {
    name: 'forward',
    /** The search pass makes the calls while the service refuses the cursor of this pass. */
    search,
    /** Call it when an event arrives above the watermark. A burst of events costs one call of ReplayEvents. */
    prove: schedule.prove,
    /** Makes the pass due at the next step. */
    now: schedule.now,
    fresh,
    /** When the pass last reached the end of history. Null: never. */
    ended: () => completed,
    dueAt: () => (search.isActive() ? Infinity : schedule.dueAt()),
    after,
    take,
    async stop(why, from, page) {
      catchUp.end();
      if (why === 'stuck') schedule.rest();
      else if (why === 'forgotten') await search.forgotten(from, page);
      else if (from !== null) return search.unknown(from);
      else return 'the service shows nothing without a cursor: set REPLAY_FROM to first-webhook or to a cursor';
      return null;
    },
  } satisfies Pass & Record<string, unknown>;
}
