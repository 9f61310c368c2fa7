// One pass: from behind the watermark, page by page, to the end of history. What the service no longer has becomes a gap.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { IngestStore } from '../store/store.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import { LIMIT, ReplayFault, type Page } from './page.ts';
import { findOldest } from './search.ts';
import type { Position, ReplayStore } from './store.ts';

export interface PassOptions {
  store: ReplayStore;
  ingest: IngestStore;
  /** Waits for its turn in the budget of calls. Throws ReplayFault. */
  read: (after: Cursor | null, limit: number) => Promise<Page>;
  clock: Clock;
  log: Logger;
  windowMs: number;
  overlapMs: number;
  /** Where a new store begins: `start`, a cursor, or (undefined) the lowest cursor stored. */
  from: 'start' | Cursor | undefined;
  /** After each page: events that replay has brought first, and events fetched in this pass. */
  onPage: (recovered: number, fetched: number) => void;
}

/** The cursor that a page moves the watermark to. `storedBy`: its highest item that was stored before the pass began. */
export function provedBy({ cursors, hasMore }: Page, storedBy: Cursor | null): Cursor | null {
  // At the end of history, lower cursors may become visible after higher ones.
  return hasMore ? (cursors.at(-1) ?? null) : storedBy;
}

/** Resolves with why nothing was read, or null. */
export async function runPass(options: PassOptions, overlap: boolean): Promise<string | null> {
  const { store, clock } = options;
  const position = await store.position();
  if (position.watermark === null && options.from === 'start') return readOn(options, null, null);
  const watermark = position.watermark ?? (await begin(options, position));
  if (watermark === null) return 'waiting for the first event';
  const found = overlap ? await store.before(watermark, clock.now() - options.overlapMs) : undefined;
  const behind = found !== undefined && isBehind(found, watermark) ? found : watermark;
  try {
    return await readOn(options, behind, watermark);
  } catch (error) {
    if (!(error instanceof Lost)) throw error;
  }
  // The cursor below may be gone while the watermark is not.
  if (behind !== watermark)
    try {
      return await readOn(options, watermark, watermark);
    } catch (error) {
      if (!(error instanceof Lost)) throw error;
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

async function begin({ store, from }: PassOptions, { lowest }: Position): Promise<Cursor | null> {
  const cursor = from === 'start' || from === undefined ? lowest : from;
  if (cursor !== null) await store.begin(cursor);
  return cursor;
}

/** The service has forgotten, or never had, what comes after this cursor. */
class Lost extends Error {}

async function readOn(options: PassOptions, start: Cursor | null, watermark: Cursor | null): Promise<null> {
  const { store, ingest, clock, windowMs, onPage } = options;
  const before = clock.now() - windowMs;
  let limit = LIMIT;
  let asked = start;
  /** Everything up to here was shown. Null: from the beginning. */
  let shown = start;
  let isStuck = false;
  for (;;) {
    const page = await options.read(asked, limit).catch((error: unknown) => {
      if (!(error instanceof ReplayFault)) throw error;
      if (error.kind === 'cursor') throw new Lost(error.message);
      if (error.kind !== 'large' || limit === 1) throw error;
      limit = Math.max(1, Math.floor(limit / 10));
      return null;
    });
    if (page === null) continue;
    if (page.reset) throw new Lost('reset_required');
    const last = page.cursors.at(-1) ?? null;
    const stored = page.hasMore || last === null ? null : await store.storedBy(page.cursors, before);
    const to = provedBy(page, stored);
    // The page of an overlap may end below the watermark, which it then does not move.
    const proves = to !== null && (shown === null || watermark !== null) ? { proves: { from: shown, to } } : {};
    const verdicts = await ingest.accept({ readings: page.readings, ...proves });
    onPage(verdicts.filter((verdict) => verdict === 'new').length, page.readings.length);
    if (!page.hasMore) return null;
    const onward = last ?? (page.next !== null && (asked === null || isBehind(asked, page.next)) ? page.next : null);
    if (onward === null) {
      if (isStuck) throw new ReplayFault('passing', 'ReplayEvents says that there is more, and does not show it');
      isStuck = true;
      continue;
    }
    isStuck = false;
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
