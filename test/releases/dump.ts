// A PostgreSQL store as SQL text: the tables as the migrations of this release make them, and the rows. Any client that
// may create a schema can run it on an empty database.
import { readdirSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { STEPS } from './handlers.ts';

const MIGRATIONS = join(import.meta.dirname, '../../src/store/postgres/migrations');
/** The kit makes it before the first migration. */
const VERSION = 'create table version (version int not null, oldest int not null);';

export async function dump(url: string): Promise<{ text: string; rows: Record<string, number> }> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const ddl = readdirSync(MIGRATIONS)
      .filter((name) => name.endsWith('.sql'))
      .toSorted()
      .map((name) => readFileSync(join(MIGRATIONS, name), 'utf8'));
    const kit = [...ddl.join('\n').matchAll(/^create table (\w+)/gm)].map(([, name = '']) => name);
    const tables = [...kit.map((name) => `kit.${name}`), 'kit.version', 'public.ledger'];
    await requireAll(client, tables);
    const rows: Record<string, number> = {};
    const inserts: string[] = [];
    for (const table of tables) {
      const found = await rowsOf(client, table);
      rows[table] = found.length;
      inserts.push(...found);
    }
    const parts = [
      'create schema kit;',
      'set search_path = kit;',
      VERSION,
      ...ddl,
      ...STEPS.map((step) => `${step.replace(/table ledger/, 'table public.ledger')};`),
      `truncate ${kit.join(', ')};`,
      ...inserts,
      ...(await sequencesOf(client)),
      'reset search_path;',
    ];
    // The name of an instance begins with that of its machine.
    return { text: `${parts.join('\n')}\n`.replaceAll(hostname(), 'machine'), rows };
  } finally {
    await client.end();
  }
}

/** Throws if the database has tables that would be left out. */
async function requireAll(client: Client, known: string[]): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select schemaname || '.' || tablename as name from pg_tables where schemaname in ('kit', 'public')`,
  );
  const lost = rows.map(({ name }) => name).filter((name) => !known.includes(name));
  if (lost.length > 0) throw new Error(`tables that the text would leave out: ${lost.join()}`);
}

/** One statement for each row. The server writes the values, so that each is read back as it was. */
async function rowsOf(client: Client, table: string): Promise<string[]> {
  const { rows: columns } = await client.query<{ name: string }>(
    `select quote_ident(attname) as name from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum`,
    [table],
  );
  const names = columns.map(({ name }) => name);
  const values = names.map((name) => `quote_nullable(${name}::text)`).join(` || ', ' || `);
  const { rows } = await client.query<{ row: string }>(`select ${values} as row from ${table} order by 1`);
  return rows.map(({ row }) => `insert into ${table} (${names.join(', ')}) overriding system value values (${row});`);
}

async function sequencesOf(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string; last: string | null }>(
    `select schemaname || '.' || sequencename as name, last_value as last from pg_sequences where schemaname = 'kit' order by 1`,
  );
  return rows.flatMap(({ name, last }) => (last === null ? [] : [`select setval('${name}', ${last});`]));
}
