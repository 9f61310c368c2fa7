// Shared by the parts of the SQLite store: connection, transaction, counters, state, and columns of events.
import type { Statement } from 'better-sqlite3';
import { iso } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { Counts, StateKey, StateValue } from '../state.ts';
import type { Connection } from './connection.ts';

/** The synchronous form of a part. `openSqlite` makes methods asynchronous and turns faults into StoreError. */
export type Sync<Part> = {
  [Name in keyof Part]: Part[Name] extends (...args: infer Args) => Promise<infer Result>
    ? (...args: Args) => Result
    : Part[Name];
};

export type Session = ReturnType<typeof createSession>;

export function createSession(db: Connection, path: string) {
  // A counter stops at the largest exact integer.
  const add = db.prepare(`
    insert into counters values (?, ?)
    on conflict (name) do update set value = min(value + excluded.value, ${Number.MAX_SAFE_INTEGER})`);
  /** Prepares a statement whose rows are the values of their first column. */
  function valueOf<Result = unknown, Args extends unknown[] = unknown[]>(sql: string): Statement<Args, Result> {
    return db.prepare<Args, Result>(sql).pluck();
  }
  const get = valueOf<StateValue, [string]>('select value from state where name = ?');
  const getText = valueOf<Cursor | null, [string]>('select cast(value as text) from state where name = ?');
  const set = db.prepare('insert into state values (?, ?) on conflict (name) do update set value = excluded.value');
  const increment = valueOf<number, [string]>(`
    insert into state values (?, 1) on conflict (name) do update set value = coalesce(value, 0) + 1 returning value`);
  const transaction = db.transaction((work: () => unknown) => work());
  const [begin, commit, rollback] = [db.prepare('begin immediate'), db.prepare('commit'), db.prepare('rollback')];
  const cursorState = (name: StateKey): Cursor | null => getText.get(name) ?? null;
  return {
    db,
    path,
    value: valueOf,
    /** BEGIN IMMEDIATE … COMMIT. A transaction that begins as a read could not wait for the write lock. */
    write: <Result>(work: () => Result) => transaction.immediate(work) as Result,
    /** The same for asynchronous work, which must end before the next timer or I/O of this process. */
    async writeAsync<Result>(work: () => Promise<Result>): Promise<Result> {
      begin.run();
      try {
        const result = await work();
        commit.run();
        return result;
      } finally {
        if (db.inTransaction) rollback.run();
      }
    },
    count(counts: Counts): void {
      for (const [name, value] of Object.entries(counts)) if (value) add.run(name, value);
    },
    state: (name: StateKey): StateValue => get.get(name) ?? null,
    /** A state that is a cursor, as an exact decimal. */
    cursorState,
    /** Adds 1 to a state that is a number, and returns it. An absent state becomes 1. */
    increment: (name: StateKey): number => increment.get(name) ?? 1,
    /**
     * An unknown event at or below the floor counts as pruned. The floor is never above the watermark; without a
     * watermark there is none.
     */
    floor(watermark = cursorState('watermark')): bigint | null {
      const pruned = cursorState('pruned_to');
      if (pruned === null || watermark === null) return null;
      return BigInt(pruned) < BigInt(watermark) ? BigInt(pruned) : BigInt(watermark);
    },
    setState(name: StateKey, value: StateValue): void {
      // The column has no type, so SQLite would store a number as a float.
      set.run(name, typeof value === 'number' ? BigInt(value) : value);
    },
  };
}

/** SQL for an event's key, for queries of `events e`. If two events share a cursor, the second is named by id. */
export const EVENT_KEY = `case when e.cursor is null or e.conflicting then 'i:' || e.id else 'c:' || e.cursor end as key`;

/** The columns of StoredEvent except `text` and `live`, in queries of `events e`. */
export const EVENT_COLUMNS = `e.seq, ${EVENT_KEY}, e.id, cast(e.cursor as text) as cursor, e.type, e.session_id as sessionId,
  e.created_at as createdAt, e.received_at as receivedAt, e.origin`;

/** Further columns that handlers need. The body is read as text, which is cheaper to pass on than bytes. */
export const EVENT_TEXT = 'cast(e.body as text) as text, e.live';

/** ISO 8601 of a time that is never null. */
export function isoOf(ms: number): string {
  return iso(ms) ?? String(ms);
}

/** A cursor as an exact integer for SQLite. */
export function bind(cursor: string | null): bigint | null {
  return cursor === null ? null : BigInt(cursor);
}
