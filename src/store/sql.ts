// SQL that SQLite and PostgreSQL both know, for what is written once for both. Values are named: `@name`. A cursor is
// read as `cast(cursor as text)`, and given as `cast(@cursor as bigint)`.
import type { Counts } from './store.ts';
import type { SqlRow, SqlValue } from './work.ts';

/** A value is a buffer, a number, text or null. Undefined counts as null. */
export type Values = Record<string, unknown>;

export interface Sql {
  readonly dialect: 'sqlite' | 'postgres';
  all<Row>(text: string, values?: Values): Promise<Row[]>;
  get<Row>(text: string, values?: Values): Promise<Row | undefined>;
  /** Resolves with the number of rows that it changed. */
  run(text: string, values?: Values): Promise<number>;
}

/** An open transaction that writes. */
export interface Change extends Sql {
  /** Until it ends, no other transaction changes these lanes or locks this name. Lock lanes before changing tasks. */
  lock(what: Iterable<number> | string): Promise<void>;
  /** Call it after every change to the waiting tasks of lanes. */
  touch(lanes: Iterable<number>): Promise<void>;
  count(counts: Counts): Promise<void>;
  /** On PostgreSQL, the commit is sent without waiting for the answer. If the statement fails, so does the transaction. */
  last(text: string, values?: Values): Promise<unknown> | void;
  /** Sets a value in the table `state`. */
  set(name: string, value: unknown): Promise<void>;
  /** A statement of the user. Throws if it has ended the transaction. */
  user(sql: string, values: SqlValue[]): Promise<{ rows: SqlRow[]; changes: number }>;
}

export interface Database extends Sql {
  /**
   * One transaction. It is on disk when the promise resolves. On PostgreSQL, `work` runs again if another transaction was in
   * its way, but not if it may run only `once`.
   */
  write<Result>(work: (tx: Change) => Promise<Result>, times?: 'once'): Promise<Result>;
  /** Reads in one snapshot. */
  read<Result>(work: (tx: Sql) => Promise<Result>): Promise<Result>;
}

/** The value that `set` has written. Null: none. */
export async function stateOf<Value>(sql: Sql, name: string): Promise<Value | null> {
  const row = await sql.get<{ value: string }>('select value from state where name = @name', { name });
  return JSON.parse(row?.value ?? 'null') as Value | null;
}
