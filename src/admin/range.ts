// Asks `keep` to reconcile or to verify, and reads the point in history where verify begins.
import { timeOf } from '../base/clock.ts';
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import type { IngestStore } from '../store/ingest.ts';
import type { KeepStore, VerifyAccount } from '../store/keep.ts';
import type { Point } from '../store/read.ts';
import { AdminError } from './error.ts';

/** A cursor, or a time, which is in UTC unless it names a zone. Undefined: the text is neither. */
export function readPoint(text: string): Point | undefined {
  return parseCursor(text) ?? timeOf(text);
}

/** `keep` begins within a second. */
export async function askToReconcile(store: Pick<IngestStore, 'note'>, now: number): Promise<void> {
  await store.note({}, { reconcile_asked: now });
}

/**
 * Asks `keep` to verify from a cursor on, or from the newest event received before a past time. `short`: nothing that
 * old is stored, so it begins with the oldest event. Throws AdminError.
 */
export async function verifyFrom(
  store: Pick<IngestStore, 'note'> & Pick<KeepStore, 'anchors'>,
  point: Point | undefined,
  now: number,
): Promise<{ from: Cursor; short: boolean }> {
  if (point === undefined || (typeof point === 'number' && point > now))
    throw new AdminError('input', 'give a cursor, or a time that is past, like 2026-01-31T12:00:00Z');
  const { older, lowest } = typeof point === 'string' ? { older: point, lowest: null } : await store.anchors(point);
  const from = older ?? lowest;
  if (from === null) throw new AdminError('missing', 'nothing is stored that it could be compared with');
  await askToVerify(store, from, now);
  return { from, short: older === null };
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
