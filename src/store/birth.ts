// History is the events that happened before this store was created. Only handlers that ask for history get them. An
// event's own time decides. If it has none, its neighbours in cursor order decide, which may arrive later.
import { compareCursors, type Cursor } from '../wire/cursor.ts';
import type { Incoming } from '../wire/event.ts';

export interface Birth {
  /** When this store was created, Unix milliseconds. */
  at: number;
  /** The reading of history by replay: `open` until at least RECONCILE_OVERLAP_SECONDS after its end, then `over`. */
  reading: 'none' | 'open' | 'over';
  /** Events above this cursor happened after the store was created. Null: not known. */
  end: Cursor | null;
  /** The highest cursor of an event that replay or stream brought with a time before `at`. Null: none. */
  older: Cursor | null;
  /** The lowest cursor of an event that arrived with a time at or after `at`. Null: none. */
  younger: Cursor | null;
}

export type Place = 'new' | 'history' | 'undecided';

/** `live`: 1 if a live stream brought the event as it happened. */
type Placed = Pick<Incoming, 'origin' | 'cursor' | 'createdAt'> & { live?: 0 | 1 };

/** An event that a webhook or a live stream brings first is never history, however old its own time is. */
export function placeOf({ origin, cursor, createdAt, live }: Placed, birth: Birth): Place {
  if ((origin !== 'replay' && origin !== 'stream') || cursor === null || live) return 'new';
  const { reading, end, older, younger } = birth;
  if (end !== null && compareCursors(cursor, end) > 0) return 'new';
  if (createdAt !== null) return createdAt < birth.at ? 'history' : 'new';
  if (end === null && reading === 'none') return 'new';
  if (younger !== null && compareCursors(cursor, younger) >= 0) return 'new';
  if (reading !== 'open') return 'history';
  return older !== null && compareCursors(cursor, older) <= 0 ? 'history' : 'undecided';
}

/** While history is being read, each event with a time narrows the range of cursors in which history ends. */
export function narrow(birth: Birth, events: Incoming[]): Pick<Birth, 'older' | 'younger'> {
  let { older, younger } = birth;
  if (birth.reading !== 'open') return { older, younger };
  for (const { cursor, createdAt, origin } of events) {
    if (cursor === null || createdAt === null || origin === 'kit') continue;
    if (createdAt >= birth.at) younger = younger === null || compareCursors(cursor, younger) < 0 ? cursor : younger;
    else if (origin !== 'webhook') older = older === null || compareCursors(cursor, older) > 0 ? cursor : older;
  }
  return { older, younger };
}

/**
 * Undecided events at or above `newFrom` are newer than the store, as `placeOf` says. Others up to `historyTo` are
 * history.
 */
export function decidedBy({ younger, end, reading, older }: Birth): { newFrom: bigint; historyTo: bigint } {
  const none = 2n ** 63n - 1n;
  const [a, b] = [younger === null ? none : BigInt(younger), end === null ? none : BigInt(end) + 1n];
  return { newFrom: a < b ? a : b, historyTo: reading === 'open' ? BigInt(older ?? -1) : none };
}
