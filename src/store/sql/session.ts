// What the roles of the store need of a database. The roles are written once, in SQL that SQLite and PostgreSQL both
// understand. `Dialect` holds what differs.
import { iso } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import { OWN_STATE } from '../health.ts';
import type { Counts, StateKey, StateValue } from '../state.ts';
import type { StoreError } from '../store.ts';
import type { SqlRow, SqlValue, StoredEvent } from '../work.ts';

/** Values are bound to each `?` in order, or one object to `@name`. Arrays are for `Dialect.oneOf` alone. */
export interface Statement<Row> {
  all(...values: unknown[]): Promise<Row[]>;
  get(...values: unknown[]): Promise<Row | undefined>;
  /** Returns the number of changed rows. */
  run(...values: unknown[]): Promise<number>;
}

export type ColumnType = 'bigint' | 'text' | 'bytea';

/** Inserts any number of rows. A row has the values of `columns`, in their order. */
export interface Insert {
  into: string;
  columns: Record<string, ColumnType>;
  /** `on conflict …`; the new row is `excluded`. */
  conflict?: string;
}

export interface Dialect {
  kind: 'sqlite' | 'postgres';
  /** The names of the functions that return the larger and the smaller of two values. Neither may be null. */
  max: string;
  min: string;
  /** A condition after a column: its value is in the array of the parameter. */
  oneOf: (parameter: string, type: 'bigint' | 'text') => string;
  /** A table named `chosen`, whose column `value` has the numbers of the array of the parameter. */
  listOf: (parameter: string) => string;
  /** Follows a table: SQLite then uses this index. */
  indexedBy: (index: string) => string;
  /** A condition: the bytes of the column contain those of the parameter. */
  contains: (column: string, parameter: string) => string;
  /** A query of the numbers of events that may have the id of the parameter. */
  eventsWithId: (parameter: string) => string;
  /** A condition on `handlers`: the handler keeps its place although this process has not loaded it. */
  mayReturn: string;
  /** The columns of StoredEvent that handlers need besides EVENT_COLUMNS, in queries of `events e`. See `toStored`. */
  eventText: string;
}

/**
 * What else a transaction excludes while it is open. SQLite excludes every other write anyway. `work`: no turn, and no
 * other change of tasks. `turn`: no change of tasks by others. `door`: nothing is accepted meanwhile. `lead`: this
 * instance leads until the end, else the transaction fails with StoreError `standby`.
 */
export type Lock = 'work' | 'turn' | 'door' | 'lead';

/** How handlers reach tables of their own. Integers that a number cannot hold exactly are bigints. */
export interface OwnTables {
  kind: Dialect['kind'];
  run(sql: string, values: SqlValue[]): Promise<number>;
  all(sql: string, values: SqlValue[]): Promise<SqlRow[]>;
  /** The rows of one `select`. Throws if the statement could change anything. */
  select(sql: string, values: SqlValue[]): Promise<SqlRow[]>;
  /** Whether a statement, without its comments and values, changes tables of the kit. */
  isKits(sql: string): boolean;
  /** Names of the kit's tables, where a handler's table cannot have the same name. */
  names: string[];
  /** Resolves when a promise that waits for the transaction alone has gone on. */
  tick(): Promise<void>;
  /** Ticks without a statement, after which the work waits for something else. `after`: the same when it has ended. */
  idle: { most: number; after: number };
}

export interface Database {
  /** The number of the instance that this process belongs to. 0: none, or an SQLite store. */
  instance: () => number;
  /** Whether this instance leads, and will until the end of the transaction. */
  leads: () => Promise<boolean>;
  /** The numbers of the instances that give signs of life. */
  living: () => Promise<number[]>;
  /** The name of the store in errors. */
  readonly path: string;
  readonly dialect: Dialect;
  statement: <Row = object>(sql: string) => Statement<Row>;
  /** Its rows are the values of the first column. */
  value: <Result = unknown>(sql: string) => Statement<Result>;
  /** Returns the number of rows that were written. */
  insertAll: (insert: Insert) => (rows: unknown[][]) => Promise<number>;
  /** One transaction. Within another one, a savepoint. The work may await nothing but the database. */
  write: <Result>(work: () => Promise<Result>, ...locks: Lock[]) => Promise<Result>;
  inTransaction: () => boolean;
  own: OwnTables;
  /** Undefined: the store is not at fault, but for example the values of a statement. */
  faultOf: (error: unknown) => StoreError | undefined;
  /** The code of an error of the database. It holds no value of a statement. */
  codeOf: (error: unknown) => string;
}

