// Copies the kit's tables from SQLite to PostgreSQL while the kit is stopped. One transaction copies all, or nothing.
import Database from 'better-sqlite3';
import { z } from 'zod';
import { define, Refused } from '../../operations/define.ts';
import type { Tx } from '../../store/postgres/connection.ts';
import { lockBeside } from '../../store/sqlite/open.ts';

type Row = Record<string, unknown>;

/** Rows, and bytes of their bodies, in one statement. */
const PAGE = { rows: 1_000, bytes: 2 ** 22 };
/** A line is printed each time that so many more rows are copied. */
const PROGRESS = 100_000;
/** Without `setup_steps`: handlers set up their own tables anew on PostgreSQL. What these held is not copied. */
const TABLES = ['handlers', 'events', 'tasks', 'attempts', 'lanes', 'gaps', 'reruns', 'quarantine', 'samples'];
const TYPES: Record<string, 'bigint' | 'bytea'> = { INTEGER: 'bigint', BLOB: 'bytea' };

function* pagesOf(from: Database.Database, table: string): Generator<Row[]> {
  let rows: Row[] = [];
  let bytes = 0;
  for (const row of from.prepare<[], Row>(`select * from ${table}`).safeIntegers().iterate()) {
    rows.push(row);
    bytes += (row['body'] as Buffer | null | undefined)?.length ?? 0;
    if (rows.length < PAGE.rows && bytes < PAGE.bytes) continue;
    yield rows;
    [rows, bytes] = [[], 0];
  }
  if (rows.length > 0) yield rows;
}

async function copyAll(from: Database.Database, tx: Tx): Promise<number> {
  let copied = 0;
  for (const table of TABLES) {
    const columns = from.pragma(`table_info(${table})`) as { name: string; type: string }[];
    const arrays = columns.map(({ name, type }) => `cast(@${name} as ${TYPES[type] ?? 'text'}[])`);
    const names = columns.map(({ name }) => `"${name}"`).join();
    const text = `insert into ${table} (${names}) select * from unnest(${arrays.join()})`;
    const plain = (value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);
    for (const rows of pagesOf(from, table)) {
      await tx.run(text, Object.fromEntries(columns.map(({ name }) => [name, rows.map((row) => plain(row[name]))])));
      copied += rows.length;
      if (copied % PROGRESS < rows.length) process.stderr.write(`${copied} rows\n`);
    }
  }
  await tx.run("delete from state where name <> 'schema'");
  for (const row of from.prepare('select name, cast(value as text) as value from state').all() as Row[])
    await tx.run('insert into state values (@name, @value)', row);
  const next = 'select setval(pg_get_serial_sequence(@name, @key), cast(@seq as bigint))';
  for (const { name, seq } of from.prepare('select name, seq from sqlite_sequence').all() as Row[])
    await tx.all(next, { name, key: name === 'events' ? 'seq' : 'id', seq: String(seq) });
  return copied;
}

export const copy = define({
  name: 'copy',
  about: 'copies the store from SQLite to PostgreSQL; the kit must be stopped',
  args: z.object({
    url: z
      .string()
      .regex(/^postgres(ql)?:\/\//)
      .refine((text) => URL.canParse(text), 'is no address'),
  }),
  first: ['url'],
  access: 'change',
  async run({ config }, { url }) {
    const { storePath: store } = config();
    if (store === null) throw new Refused('DATABASE_URL must still name the store on SQLite');
    const lock = lockBeside(store);
    const { openPostgres } = await import('../../store/postgres/open.ts');
    const { db } = await openPostgres(url);
    const from = new Database(store, { readonly: true, fileMustExist: true });
    try {
      if (from.prepare('select 1 from lanes where boot is not null').get())
        throw new Refused('the kit did not end by itself: start it once more, and stop it with SIGTERM');
      const rows = await db.write(async (tx) => {
        const there = await tx.get('select 1 as one where exists (select from events) or exists (select from boots)');
        if (there) throw new Refused('there is a store already: name another schema');
        return copyAll(from, tx);
      }, 'once');
      const own = 'Not copied: tables of your own handlers. Copy what they hold once the kit has set them up there';
      return { rows, words: `Start the kit with the new DATABASE_URL, and never again with the old one. ${own}` };
    } finally {
      await db.close();
      from.close();
      lock.close();
    }
  },
});
