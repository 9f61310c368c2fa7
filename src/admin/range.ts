// Asks `keep` to reconcile, or to verify from a point in history, and parses the text that names the point.
import type { Store } from '../store/store.ts';
import { timeOf } from '../base/clock.ts';
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import type { VerifyAccount } from '../store/keep.ts';
import type { Point } from '../store/read.ts';
import { AdminError } from './error.ts';

/** Parses a cursor or a time. A time without a zone is in UTC. Undefined: the text is neither. */
export function readPoint(text: string): Point | undefined {
  return parseCursor(text) ?? timeOf(text);
}

/** Asks `keep` to reconcile. `keep` begins within a second. */
export async function askToReconcile(store: Pick<Store, 'state'>, now: number): Promise<void> {
  await store.state.note({}, { reconcile_asked: now });
}

/**
 * Asks `keep` to verify from a cursor on. A past time stands for the median cursor of the last hundred events received
 * before it. `short`: no event is that old, so verify begins at the lowest stored cursor. Throws AdminError.
 */
export async function verifyFrom(
  store: Pick<Store, 'state' | 'replay'>,
  point: Point | undefined,
  now: number,
): Promise<{ from: Cursor; short: boolean }> {
  if (point === undefined || (typeof point === 'number' && point > now))
    throw new AdminError('input', 'give a cursor, or a time that is past, like 2026-01-31T12:00:00Z');
  const { older, lowest } =
    typeof point === 'string' ? { older: point, lowest: null } : await store.replay.anchors(point);
  const from = older ?? lowest;
  if (from === null) throw new AdminError('missing', 'nothing is stored that it could be compared with');
  const none = { reason: null, pages: 0, events: 0, types: [] };
  const fresh: VerifyAccount = { state: 'running', asked: now, from, at: from, ...none };
  await store.state.note({}, { verify: JSON.stringify(fresh) });
  return { from, short: older === null };
}
