// One pass: from behind the watermark, page by page, to the end of history. What the service no longer has becomes a gap.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { ServiceError } from '../service/errors.ts';
import { TOO_LARGE } from '../service/exchange.ts';
import type { IngestStore } from '../store/store.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import { isLost, LIMIT, LOST, unfit, type Read } from './page.ts';
import { findOldest } from './search.ts';
import type { ReplayStore } from './store.ts';

export interface PassOptions {
  store: ReplayStore;
  ingest: IngestStore;
  read: Read;
  clock: Clock;
  log: Logger;
  windowMs: number;
  overlapMs: number;
  /** Where the first pass of all begins. Null: at the beginning of history. Undefined: at the lowest cursor stored. */
  from: Cursor | null | undefined;
  /** After each page: events that replay has brought first, and events fetched in this pass. */
  onPage: (recovered: number, fetched: number) => Promise<void> | void;
}

/** Resolves with why nothing was read, or null. */
export async function runPass(options: PassOptions, overlap: boolean): Promise<string | null> {
  const { store, clock, from } = options;
  const { watermark: known, lowest } = await store.position();
  if (known === null && from === null) return readOn(options, null, null);
  const watermark = known ?? from ?? lowest;
  if (watermark === null) return 'waiting for the first event';
  if (known === null) await store.begin(watermark);
  const found = overlap ? await store.before(watermark, clock.now() - options.overlapMs) : undefined;
  const behind = found !== undefined && isBehind(found, watermark) ? found : watermark;
  // The cursor below may be gone while the watermark is not.
  for (const start of new Set([behind, watermark]))
    try {
      return await readOn(options, start, watermark);
    } catch (error) {
      if (!isLost(error)) throw error;
    }
  return skip(options, watermark);
}

/** Reads a stretch above the floor again, and closes the gaps that it covers. */
export async function readAgain(options: PassOptions, from: Cursor): Promise<void> {
  const { watermark } = await options.store.position();
  await readOn(options, from, watermark);
  const after = await options.store.position();
  if (after.watermark !== null) await options.store.close(from, after.watermark);
}

async function readOn(options: PassOptions, start: Cursor | null, watermark: Cursor | null): Promise<null> {
  const { store, ingest, clock, windowMs, onPage } = options;
  const before = clock.now() - windowMs;
  let limit = LIMIT;
  let asked = start;
  /** Everything up to here was shown. Null: from the beginning. */
  let shown = start;
  for (;;) {
    const page = await options.read(asked, limit).catch((error: unknown) => {
      if (limit === 1 || !(error instanceof ServiceError && error.reason === TOO_LARGE)) throw error;
      limit = Math.max(1, Math.floor(limit / 10));
      return null;
    });
    if (page === null) continue;
    if (page.reset) throw unfit('the cursor has expired', LOST);
    const last = page.cursors.at(-1) ?? null;
    // At the end of history, lower cursors may become visible after higher ones: only what was stored for a while proves.
    const to = page.hasMore || last === null ? last : await store.storedBy(page.cursors, before);
    // The page of an overlap may end below the watermark, which it then does not move.
    const proves = to !== null && (shown === null || watermark !== null) ? { proves: { from: shown, to } } : {};
    const verdicts = await ingest.accept({ readings: page.readings, ...proves });
    await onPage(verdicts.filter((verdict) => verdict === 'new').length, page.readings.length);
    if (!page.hasMore) return null;
    const onward = last ?? (page.next !== null && (asked === null || isBehind(asked, page.next)) ? page.next : null);
    if (onward === null) throw unfit('it says that there is more, and does not show it');
    asked = onward;
    if (last !== null) shown = last;
  }
}

/** The watermark has expired: goes on at the oldest cursor that the service accepts. What is before it is a gap. */
async function skip(options: PassOptions, watermark: Cursor): Promise<string | null> {
  const { store, log } = options;
  const { newest } = await store.position();
  const found = await findOldest(options.read, store, watermark, newest);
  if (found === null) {
    await store.gap(watermark, null, 'the service no longer has the events after it');
    return 'the cursor has expired, and the service accepts none that is known: waiting for the next event';
  }
  log.error({ after: watermark, upTo: found }, 'the service can no longer show this stretch of history: it is a gap');
  await store.gap(watermark, found, 'the service no longer has these events');
  return readOn(options, found, found);
}
