// The tables of the handlers. They are in an SQLite database in memory, apart from the kit's data.
import { connect } from '../../../store/sqlite/connection.ts';
import { inTransaction, selected } from '../../../store/sqlite/work/tx.ts';
import type { SqlRow, SqlValue, Work } from '../../../store/work.ts';

export function createTables() {
  const db = connect(':memory:', { create: true });
  let open: Promise<unknown> = Promise.resolve();

  /** One transaction after the other, because they share the connection. */
  function inTurn<Result>(step: () => Promise<Result>): Promise<Result> {
    const result = open.then(step);
    open = result.catch(() => {});
    return result;
  }

  return {
    /** Commits the work if `holds` is true before and after it. `ended` runs at once after the commit. */
    write: (work: Work, holds = () => true, ended = () => {}): Promise<boolean> =>
      inTurn(async () => {
        if (!holds()) return false;
        db.exec('begin');
        try {
          await inTransaction(db, work);
          if (!holds()) return false;
          db.exec('commit');
          ended();
          return true;
        } finally {
          if (db.inTransaction) db.exec('rollback');
        }
      }),
    read: (sql: string, values: SqlValue[]): Promise<SqlRow[]> => inTurn(async () => selected(db, sql, values)),
    close: (): void => void db.close(),
  };
}
