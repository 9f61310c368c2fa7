// Rows as values of one statement: an array for each column, for `unnest`.
import type { Values } from '../sql.ts';

export const columnsOf = <Row extends object>(rows: readonly Row[], ...names: (keyof Row & string)[]): Values =>
  Object.fromEntries(names.map((name) => [name, rows.map((row) => row[name] ?? null)]));
