// What existed before this store is history: only handlers that ask for it are given it. Told from an event's own time;
// one without a time lies where its neighbours lie, which may be known only later.
import { compareCursors, type Cursor } from '../wire/cursor.ts';
import type { Origin } from '../wire/event.ts';

export interface Birth {
  /** When this store was created, Unix milliseconds. */
  at: number;
  /** `open`: REPLAY_FROM asks for history, and reading it, or one overlap after that, is not over. */
  reading: 'none' | 'open' | 'over';
  /** What lies behind it came after the store was there; null: not known yet, or nobody asked for history. */
  end: Cursor | null;
  /** The highest cursor that replay has shown with a time before the birth. */
  older: Cursor | null;
  /** The lowest cursor with a time after the birth. */
  younger: Cursor | null;
}

export type Place = 'new' | 'history' | 'undecided';

interface Placed {
  origin: Origin;
  cursor: Cursor | null;
  /** Unix milliseconds. */
  createdAt: number | null;
  /** 1: a live stream brought it, as it happened. */
  live?: 0 | 1;
}

/** What a webhook or a live stream brings first is never history, however old it says that it is. */
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
