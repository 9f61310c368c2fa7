// How events are read from their rows.
import type { Cursor } from '../wire/cursor.ts';
import type { Origin } from '../wire/event.ts';
import type { Sql } from './sql.ts';
import type { StoredEvent } from './work.ts';

/** The bit of each origin. A row's `origin` is the first one, its `origins` are all of them. */
export const ORIGINS: Record<Origin, number> = { webhook: 1, replay: 2, stream: 4, kit: 8 };
const NAMES = new Map(Object.entries(ORIGINS).map(([name, bit]) => [bit, name as Origin]));
export const originOf = (bit: number): Origin => NAMES.get(bit) ?? 'webhook';

export interface EventRow extends Omit<StoredEvent, 'origin' | 'cursor' | 'body'> {
  cursor: Cursor | null;
  origin: number;
  body: string | Buffer | null;
}

const COLUMNS = `e.seq, cast(e.cursor as text) as cursor, e.id, e.type, e.session, e.created_at as "createdAt",
  e.received_at as "receivedAt", e.origin`;
/** On SQLite, a body is read faster as text. */
export const EVENT = `${COLUMNS}, cast(e.body as text) as body`;
const EVENTS = `select ${COLUMNS}, e.body from events e
  where e.seq in (select cast(value as bigint) from json_each(@seqs))`;

export const toEvent = (row: EventRow): StoredEvent => ({
  ...row,
  origin: originOf(row.origin),
  body: row.body?.toString() ?? null,
});

/** The events with these numbers, in this order. Those that were removed are left out. */
export async function eventsOf(sql: Sql, seqs: number[]): Promise<StoredEvent[]> {
  const rows = await sql.all<EventRow>(EVENTS, { seqs: JSON.stringify(seqs) });
  const known = new Map(rows.map((row) => [row.seq, toEvent(row)]));
  return seqs.flatMap((seq) => known.get(seq) ?? []);
}

/** Events that a handler takes up in one turn. */
export const PAGE = 256;
const PAGE_BYTES = 2 ** 20;

/** Reads rows until their bodies have about a mebibyte. `isWhole`: there were fewer rows than `limit`. */
export function pageOf(rows: Iterable<EventRow>, limit: number): { events: StoredEvent[]; isWhole: boolean } {
  const events: StoredEvent[] = [];
  let bytes = 0;
  for (const row of rows) {
    events.push(toEvent(row));
    bytes += row.body?.length ?? 0;
    if (bytes > PAGE_BYTES) return { events, isWhole: false };
  }
  return { events, isWhole: events.length < limit };
}

/** The `seq`s of the same page, found by the sizes of the bodies before these are read. */
export function seqsOf(rows: { seq: number; bytes: number }[]): number[] {
  let bytes = 0;
  const last = rows.findIndex((row) => (bytes += row.bytes) > PAGE_BYTES);
  return rows.slice(0, last < 0 ? rows.length : last + 1).map(({ seq }) => seq);
}
