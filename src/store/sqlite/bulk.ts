// Writes many rows with few statements, because a statement costs about as much as two rows.
import type { Insert } from '../sql/session.ts';
import type { Connection } from './connection.ts';

/** Rows of one statement. */
const SIZES = [32, 8, 1];

export function createBulkInsert(db: Connection, { into, columns, conflict = '' }: Insert) {
  const names = Object.keys(columns);
  const row = `(${names.map(() => '?').join()})`;
  const statements = SIZES.map((size) => ({
    size,
    insert: db.prepare(`insert into ${into} (${names.join()}) values ${Array(size).fill(row).join()} ${conflict}`),
  }));
  return async (rows: unknown[][]): Promise<number> => {
    let written = 0;
    let at = 0;
    for (const { size, insert } of statements)
      for (; at + size <= rows.length; at += size) written += insert.run(rows.slice(at, at + size).flat()).changes;
    return written;
  };
}
