// The transaction that a handler writes into: `ctx.complete` and `setup`. It refuses statements that control the
// connection, and writes to the kit's own tables.
import { NAMES } from '../connection.ts';
import type { SqlRow, SqlValue, Tx } from '../../work.ts';
import type { Session } from '../session.ts';

/** Runs the work, which must not be async, because a promise would write after the commit. */
export function inTransaction(session: Session, work: (tx: Tx) => unknown): void {
  const open = { yes: true };
  try {
    const made = work(txOf(session, open)) as { then?: unknown } | undefined;
    if (typeof made?.then === 'function') throw new Error('writes must be synchronous: the function must not be async');
    if (!session.db.inTransaction) throw new Error('a statement has ended the transaction');
  } finally {
    open.yes = false;
  }
}

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

function txOf({ db }: Session, open: { yes: boolean }): Tx {
  function prepare(sql: string) {
    if (!open.yes) throw new Error('this transaction has ended');
    if (STEERING.test(sql))
      throw new Error('a handler neither steers transactions nor the connection: leave this statement out');
    if (OWN.test(bare(sql)))
      throw new Error('the tables of the kit are only read by handlers: write to tables of your own');
    return db.prepare<SqlValue[], SqlRow>(sql);
  }
  return {
    run: (sql, ...values) => ({ changes: prepare(sql).run(...values).changes }),
    get: (sql, ...values) => prepare(sql).get(...values),
    all: (sql, ...values) => prepare(sql).all(...values),
  };
}
