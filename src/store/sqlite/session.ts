// A connection of SQLite with what the index of ids needs, without waiting.
import type { Statement } from 'better-sqlite3';
import type { StateKey, StateValue } from '../state.ts';
import type { Connection } from './connection.ts';

export type Session = ReturnType<typeof createSession>;

export function createSession(db: Connection, path: string) {
  /** Prepares a statement whose rows are the values of their first column. */
  function valueOf<Result = unknown, Args extends unknown[] = unknown[]>(sql: string): Statement<Args, Result> {
    return db.prepare<Args, Result>(sql).pluck();
  }
  const get = valueOf<StateValue, [string]>('select value from state where name = ?');
  const increment = valueOf<number, [string]>(`
    insert into state values (?, 1) on conflict (name) do update set value = coalesce(value, 0) + 1 returning value`);
  const transaction = db.transaction((work: () => unknown) => work());
  return {
    db,
    path,
    value: valueOf,
    /** BEGIN IMMEDIATE … COMMIT. A transaction that begins as a read could not wait for the write lock. */
    write: <Result>(work: () => Result) => transaction.immediate(work) as Result,
    state: (name: StateKey): StateValue => get.get(name) ?? null,
    /** Adds 1 to a state that is a number, and returns it. An absent state becomes 1. */
    increment: (name: StateKey): number => increment.get(name) ?? 1,
  };
}
