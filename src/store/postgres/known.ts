// The stored events that a batch may be about, as its arrivals change them one after another.
import type { Cursor } from '../../wire/cursor.ts';
import type { Arrival } from '../../wire/event.ts';
import { contradicts, isRemoved, type Known } from '../identity.ts';
import { ORIGINS } from '../rows.ts';

export interface Row extends Known {
  createdAt: number | null;
  deliveries: number;
  /** Null: it was erased, or is not compared. */
  body: Buffer | null;
}

type Judged = { as: 'new' | 'duplicate' | 'removed' } | { as: 'conflict'; of: Row };

/** `added`: rows to insert, whose `seq` is 0. `changed`: rows to update. */
export function createKnown(rows: Row[], floor: Cursor | null) {
  const added: Row[] = [];
  const changed = new Set<Row>();
  const of = new Map<string, Row>();
  function index(row: Row): void {
    if (row.cursor) of.set(`cursor ${row.cursor}`, row);
    if (row.id) of.set(`id ${row.id}`, row);
  }
  rows.forEach(index);

  function judge(event: Arrival): Judged {
    const { origin, cursor, id, type, session, createdAt, body } = event;
    const bit = ORIGINS[origin];
    const byCursor = of.get(`cursor ${cursor}`);
    const byId = id === null ? undefined : of.get(`id ${id}`);
    const known = byCursor ?? byId;
    if (!known) {
      if (isRemoved(event, floor)) return { as: 'removed' };
      const about = { seq: 0, origin: bit, origins: bit, deliveries: 1, erased: 0 as const };
      const row = { ...about, cursor, id, type, session, createdAt, body };
      added.push(row);
      index(row);
      return { as: 'new' };
    }
    if ((byId && byId !== known) || contradicts(event, known, () => known.body?.toString()))
      return { as: 'conflict', of: known };
    // Each pass of replay shows known events again. Nothing is written for these.
    if (origin !== 'webhook' && (known.origins & bit) > 0) return { as: 'duplicate' };
    known.deliveries += Number(origin === 'webhook');
    known.origins |= bit;
    known.cursor ??= cursor;
    known.id ??= id;
    known.session ??= session;
    known.createdAt ??= createdAt;
    index(known);
    if (known.seq > 0) changed.add(known);
    return { as: 'duplicate' };
  }
  return { judge, added, changed };
}
