// Reads once more over the last RECONCILE_OVERLAP_SECONDS: the order in which events become visible need not be that of
// their cursors, and reading forward has gone past what came late.
import type { Cursor } from '../wire/cursor.ts';
import { compareCursors } from '../wire/cursor.ts';
import type { Reading as Item } from '../wire/event.ts';
import type { PassContext, Pass } from './pass.ts';

export interface OverlapPass extends Pass {
  /** Pass forward is at its end, with the watermark there. False where there is nothing to sweep over. */
  begin(watermark: Cursor): Promise<boolean>;
  /** What arrived up to this event was there when the last whole sweep began. */
  covered(): number;
  /** The watermark was lowered: where it stood says nothing any more. */
  forget(): void;
}

export const READING_AGAIN = 'reading the last minutes once more, for what became visible late';

export function createOverlapPass({ store, clock, log, overlapMs, commit, say }: PassContext): OverlapPass {
  let at: Cursor | null = null;
  /** Where reading forward had come as it began: what lies above has happened since, and is not late. */
  let below: Cursor | null = null;
  /** What only this sweep has found. */
  let found = 0;
  /** The newest event as this sweep began, and as the last one did that came to its end. */
  let newest = 0;
  let covered = 0;
  /** Where the watermark stood, and when, since about one overlap ago. */
  const stood: { at: number; cursor: Cursor }[] = [];

  /** Where it stood one overlap ago; as long as that is not known, by what is stored. */
  async function beforeOverlap(): Promise<Cursor | null> {
    const before = clock.monotonic() - overlapMs;
    while ((stood[1]?.at ?? Infinity) <= before) stood.shift();
    if (stood[0] && stood[0].at <= before) return stood[0].cursor;
    const { older, lowest, young } = await store.anchors(clock.now() - overlapMs);
    return young || stood.length > 1 ? (older ?? lowest) : null;
  }

  function isLate(item: Item | undefined): boolean {
    if (!item || !('event' in item) || item.event.cursor === null || below === null) return false;
    return compareCursors(item.event.cursor, below) <= 0;
  }

  async function end(): Promise<void> {
    at = null;
    covered = newest;
    const words = found > 0 ? `found only by reading once more, as they became visible late: ${found}` : null;
    found = 0;
    await say('idle', words, { done: true });
  }

  return {
    dueAt: () => (at === null ? Infinity : 0),
    after: async () => at ?? undefined,
    covered: () => covered,
    forget() {
      stood.length = 0;
      at = null;
    },
    async begin(watermark) {
      if (stood.at(-1)?.cursor !== watermark) stood.push({ at: clock.monotonic(), cursor: watermark });
      if (at !== null) return true;
      newest = await store.newestEvent();
      const from = await beforeOverlap();
      if (from !== null && compareCursors(from, watermark) < 0) at = from;
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
      stood.length = 0;
      // What it looks for is older than what the service keeps; everything up to the watermark was read before.
      if (why === 'unknown') log.warn('the service does not know the cursor that a sweep began at; it is left out');
      await end();
      return null;
    },
  };
}
