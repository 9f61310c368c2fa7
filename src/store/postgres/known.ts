// Which stored event an arrival is: the same decisions as ../sqlite/ingest.ts, over the rows that a batch may be about. What
// they change is written afterwards, for all at once.
import { isDeepStrictEqual } from 'node:util';
import { isBehind, type Cursor } from '../../wire/cursor.ts';
import { dataOf, type Arrival } from '../../wire/event.ts';
import { ORIGINS, originOf } from '../sqlite/rows.ts';

export interface Row {
  /** 0: it is new. */
  seq: number;
  cursor: Cursor | null;
  id: string | null;
  type: string;
  session: string | null;
  createdAt: number | null;
  origin: number;
  origins: number;
  deliveries: number;
  isErased: 0 | 1;
  /** Null: it was erased, or is not compared. */
  body: Buffer | null;
}

export type Judged = { as: 'new' | 'duplicate' | 'removed' } | { as: 'conflict'; of: Row };

export class Known {
  readonly added: Row[] = [];
  readonly changed = new Set<Row>();
  readonly #floor: Cursor | null;
  readonly #byCursor = new Map<string, Row>();
  readonly #byId = new Map<string, Row>();

  constructor(rows: Row[], floor: Cursor | null) {
    this.#floor = floor;
    for (const row of rows) this.#index(row);
  }

  judge(event: Arrival): Judged {
    const { origin, cursor, id, session, createdAt } = event;
    const byCursor = cursor === null ? undefined : this.#byCursor.get(cursor);
    const byId = id === null ? undefined : this.#byId.get(id);
    const known = byCursor ?? byId;
    if (!known) return { as: this.#add(event) };
    if ((byId && byId !== known) || contradicts(event, known)) return { as: 'conflict', of: known };
    const bit = ORIGINS[origin];
    // Each pass of replay shows known events again, and then changes nothing.
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

  #add({ origin, cursor, id, type, session, createdAt, body }: Arrival): 'new' | 'removed' {
    // Only replay and the stream show events as old as that. A webhook is never taken for one that was removed.
    const isReplayed = origin === 'replay' || origin === 'stream';
    if (isReplayed && cursor !== null && this.#floor !== null && !isBehind(this.#floor, cursor)) return 'removed';
    const bit = ORIGINS[origin];
    const row = { seq: 0, cursor, id, type, session, createdAt, origin: bit, origins: bit, deliveries: 1, body };
    this.added.push({ ...row, isErased: 0 });
    this.#index(this.added.at(-1));
    return 'new';
  }

  #index(row?: Row): void {
    if (row?.cursor) this.#byCursor.set(row.cursor, row);
    if (row?.id) this.#byId.set(row.id, row);
  }
}

/** Null contradicts nothing. Two webhooks of one event hold equal data, because each was told it under an id. */
function contradicts(event: Arrival, known: Row): boolean {
  if (known.isErased === 1) return false;
  const differ = (a: string | null, b: string | null): boolean => a !== null && b !== null && a !== b;
  if (event.type !== known.type || differ(event.session, known.session) || differ(event.cursor, known.cursor))
    return true;
  return event.id !== null && known.id !== null && !isSame(event, known);
}

function isSame({ origin, type, body }: Arrival, known: Row): boolean {
  const [text, stored] = [body.toString(), known.body?.toString() ?? ''];
  if (text === stored) return true;
  return isDeepStrictEqual(dataOf(origin, type, text), dataOf(originOf(known.origin), type, stored));
}
