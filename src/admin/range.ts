// How a stretch of history is named and asked for, by the command line and by the page; `keep` does the reading.
import { timeOf } from '../base/clock.ts';
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import type { IngestStore } from '../store/ingest.ts';
import type { KeepStore, VerifyAccount } from '../store/keep.ts';
import type { Point } from '../store/read.ts';

/** A cursor, or a time: in UTC, unless it says where. Undefined where the text is neither. */
export function readPoint(text: string): Point | undefined {
  return parseCursor(text) ?? timeOf(text);
}

/**
 * Where a stretch begins: behind a cursor that is known; for a time, behind the newest received before it. Null where
 * nothing is stored; `short` where nothing that old is, and it begins with the oldest.
 */
export async function beginningOf(
  store: Pick<KeepStore, 'anchors'>,
  point: Point,
): Promise<{ from: Cursor | null; short: boolean }> {
  if (typeof point === 'string') return { from: point, short: false };
  const { older, lowest } = await store.anchors(point);
  return { from: older ?? lowest, short: older === null && lowest !== null };
}

export async function askToVerify(store: Pick<IngestStore, 'note'>, from: Cursor, asked: number): Promise<void> {
  const fresh: VerifyAccount = {
    state: 'running',
    reason: null,
    asked,
    from,
    at: from,
    pages: 0,
    events: 0,
    types: [],
  };
  await store.note({}, { verify: JSON.stringify(fresh) });
}
