// Reads once more over the last RECONCILE_OVERLAP_SECONDS: the order in which events become visible need not be that of
// their cursors, and reading forward has gone past what came late.
import type { Cursor } from '../wire/cursor.ts';
import { compareCursors } from '../wire/cursor.ts';
import type { Reading as Item } from '../wire/event.ts';
import type { Desk, Reading } from './reconcile.ts';

export interface Sweep extends Reading {
  /** Reading forward is at its end, with the watermark there. False where there is nothing to sweep over. */
  begin(watermark: Cursor): Promise<boolean>;
}

export const SWEEPING = 'reading the last minutes once more, for what became visible late';

export function createSweep({ store, clock, log, overlapMs, commit, say }: Desk): Sweep {
  let at: Cursor | null = null;
  /** What only this sweep has found, up to where reading forward had come: what lies behind is merely new. */
  let found = 0;
  let upTo: Cursor | null = null;
  /** Where the watermark stood, and when, since about one overlap ago. */
  const stood: { at: number; cursor: Cursor }[] = [];

  /** Where it stood one overlap ago; as long as that is not known, by what is stored. */
  async function beforeOverlap(): Promise<Cursor | null> {
    const before = clock.now() - overlapMs;
    while ((stood[1]?.at ?? Infinity) <= before) stood.shift();
    if (stood[0] && stood[0].at <= before) return stood[0].cursor;
    const { older, lowest, young } = await store.anchors(before);
    return young || stood.length > 1 ? (older ?? lowest) : null;
  }

  async function end(): Promise<void> {
    at = null;
    const words = found > 0 ? `found only by reading once more, as they became visible late: ${found}` : null;
    found = 0;
    await say('idle', words, { done: true });
  }

  return {
    dueAt: () => (at === null ? Infinity : 0),
    after: async () => at ?? undefined,
    async begin(watermark) {
      upTo = watermark;
      if (stood.at(-1)?.cursor !== watermark) stood.push({ at: clock.now(), cursor: watermark });
      if (at !== null) return true;
      const from = await beforeOverlap();
      if (from !== null && compareCursors(from, watermark) < 0) at = from;
      return at !== null;
    },
    async take(page) {
      const results = await commit(page);
      found += page.readings.filter((reading, i) => results[i]?.verdict === 'new' && !isAhead(reading, upTo)).length;
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

function isAhead(reading: Item, upTo: Cursor | null): boolean {
  const cursor = 'event' in reading ? reading.event.cursor : reading.unreadable.cursor;
  return cursor !== null && upTo !== null && compareCursors(cursor, upTo) > 0;
}
