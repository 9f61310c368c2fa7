// Copies the tables of an SQLite store into PostgreSQL, and compares them. A row is compared as text, so that the two
// databases need no common digest.
import { createHash } from 'node:crypto';
import type Database from 'better-sqlite3';
import type { QueryResult } from 'pg';

/** Rows that are read and written at once, and the maximum of their bytes: a body may have 12 MiB. */
const ROWS = 500;
const BYTES = 8 * 1024 * 1024;

export interface Column {
  name: string;
  type: string;
}

/** The number of rows and an order-free sum of their digests. */
export interface Digest {
  rows: number;
  sum: bigint;
}

/** `query` takes and returns texts. */
export interface Target {
  schema: string;
  query: (text: string, values?: unknown[]) => Promise<QueryResult>;
}

type Value = string | null;

/** The columns of a table in PostgreSQL that the table in SQLite has too. */
export async function columnsOf(target: Target, source: Database.Database, table: string): Promise<Column[]> {
  const there = new Set((source.pragma(`table_info(${table})`) as { name: string }[]).map(({ name }) => name));
  const { rows } = await target.query(
    'select column_name, data_type from information_schema.columns where table_schema = $1 and table_name = $2 order by ordinal_position',
    [target.schema, table],
  );
  return (rows as [string, string][]).flatMap(([name, type]) => (there.has(name) ? [{ name, type }] : []));
}

/** Rows of SQLite as PostgreSQL writes them: integers in decimal, bytes in hexadecimal. */
export function* rowsOf(source: Database.Database, table: string, columns: Column[], where = ''): Generator<Value[]> {
  const names = columns.map(({ name }) => name).join();
  const statement = source
    .prepare<[], Parameters<typeof textOf>[0][]>(`select ${names} from ${table} ${where}`)
    .raw()
    .safeIntegers();
  for (const row of statement.iterate()) yield row.map(textOf);
}

function textOf(value: string | bigint | number | Uint8Array | null): Value {
  if (value === null) return null;
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString('hex')}`;
  // PostgreSQL's texts hold no NUL; see ../database.ts.
  return String(value).replaceAll('\0', '\uFFFD');
}

/** Calls `onRows` after each group of rows. Returns the digest of all of them. */
export async function copyRows(
  target: Target,
  table: string,
  columns: Column[],
  rows: Iterable<Value[]>,
  { conflict = '', onRows = () => {} }: { conflict?: string; onRows?: (count: number) => void } = {},
): Promise<Digest> {
  const names = columns.map(({ name }) => name).join();
  const arrays = columns.map(({ type }, n) => `$${n + 1}::${type}[]`).join();
  const text = `insert into ${target.schema}.${table} (${names}) overriding system value select * from unnest(${arrays}) ${conflict}`;
  const digest: Digest = { rows: 0, sum: 0n };
  let group: Value[][] = [];
  let bytes = 0;

  async function write(): Promise<void> {
    if (group.length === 0) return;
    await target.query(
      text,
      columns.map((_, n) => group.map((row) => row[n] ?? null)),
    );
    onRows(group.length);
    [group, bytes] = [[], 0];
  }

  for (const row of rows) {
    addTo(digest, row);
    group.push(row);
    bytes += row.reduce((sum, value) => sum + (value?.length ?? 0), 0);
    if (group.length >= ROWS || bytes >= BYTES) await write();
  }
  await write();
  return digest;
}

/** The digest of what PostgreSQL has. */
export async function digestOf(target: Target, table: string, columns: Column[], where = ''): Promise<Digest> {
  const names = columns.map(({ name }) => name).join();
  const digest: Digest = { rows: 0, sum: 0n };
  await target.query('begin');
  await target.query(`declare moved no scroll cursor for select ${names} from ${target.schema}.${table} ${where}`);
  for (;;) {
    const { rows } = await target.query(`fetch ${ROWS} from moved`);
    for (const row of rows as Value[][]) addTo(digest, row);
    if (rows.length < ROWS) break;
  }
  await target.query('commit');
  return digest;
}

export function digestOfRows(rows: Iterable<Value[]>): Digest {
  const digest: Digest = { rows: 0, sum: 0n };
  for (const row of rows) addTo(digest, row);
  return digest;
}

function addTo(digest: Digest, row: Value[]): void {
  const hash = createHash('sha256').update(JSON.stringify(row)).digest();
  digest.rows++;
  digest.sum = BigInt.asUintN(64, digest.sum + hash.readBigUInt64LE());
}

export function isSame(one: Digest, other: Digest): boolean {
  return one.rows === other.rows && one.sum === other.sum;
}
