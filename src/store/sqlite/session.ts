// What the parts of the SQLite store share: the connection, the transaction, the counters, and rows as our types.
import { iso } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { Counts, StateKey, StateValue } from '../ingest.ts';
import type { Connection } from './connection.ts';

/** The synchronous form of a part of the store; `openSqlite` awaits and guards every method alike. */
export type Sync<Part> = {
  [Name in keyof Part]: Part[Name] extends (...args: infer Args) => Promise<infer Result>
    ? (...args: Args) => Result
    : Part[Name];
};

export interface Session {
  db: Connection;
  path: string;
  /** What this connection was opened with. */
  synchronous: 'FULL' | 'NORMAL';
  /** BEGIN IMMEDIATE … COMMIT: a read that becomes a write could not wait for its lock. */
  write<Result>(work: () => Result): Result;
  count(counts: Counts): void;
  state(name: StateKey): StateValue;
  /** A value that is a cursor, exact. */
  cursorState(name: StateKey): Cursor | null;
  setState(name: StateKey, value: StateValue): void;
  /** At or below it, what is unknown was here and was pruned: never above the watermark, and none without one. */
  floor(watermark?: Cursor | null): bigint | null;
}

export function createSession(db: Connection, path: string, synchronous: Session['synchronous']): Session {
  // A figure that cannot be read exactly any more stays where it is.
  const add = db.prepare(`
    insert into counters values (?, ?)
    on conflict (name) do update set value = min(value + excluded.value, ${Number.MAX_SAFE_INTEGER})`);
  const get = db.prepare<[string], StateValue>('select value from state where name = ?').pluck();
  const getText = db.prepare<[string], Cursor | null>('select cast(value as text) from state where name = ?').pluck();
  const set = db.prepare('insert into state values (?, ?) on conflict (name) do update set value = excluded.value');
  const transaction = db.transaction((work: () => unknown) => work());
  const cursorState = (name: StateKey): Cursor | null => getText.get(name) ?? null;
  return {
    db,
    path,
    synchronous,
    write: <Result>(work: () => Result) => transaction.immediate(work) as Result,
    count(counts) {
      for (const [name, value] of Object.entries(counts)) if (value) add.run(name, value);
    },
    state: (name) => get.get(name) ?? null,
    cursorState,
    floor(watermark = cursorState('watermark')) {
      const pruned = cursorState('pruned_to');
      if (pruned === null || watermark === null) return null;
      return BigInt(pruned) < BigInt(watermark) ? BigInt(pruned) : BigInt(watermark);
    },
    setState(name, value) {
      // A column of any type would keep a number as a float.
      set.run(name, typeof value === 'number' ? BigInt(value) : value);
    },
  };
}

/** What an event is called by, for `events e`: the second of one cursor goes by its id. */
export const EVENT_KEY = `case when e.cursor is null or e.conflicting then 'i:' || e.id else 'c:' || e.cursor end as key`;

/** The columns of StoredEvent, for `events e`, but for its text. */
export const EVENT_COLUMNS = `e.seq, ${EVENT_KEY}, e.id, cast(e.cursor as text) as cursor, e.type, e.session_id as sessionId,
  e.created_at as createdAt, e.received_at as receivedAt, e.origin`;

/** What handlers need besides; the body as a string, which is cheaper to hand over, and what is parsed in the end. */
export const EVENT_TEXT = 'cast(e.body as text) as text, e.live';

/** For times that are always there. */
export function isoOf(ms: number): string {
  return iso(ms) ?? String(ms);
}
