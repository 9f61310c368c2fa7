// SQL for people, history and upkeep, in words that both dialects know. Values are named: `@name`. Cursors are
// `cast(cursor as text)` outwards, and `cast(@cursor as bigint)` inwards.
import type { Counts } from './store.ts';

/** Buffers, numbers, text, null; undefined is null. */
export type Values = Record<string, unknown>;

export interface Sql {
  readonly dialect: 'sqlite' | 'postgres';
  all<Row>(text: string, values?: Values): Promise<Row[]>;
  get<Row>(text: string, values?: Values): Promise<Row | undefined>;
  /** Resolves with how many rows it changed. */
  run(text: string, values?: Values): Promise<number>;
}

/** An open transaction that writes. */
export interface Change extends Sql {
  /** Call it after every change to the waiting tasks of lanes. */
  touch(lanes: Iterable<number>): Promise<void>;
  count(counts: Counts): Promise<void>;
  /** Leaves a word in the table `state`. */
  set(name: string, value: unknown): Promise<void>;
}

export interface Database extends Sql {
  /** One transaction, on disk when it resolves. */
  write<Result>(work: (tx: Change) => Promise<Result>): Promise<Result>;
  /** One snapshot. */
  read<Result>(work: (tx: Sql) => Promise<Result>): Promise<Result>;
}

/** What `set` has left. */
export async function stateOf<Value>(sql: Sql, name: string): Promise<Value | null> {
  const row = await sql.get<{ value: string }>('select value from state where name = @name', { name });
  return JSON.parse(row?.value ?? 'null') as Value | null;
}
