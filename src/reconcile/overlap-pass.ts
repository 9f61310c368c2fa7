// The overlap pass reads the last RECONCILE_OVERLAP_SECONDS again. Events may become visible out of cursor order, so
// the forward pass misses those that become visible late.
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { Reading } from '../wire/event.ts';
import type { Pass, PassContext } from './pass.ts';

export type OverlapPass = ReturnType<typeof createOverlapPass>;

export const READING_AGAIN = 'reading the last minutes again, for events that became visible late';

// oxlint-disable-next-line max-lines-per-function -- one pass: its beginning, its pages and its end share state
export function createOverlapPass({ store, clock, log, overlapMs, commit, say }: PassContext) {
  let at: Cursor | null = null;
  /** The watermark when this pass began. Events above it are newer, so they are not late. */
  let below: Cursor | null = null;
  /** The number of late events that this pass has found. */
  let found = 0;
  /** The number of the newest event when this pass began, and when the last complete pass began. */
  let newest = 0;
  let covered = 0;
  /** Watermarks of about the last overlap period. `at`: when this pass first saw `cursor`, by the monotonic clock. */
  const stood: { at: number; cursor: Cursor }[] = [];

  /** The watermark one overlap period ago. While `stood` is too short, the cursor of a stored event takes its place. */
  async function beforeOverlap(): Promise<Cursor | null> {
    const before = clock.monotonic() - overlapMs;
    while ((stood[1]?.at ?? Infinity) <= before) stood.shift();
    if (stood[0] && stood[0].at <= before) return stood[0].cursor;
    const { older, lowest, young } = await store.replay.anchors(clock.now() - overlapMs);
    return young || stood.length > 1 ? (older ?? lowest) : null;
  }

  function isLate(reading: Reading | undefined): boolean {
    if (!reading || !('event' in reading) || reading.event.cursor === null || below === null) return false;
    return !isBehind(below, reading.event.cursor);
  }

  async function end(complete = true): Promise<void> {
    at = null;
    if (complete) covered = newest;
    const words = found > 0 ? `events found only by reading again, because they became visible late: ${found}` : null;
    found = 0;
    await say('idle', words, { done: true });
  }

  return {
    name: 'overlap',
    dueAt: () => (at === null ? Infinity : 0),
    after: async () => at ?? undefined,
    /** The number of the newest event when the last complete overlap pass began. */
    covered: () => covered,
    /** Call it when the watermark was lowered: its earlier positions do not count. */
    forget(): void {
      stood.length = 0;
      at = null;
    },
    /** Call it when the forward pass has ended at this watermark. False: there is nothing to read again. */
    async begin(watermark: Cursor): Promise<boolean> {
      if (stood.at(-1)?.cursor !== watermark) stood.push({ at: clock.monotonic(), cursor: watermark });
      if (at !== null) return true;
      newest = await store.keep.newestEvent();
      const from = await beforeOverlap();
      if (from !== null && isBehind(from, watermark)) at = from;
      else covered = newest;
      below = watermark;
      return at !== null;
    },
    async take(page) {
      const results = await commit(page);
      found += results.filter(({ verdict }, i) => verdict === 'new' && isLate(page.readings[i])).length;
      at = page.hasMore ? page.proved : null;
      if (at === null) await end();
    },
    async stop(why) {
      // After a stuck pass the next one begins one overlap period ago again, and so gets past the cursor in time.
      if (why !== 'stuck') stood.length = 0;
      // If the service does not know the cursor, nothing is lost: the forward pass has read up to the watermark.
      if (why === 'unknown')
        log.warn('the service does not know the cursor that an overlap pass began at; skipping the pass');
      await end(why !== 'stuck');
      return null;
    },
  } satisfies Pass & Record<string, unknown>;
}
