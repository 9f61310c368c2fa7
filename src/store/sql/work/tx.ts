// The transaction that a handler writes into: `ctx.complete` and `setup`. It refuses statements that control the
// connection, and writes to the kit's own tables.
import { describe, noteCaller } from '../../../base/errors.ts';
import type { SqlRow, SqlValue, Tx, Work } from '../../work.ts';
import type { Database, OwnTables } from '../session.ts';

const ENDED = 'a statement has ended the transaction';

/** The open transaction of a database. */
type Opened = Pick<Database, 'own' | 'inTransaction'>;

interface State {
  open: boolean;
  /** The number of calls of `tx`, and of those whose statement has not ended. */
  calls: number;
  running: number;
  /** Resolves when the last statement so far has ended. */
  latest?: Promise<unknown>;
  /** The error of the first failed statement. */
  failed?: { error: unknown };
  /** Reads whose result nobody has awaited, by the name of their method. */
  unread: Map<object, string>;
  /** Set when the work has ended, with its error if it has failed. */
  ended?: { error?: unknown };
}

/** Runs the work, and rejects if it fails, a statement fails, or it awaits anything but `tx`. */
export async function inTransaction({ own, inTransaction: isOpen }: Opened, work: Work): Promise<void> {
  const state: State = { open: true, calls: 0, running: 0, unread: new Map() };
  try {
    Promise.resolve(work(txOf({ own, inTransaction: isOpen }, state))).then(
      () => (state.ended = {}),
      (error: unknown) => (state.ended = { error }),
    );
    // Helpers that nobody awaited may go on for a while after the end of the work.
    for (let idle = 0, calls = 0; !state.ended || state.running > 0 || idle < own.idle.after; idle++) {
      if (calls !== state.calls || state.running > 0) [calls, idle] = [state.calls, 0];
      if (idle > own.idle.most)
        throw new Error('only tx may be awaited in ctx.complete and setup: await the rest before it');
      await (state.running > 0 ? state.latest : own.tick());
    }
  } finally {
    state.open = false;
  }
  if ('error' in state.ended) throw state.ended.error;
  if (state.failed) throw state.failed.error;
  for (const name of state.unread.values()) throw new Error(unawaited(name));
  if (!isOpen()) throw new Error(ENDED);
}

/** For handlers that were written for a synchronous `tx`. */
function unawaited(name: string): string {
  return `tx.${name} returns a promise: write await tx.${name}(…), in an async function`;
}

/** Statements that would end the transaction or change the connection. */
const STEERING =
  /^(\s|--[^\n]*\n|\/\*.*?\*\/)*(begin|commit|end|rollback|savepoint|release|pragma\s[^;]*[=(]|attach|detach|vacuum|reindex)/is;
/** Without comments and values. A name may stand in quotes of every kind. */
function bare(sql: string, names: string[]): string {
  return sql
    .replaceAll(/--[^\n]*|\/\*.*?\*\//gs, ' ')
    .replaceAll(/'((?:[^']|'')*)'/g, (_, text: string) => (names.includes(text) ? text : "''"))
    .replaceAll(/["`[\]]/g, ' ');
}

/**
 * Finds writes to tables with these names, and changes of their schema. This prevents mistakes, not malice: a handler can
 * open the store itself.
 */
export function changesOf(names: string): RegExp {
  return new RegExp(
    String.raw`\b(into|update|update\s+or\s+\w+|delete\s+from|(create|drop|alter)\b[^;]*?\b(table|index|trigger|view|on))(\s+if\s+(not\s+)?exists)?\s+${names}\b`,
    'i',
  );
}

function txOf({ own, inTransaction: isOpen }: Opened, state: State): Tx {
  function check(sql: string): void {
    if (!state.open) throw new Error('this transaction has ended: await each statement, or what calls it');
    if (state.failed)
      throw new Error(
        `a failed statement ends the transaction, even if its error is caught: ${describe(state.failed.error).message}`,
      );
    if (!isOpen()) throw new Error(ENDED);
    if (STEERING.test(sql))
      throw new Error('a handler neither steers transactions nor the connection: leave this statement out');
    if (own.isKits(bare(sql, own.names)))
      throw new Error('the tables of the kit are only read by handlers: write to tables of your own');
  }

  /** The statement runs at once, so statements keep their order even if nobody awaits them. */
  function promise<Result>(name: keyof Tx, sql: string, statement: () => Promise<Result>): Promise<Result> {
    state.calls++;
    state.running++;
    // An error of SQLite has the stack of this call, one of a server is created later.
    const called = own.kind === 'sqlite' ? undefined : new Error('called here');
    const result = (async () => {
      try {
        check(sql);
        return await statement();
      } catch (error) {
        state.failed ??= { error };
        noteCaller(error, called?.stack);
        throw error;
      } finally {
        state.running--;
      }
    })();
    state.latest = result.catch(() => {});
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
    dialect: own.kind,
    run: (sql, ...values) => promise('run', sql, async () => ({ changes: await own.run(sql, values) })),
    get: (sql, ...values) => promise('get', sql, async () => rounded((await own.all(sql, values))[0])),
    all: (sql, ...values) => promise('all', sql, async () => (await own.all(sql, values)).map(rounded)),
  };
}

/** Integers are numbers where these are exact, and bigints beyond. */
function rounded<Row extends SqlRow | undefined>(row: Row): Row {
  for (const [name, value] of Object.entries(row ?? {}))
    if (row && typeof value === 'bigint' && Number.isSafeInteger(Number(value))) row[name] = Number(value);
  return row;
}

/** The rows of one `select`. */
export async function selected(own: OwnTables, sql: string, values: SqlValue[]): Promise<SqlRow[]> {
  if (STEERING.test(sql)) throw new Error(READS);
  return (await own.select(sql, values)).map(rounded);
}

export const READS = 'ctx.read takes one select and changes nothing: write in ctx.complete';
