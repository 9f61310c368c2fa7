// A schema for each store of a test. To make one takes 100 ms and to empty one takes 10, so the schemas of tests that have
// ended are used again.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { TABLES } from '../../src/store/postgres/connection.ts';
import { query } from './blocking.ts';

const MIGRATIONS = join(import.meta.dirname, '../../src/store/postgres/migrations');
/** The rows that a new store has. */
const ROWS = readdirSync(MIGRATIONS)
  .toSorted()
  .flatMap((name) => readFileSync(join(MIGRATIONS, name), 'utf8').match(/^insert into [^;]+;/gm) ?? [])
  .join('\n');

const schemas = new Map<string, string>();

/** The schema of the store that stands for this path: the same path is the same store, as long as its folder exists. */
export function schemaOf(path: string): string {
  const own = schemas.get(path);
  if (own !== undefined) return own;
  const [left] = [...schemas].find(([other]) => !existsSync(dirname(other))) ?? [];
  const schema = left === undefined ? newSchema(path) : (schemas.get(left) ?? '');
  if (left !== undefined) {
    empty(schema);
    schemas.delete(left);
  }
  schemas.set(path, schema);
  return schema;
}

function newSchema(path: string): string {
  return `kit_${createHash('sha256').update(`${process.pid} ${path}`).digest('hex').slice(0, 20)}`;
}

function empty(schema: string): void {
  const tables = namesOf(schema, 'select tablename as name from pg_tables where schemaname = $1', [schema]);
  const sequences = namesOf(schema, 'select sequencename as name from pg_sequences where schemaname = $1', [schema]);
  // A test that never used its store left no tables.
  if (!tables.includes('state')) return;
  const filled = tables
    .filter((table) => TABLES.has(table))
    .map((table) => `select '${table}' where exists (select from ${table})`);
  const statements = [
    'drop function if exists refuse cascade',
    // Rows that are only deleted would slow later tests down.
    `truncate ${namesOf(schema, `select * from (${filled.join(' union all ')}) as filled (name)`).join()}`,
    ...tables.flatMap((table) => (TABLES.has(table) || table === 'version' ? [] : `drop table ${table} cascade`)),
    ...sequences.map((sequence) => `select setval('${sequence}', 1, false)`),
    ROWS,
  ];
  query(schema, statements.join(';\n'));
}

function namesOf(schema: string, sql: string, values: unknown[] = []): string[] {
  return (query(schema, sql, values) as { name: string }[]).map(({ name }) => name);
}
