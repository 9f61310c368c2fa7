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

export class KnownRows {
  /** Rows to insert, whose `seq` is 0, and rows to update. */
  readonly added: Row[] = [];
  readonly changed = new Set<Row>();
  readonly #floor: Cursor | null;
  readonly #of = new Map<string, Row>();

  constructor(rows: Row[], floor: Cursor | null) {
    this.#floor = floor;
    for (const row of rows) this.#index(row);
  }

  judge(event: Arrival): Judged {
    const { origin, cursor, id, session, createdAt } = event;
    const byCursor = this.#of.get(`cursor ${cursor}`);
    const byId = this.#of.get(`id ${id}`);
    const known = byCursor ?? byId;
    if (!known) return { as: this.#add(event) };
    if ((byId && byId !== known) || contradicts(event, known, () => known.body?.toString()))
      return { as: 'conflict', of: known };
    const bit = ORIGINS[origin];
    // Each pass of replay shows known events again. Nothing is written for these.
    if (origin !== 'webhook' && (known.origins & bit) > 0) return { as: 'duplicate' };
    known.deliveries += Number(origin === 'webhook');
    known.origins |= bit;
    known.cursor ??= cursor;
    known.id ??= id;
    known.session ??= session;
    known.createdAt ??= createdAt;
    this.#index(known);
    if (known.seq > 0) this.changed.add(known);
    return { as: 'duplicate' };
  }

  #add(event: Arrival): 'new' | 'removed' {
    if (isRemoved(event, this.#floor)) return 'removed';
    const { origin, cursor, id, type, session, createdAt, body } = event;
    const bit = ORIGINS[origin];
    const about = { seq: 0, origin: bit, origins: bit, deliveries: 1, erased: 0 as const };
    const row = { ...about, cursor, id, type, session, createdAt, body };
    this.added.push(row);
    this.#index(row);
    return 'new';
  }

  #index(row: Row): void {
    if (row.cursor) this.#of.set(`cursor ${row.cursor}`, row);
    if (row.id) this.#of.set(`id ${row.id}`, row);
  }
}