export type Session = ReturnType<typeof createSession>;

export function createSession(db: Database) {
  // A counter stops at the largest exact integer.
  const add = db.insertAll({
    into: 'counters',
    columns: { name: 'text', value: 'bigint' },
    conflict: `on conflict (name) do update
      set value = ${db.dialect.min}(counters.value + excluded.value, ${Number.MAX_SAFE_INTEGER})`,
  });
  const get = db.value<StateValue>('select value from state where name = ?');
  const getText = db.value<Cursor | null>('select cast(value as text) from state where name = ?');
  const set = db.statement('insert into state values (?, ?) on conflict (name) do update set value = excluded.value');
  const increment = db.value<StateValue>(`
    insert into state values (?, 1)
    on conflict (name) do update set value = coalesce(cast(state.value as bigint), 0) + 1 returning value`);
  const cursorState = async (name: StateKey): Promise<Cursor | null> => (await getText.get(name)) ?? null;
  /** An instance keeps delivery health for itself. */
  const keyOf = (name: string): string =>
    OWN_STATE.has(name) && db.instance() > 0 ? `${name}@${db.instance()}` : name;
  return {
    ...db,
    count: async (counts: Counts): Promise<void> => {
      const rows = Object.entries(counts).filter(([, value]) => value);
      if (rows.length > 0) await add(rows.toSorted(([a], [b]) => (a < b ? -1 : 1)));
    },
    state: async (name: StateKey): Promise<StateValue> => (await get.get(name)) ?? null,
    /** A state that is a cursor, as an exact decimal. */
    cursorState,
    /** Adds 1 to a state that is a number, and returns it. An absent state becomes 1. */
    increment: async (name: StateKey): Promise<number> => Number(await increment.get(name)),
    /**
     * An unknown event at or below the floor counts as pruned. The floor is never above the watermark; without a
     * watermark there is none.
     */
    async floor(watermark?: Cursor | null): Promise<bigint | null> {
      const top = watermark === undefined ? await cursorState('watermark') : watermark;
      const pruned = await cursorState('pruned_to');
      if (pruned === null || top === null) return null;
      return BigInt(pruned) < BigInt(top) ? BigInt(pruned) : BigInt(top);
    },
    keyOf,
    async setState(name: StateKey, value: StateValue): Promise<void> {
      // The column has no type, so SQLite would store a number as a float.
      await set.run(keyOf(name), typeof value === 'number' ? BigInt(value) : value);
    },
  };
}

/**
 * Sends what does not wait for each other together: each wait costs a way to the server and back. After a failure the
 * others end before the rollback, so that they are in the transaction. The first failure is thrown, as it causes others.
 */
export async function together<Parts extends readonly unknown[]>(
  ...parts: Parts
): Promise<{ -readonly [Part in keyof Parts]: Awaited<Parts[Part]> }> {
  const all = Promise.all(parts);
  return all.catch(() => Promise.allSettled(parts)).then(() => all);
}

/** SQL for an event's key, for queries of `events e`. If two events share a cursor, the second is named by id. */
export const EVENT_KEY = `case when e.cursor is null or e.conflicting = 1 then 'i:' || e.id else 'c:' || e.cursor end as key`;

/** The columns of StoredEvent except `text` and `live`, in queries of `events e`. */
export const EVENT_COLUMNS = `e.seq, ${EVENT_KEY}, e.id, cast(e.cursor as text) as cursor, e.type, e.session_id as "sessionId",
  e.created_at as "createdAt", e.received_at as "receivedAt", e.origin`;

/** A row of EVENT_COLUMNS and `Dialect.eventText`. Only SQLite reads the body as text, which is cheaper than bytes. */
export type EventRow = Omit<StoredEvent, 'text'> & { text: string | Buffer | null };

export function toStored(row: EventRow): StoredEvent {
  return typeof row.text === 'object' && row.text !== null
    ? { ...row, text: row.text.toString() }
    : (row as StoredEvent);
}

/** ISO 8601 of a time that is never null. */
export function isoOf(ms: number): string {
  return iso(ms) ?? String(ms);
}

/** A cursor as an exact integer. */
export function bind(cursor: string | null): bigint | null {
  return cursor === null ? null : BigInt(cursor);
}
