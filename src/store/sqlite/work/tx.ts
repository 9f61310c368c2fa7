// The transaction that a handler writes into: `ctx.complete` and `setup`. It refuses statements that control the
// connection, and writes to the kit's own tables.
import { describe } from '../../../base/errors.ts';
import { NAMES, type Connection } from '../connection.ts';
import type { SqlRow, SqlValue, Tx, Work } from '../../work.ts';

/** Microtasks without a call of `tx`, after which the work waits for something else. */
const MOST_IDLE = 1_000;
/** After the end of the work, helpers that nobody awaited may go on while they call `tx` this often. */
const HELPERS_IDLE = 50;

const ENDED = 'a statement has ended the transaction';

interface State {
  open: boolean;
  /** The number of calls of `tx`. */
  calls: number;
  /** The error of the first failed statement. */
  failed?: { error: unknown };
  /** Reads whose result nobody has awaited, by the name of their method. */
  unread: Map<object, string>;
  /** Set when the work has ended, with its error if it has failed. */
  ended?: { error?: unknown };
}

/**
 * Runs the work, and rejects if it fails, a statement fails, or it awaits anything but `tx`. Microtasks alone may
 * pass: a timer or I/O of this process would run while its connection is in the transaction.
 */
export async function inTransaction(db: Connection, work: Work): Promise<void> {
  const state: State = { open: true, calls: 0, unread: new Map() };
  try {
    Promise.resolve(work(txOf(db, state))).then(
      () => (state.ended = {}),
      (error: unknown) => (state.ended = { error }),
    );
    for (let idle = 0, calls = 0; !state.ended || idle < HELPERS_IDLE; idle++) {
      if (calls !== state.calls) [calls, idle] = [state.calls, 0];
      if (idle > MOST_IDLE)
        throw new Error('only tx may be awaited in ctx.complete and setup: await the rest before it');
      await Promise.resolve();
    }
  } finally {
    state.open = false;
  }
  if ('error' in state.ended) throw state.ended.error;
  if (state.failed) throw state.failed.error;
  for (const name of state.unread.values()) throw new Error(unawaited(name));
  if (!db.inTransaction) throw new Error(ENDED);
}

/** For handlers that were written for a synchronous `tx`. */
function unawaited(name: string): string {
  return `tx.${name} returns a promise: write await tx.${name}(…), in an async function`;
}

/** Statements that would end the transaction or change the connection. */
const STEERING =
  /^(\s|--[^\n]*\n|\/\*.*?\*\/)*(begin|commit|end|rollback|savepoint|release|pragma\s[^;]*[=(]|attach|detach|vacuum|reindex)/is;
/**
 * Finds writes to the kit's tables, and changes of its schema. This prevents mistakes, not malice: a handler can open
 * the file itself.
 */
const OWN = new RegExp(
  String.raw`\b(into|update|update\s+or\s+\w+|delete\s+from|(create|drop|alter)\b[^;]*?\b(table|index|trigger|view|on))(\s+if\s+(not\s+)?exists)?\s+(\w+\s*\.\s*)?(${NAMES.join('|')})\b`,
  'i',
);

/** Without comments and values. A name may stand in quotes of every kind. */
function bare(sql: string): string {
  return sql
    .replaceAll(/--[^\n]*|\/\*.*?\*\//gs, ' ')
    .replaceAll(/'((?:[^']|'')*)'/g, (_, text: string) => (NAMES.includes(text) ? text : "''"))
    .replaceAll(/["`[\]]/g, ' ');
}

function txOf(db: Connection, state: State): Tx {
  function prepare(sql: string) {
    if (!state.open) throw new Error('this transaction has ended: await each statement, or what calls it');
    if (state.failed)
      throw new Error(
        `a failed statement ends the transaction, even if its error is caught: ${describe(state.failed.error).message}`,
      );
    if (!db.inTransaction) throw new Error(ENDED);
    if (STEERING.test(sql))
      throw new Error('a handler neither steers transactions nor the connection: leave this statement out');
    if (OWN.test(bare(sql)))
      throw new Error('the tables of the kit are only read by handlers: write to tables of your own');
    return db.prepare<SqlValue[], SqlRow>(sql).safeIntegers();
  }

  /** The statement runs at once, so statements keep their order even if nobody awaits them. */
  function promise<Result>(name: keyof Tx, statement: () => Result): Promise<Result> {
    state.calls++;
    let result: Promise<Result>;
    try {
      result = Promise.resolve(statement());
    } catch (error) {
      state.failed ??= { error };
      result = Promise.reject(error);
      result.catch(() => {});
    }
    if (name !== 'run') state.unread.set(result, name);
    return new Proxy(result, {
      get(target, key) {
        if (key === 'then') state.unread.delete(result);
        const value: unknown = Reflect.get(target, key, target);
        if (typeof value === 'function') return value.bind(target) as unknown;
        if (typeof key === 'string' || key === Symbol.iterator) throw new Error(unawaited(name));
        return value;
      },
    });
  }

  return {
    run: (sql, ...values) => promise('run', () => ({ changes: prepare(sql).run(...values).changes })),
    get: (sql, ...values) => promise('get', () => rounded(prepare(sql).get(...values))),
    all: (sql, ...values) =>
      promise('all', () =>
        prepare(sql)
          .all(...values)
          .map(rounded),
      ),
  };
}

/** Integers are numbers where these are exact, and bigints beyond. */
function rounded<Row extends SqlRow | undefined>(row: Row): Row {
  for (const [name, value] of Object.entries(row ?? {}))
    if (row && typeof value === 'bigint' && Number.isSafeInteger(Number(value))) row[name] = Number(value);
  return row;
}

/** The rows of one `select`. */
export function selected(db: Connection, sql: string, values: SqlValue[]): SqlRow[] {
  const statement = STEERING.test(sql) ? undefined : db.prepare<SqlValue[], SqlRow>(sql);
  if (!statement?.reader || !statement.readonly)
    throw new Error('ctx.read takes one select and changes nothing: write in ctx.complete');
  return statement
    .safeIntegers()
    .all(...values)
    .map(rounded);
}
