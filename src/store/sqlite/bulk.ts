// Writes many rows with few statements, because a statement costs about as much as two rows.
import type { Connection } from './connection.ts';

/** Rows of one statement. */
const SIZES = [32, 8, 1];

/** `into` ends before `values`, `row` is one row of it, `conflict` follows. Returns the number of rows written. */
export function createBulkInsert(
  db: Connection,
  { into, row, conflict = '' }: { into: string; row: string; conflict?: string },
): (rows: unknown[][]) => number {
  const statements = SIZES.map((size) => ({
    size,
    insert: db.prepare(`${into} values ${Array<string>(size).fill(row).join()} ${conflict}`),
  }));
  return (rows) => {
    let written = 0;
    let at = 0;
    for (const { size, insert } of statements)
      for (; at + size <= rows.length; at += size) written += insert.run(rows.slice(at, at + size).flat()).changes;
    return written;
  };
}
