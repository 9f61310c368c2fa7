// One pass reads history page by page, from the watermark or a little below it, to the end. What the service no longer
// has becomes a gap.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { ServiceError, unfit } from '../service/errors.ts';
import { TOO_LARGE } from '../service/exchange.ts';
import type { Database } from '../store/sql.ts';
import type { IngestStore } from '../store/store.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import { isLost, LIMIT, LOST, what, type Page, type Read } from './page.ts';
import { findBeginning } from './search.ts';
import { addGap, beginAt, behindOf, closeGaps, highestStored, positionOf } from './store.ts';

export interface PassOptions {
  db: Database;
  ingest: IngestStore;
  read: Read;
  clock: Clock;
  log: Logger;
  windowMs: number;
  overlapMs: number;
  /** Where the very first pass begins. Null: at the beginning of history. Undefined: at the lowest cursor stored. */
  from: Cursor | null | undefined;
  /** Called after each page, with what was new to the store, and how many events the page had. */
  onPage: (recovered: Page['readings'], fetched: number) => Promise<void> | void;
}

/** `overlap`: reads events of the last `overlapMs` again. Resolves with the reason if nothing was read, else null. */
export async function runPass(options: PassOptions, overlap: boolean): Promise<string | null> {
  const { db, clock, from } = options;
  const { watermark: known, lowest } = await positionOf(db);
  if (known === null && from === null) return readOn(options, null, null);
  const watermark = known ?? from ?? lowest;
  if (watermark === null) return 'waiting for the first event';
  if (known === null) await beginAt(db, watermark);
  const found = overlap ? await behindOf(db, watermark, clock.now() - options.overlapMs) : undefined;
  const behind = found !== undefined && isBehind(found, watermark) ? found : watermark;
  // The service may have forgotten `behind`, and still accept the watermark.
  for (const start of new Set([behind, watermark]))
    try {
      return await readOn(options, start, watermark);
    } catch (error) {
      if (!isLost(error)) throw error;
    }
  return skip(options, watermark);
}

/**
 * Reads the events after `from` again, and closes the gaps there. If the service no longer has these events, only the
 * gap that begins at `from` is closed: a person has named it. Resolves with the reason if nothing was read, else null.
 */
export async function readAgain(options: PassOptions, from: Cursor): Promise<string | null> {
  const { db, clock } = options;
  const { watermark } = await positionOf(db);
  const why = await readOn(options, from, watermark).catch((error: unknown) => {
    if (!isLost(error)) throw error;
    return `the service does not have the events after ${from}`;
  });
  const after = await positionOf(db);
  await closeGaps(db, clock.now(), from, why === null ? after.watermark : null);
  return why;
}

async function readOn(options: PassOptions, start: Cursor | null, watermark: Cursor | null): Promise<null> {
  const { db, ingest, clock, windowMs, onPage } = options;
  const before = clock.now() - windowMs;
  let limit = LIMIT;
  let asked = start;
  /** Replay has shown everything from `start` up to here. Null: `start` is the beginning, and nothing was shown yet. */
  let shown = start;
  for (;;) {
    const page = await options.read(asked, limit).catch((error: unknown) => {
      if (limit === 1 || !(error instanceof ServiceError && error.reason === TOO_LARGE)) throw error;
      limit = Math.max(1, Math.floor(limit / 10));
      return null;
    });
    if (page === null) continue;
    if (page.reset) throw unfit(what, 'the cursor has expired', LOST);
    const last = page.cursors.at(-1) ?? null;
    // At the end of history, a lower cursor may appear after a higher one: only one stored for `windowMs` is proof.
    const to = page.hasMore || last === null ? last : await highestStored(db, page.cursors, before);
    // A page of the overlap may end below the watermark. Such a proof does not move the watermark.
    const proves = to !== null && (start === null || watermark !== null) ? { proves: { from: shown, to } } : {};
    const verdicts = await ingest.accept({ readings: page.readings, ...proves });
    const recovered = page.readings.filter((_, n) => verdicts[n] === 'new');
    await onPage(recovered, page.readings.length);
    if (!page.hasMore) return null;
    const onward = last ?? (page.next !== null && (asked === null || isBehind(asked, page.next)) ? page.next : null);
    if (onward === null) throw unfit(what, 'the answer says that there is more, but shows no event and no next cursor');
    asked = onward;
    if (last !== null) shown = last;
  }
}

/** The watermark has expired: goes on where the service's history begins now. What was between them is a gap. */
async function skip(options: PassOptions, watermark: Cursor): Promise<string | null> {
  const { db, ingest, clock, log } = options;
  const { newest } = await positionOf(db);
  const found = await findBeginning(options.read, db, watermark, newest);
  if (found === null) {
    await addGap(db, clock.now(), watermark, null, 'the service no longer has the events after this cursor');
    return 'the watermark has expired, and the service shows nothing after it: waiting for the next event';
  }
  const { upTo, readings, start } = found;
  if (isBehind(watermark, upTo)) {
    log.error({ after: watermark, upTo }, 'the service can no longer show this stretch of history: it is a gap');
    await addGap(db, clock.now(), watermark, upTo, 'the service no longer has these events');
  }
  await ingest.accept({ readings, proves: { from: null, to: start } });
  return readOn(options, start, start);
}
