// Copies the kit's tables from SQLite to PostgreSQL. Most rows are copied while the kit runs, and triggers note which of
// them change meanwhile. These are copied again, the last ones when the kit has stopped. Then the copy gets its name.
import Database from 'better-sqlite3';
import { z } from 'zod';
import { orUndefined } from '../../base/errors.ts';
import { flag } from '../../operations/arguments.ts';
import { define, Refused } from '../../operations/define.ts';
import type { Connections, Tx } from '../../store/postgres/connection.ts';
import { stateOf } from '../../store/sql.ts';
import { lockBeside } from '../../store/sqlite/open.ts';
import { LONGEST_STEP_MS } from '../../store/work.ts';

type Row = Record<string, bigint | string | Buffer | null>;

/** Notes in one transaction; the size of a body from which the next row waits; notes until a line is printed. */
const PAGE = { notes: 2_000, bytes: 2 ** 16, line: 100_000 };
/** Integers, by which rows are copied. Handlers set up their own tables anew on PostgreSQL, and these stay empty. */
const KEYS = Object.entries({
  ...{ handlers: 'id', events: 'seq', tasks: 'event', attempts: 'event', lanes: 'id' },
  ...{ gaps: 'id', reruns: 'id', quarantine: 'id', samples: 'at' },
});
const DIGEST = KEYS.map(
  ([name, key]) =>
    `select '${name}' as name, cast(count(*) as text) || ' ' || coalesce(sum(${key} % 1000003), 0) as digest from ${name}`,
).join(' union all ');
const CHANGES = { insert: 'new', update: 'new', delete: 'old' };

/** Notes the keys of all rows, and of those that change from now on, unless this was done before. */
function note(from: Database.Database): void {
  if (orUndefined(() => from.prepare("select 1 from copying where name = 'all'").get())) return;
  forget(from);
  // Later notes have higher numbers than those of any copy that was begun before.
  const begun = `insert into copying (rowid, name) values (${Date.now() * 1_000}, 'begun')`;
  const triggers = KEYS.flatMap(([name, key]) =>
    Object.entries(CHANGES).map(
      ([change, row]) => `create trigger copying_${name}_${change} after ${change} on ${name}
        begin insert into copying values ('${name}', ${row}.${key}); end;`,
    ),
  );
  from.exec(`begin immediate; create table copying (name text, key integer); ${begun}; ${triggers.join('\n')} commit`);
  // In chunks, because deliveries wait meanwhile.
  const add = from.prepare('insert into copying select ?, value from json_each(?)');
  for (const [name, key] of KEYS) {
    const next = from.prepare<[bigint], bigint>(
      `select distinct ${key} from ${name} where ${key} > ? order by 1 limit ${PAGE.notes}`,
    );
    let keys = next.pluck().all(-(2n ** 63n));
    for (; keys.length > 0; keys = next.all(keys.at(-1) ?? 0n)) add.run(name, `[${keys.join()}]`);
  }
  add.run('all', '[0]');
}

function forget(from: Database.Database): void {
  const drops = KEYS.flatMap(([name]) =>
    Object.keys(CHANGES).map((change) => `drop trigger if exists copying_${name}_${change};`),
  );
  from.exec(`begin immediate; ${drops.join('\n')} drop table if exists copying; commit`);
}

/** Copies what is noted next. Returns how many notes there were. */
async function copyPage(from: Database.Database, tx: Tx): Promise<number> {
  // Another copy to the same place may run.
  await tx.lock('copying');
  const done = (await stateOf<number>(tx, 'copied')) ?? 0;
  const next = from.prepare<[number], { name: string; key: bigint }>(
    `select name, key from copying where rowid > ? order by rowid limit ${PAGE.notes}`,
  );
  const notes = next.all(done);
  for (const [name, key] of KEYS) {
    const keys = notes.filter((one) => one.name === name).map((one) => String(one.key));
    tx.last(`delete from ${name} where ${key} = any(cast(@keys as bigint[]))`, { keys });
    const rows = from.prepare<[string], Row>(`select * from ${name} where ${key} in (select value from json_each(?))`);
    for (const row of rows.iterate(`[${keys.join()}]`)) {
      const columns = Object.keys(row);
      // A row that is in another one's way has changed meanwhile, so there are later notes about both.
      const [names, values] = [`"${columns.join('","')}"`, `@${columns.join(',@')}`];
      const insert = `insert into ${name} (${names}) values (${values}) on conflict do nothing`;
      tx.last(insert, row);
      if (Number((row['body'] as Buffer | null | undefined)?.length) > PAGE.bytes) await tx.get('select 1');
    }
  }
  await tx.set('copied', done + notes.length);
  return notes.length;
}

/** Copies what has no integer as its key, checks that nothing is missing, and gives the copy its name. */
async function finish(from: Database.Database, db: Connections, schema: string): Promise<void> {
  // Before the transaction, because counting a large store takes longer than one may be idle.
  const digests = new Map(from.prepare<[], [string, string]>(DIGEST).raw().all());
  await db.write(async (tx) => {
    await tx.run("delete from state where name <> 'schema'");
    for (const row of from.prepare('select name, cast(value as text) as value from state').all() as Row[])
      await tx.run('insert into state values (@name, @value)', row);
    const next = 'select setval(pg_get_serial_sequence(@name, @key), cast(@seq as bigint))';
    for (const [name, seq] of from.prepare<[], [string, bigint]>('select name, seq from sqlite_sequence').raw().all())
      if (digests.has(name)) await tx.all(next, { name, key: name === 'events' ? 'seq' : 'id', seq: String(seq) });
    await tx.query('set local enable_seqscan = on; set local statement_timeout = 0');
    const { rows } = await tx.query({ text: DIGEST, query_timeout: LONGEST_STEP_MS });
    for (const { name, digest } of rows as { name: string; digest: string }[])
      if (digests.get(name) !== digest) throw new Refused(`the copy of ${name} differs: use --stop, and begin again`);
    await tx.query(`drop schema if exists "${schema}"; alter schema "${db.schema}" rename to "${schema}"`);
  }, 'once');
}

/** `isLast`: the kit has stopped. Returns how many rows were copied, or copied again. */
async function copyAll(from: Database.Database, db: Connections, schema: string, isLast: boolean): Promise<number> {
  if (isLast && from.prepare('select 1 from lanes where boot is not null').get())
    throw new Refused('the kit did not end by itself: start it once more, and stop it with SIGTERM');
  note(from);
  const first = Number(from.prepare('select min(rowid) from copying').pluck().get());
  await db.write(async (tx) => {
    if (((await stateOf<number>(tx, 'copied')) ?? 0) >= first) return;
    await tx.query(`truncate ${KEYS.map(([name]) => name).join()}`);
    await tx.set('copied', first);
  });
  // From now on, no other command changes the store.
  if (isLast) from.exec('begin immediate');
  let rows = 0;
  for (let page = PAGE.notes; page === PAGE.notes; rows += page) {
    page = await db.write((tx) => copyPage(from, tx), 'once');
    if (rows % PAGE.line > (rows + page) % PAGE.line) process.stderr.write(`${rows + page} rows\n`);
  }
  if (!isLast) return rows;
  await finish(from, db, schema);
  from.exec('commit');
  forget(from);
  return rows;
}

export const copy = define({
  name: 'copy',
  about: 'copies the store from SQLite to PostgreSQL: most of it while the kit runs, the rest after it has stopped',
  args: z.object({
    url: z.url({ protocol: /^postgres(ql)?$/, error: 'must be postgres://…?schema=<name>' }),
    stop: flag.describe('gives up a copy that was begun'),
  }),
  first: ['url'],
  access: 'change',
  async run({ config }, { url, stop }) {
    const { storePath: store } = config();
    if (store === null) throw new Refused('DATABASE_URL must still name the store on SQLite');
    const place = new URL(url);
    const schema = place.searchParams.get('schema') || 'kit';
    place.searchParams.set('schema', `${schema}_copying`);
    const { openPostgres } = await import('../../store/postgres/open.ts');
    const from = new Database(store, { fileMustExist: true }).defaultSafeIntegers();
    // First, because the server may be gone.
    if (stop) forget(from);
    const { db } = await openPostgres(place.href);
    const lock = orUndefined(() => lockBeside(store));
    try {
      const tables = await db.all('select 1 from pg_tables where schemaname = @schema', { schema });
      if (stop || tables.length > 0) await db.write((tx) => tx.query(`drop schema "${db.schema}" cascade`));
      if (stop) return { rows: 0, isOver: true, words: `Nothing is left of a copy to ${schema} that was begun` };
      if (tables.length > 0)
        throw new Refused(`${schema} has tables already: start the kit with it if it is the copy, or name another one`);
      const rows = await copyAll(from, db, schema, lock !== undefined);
      const own = 'Not copied: tables of your own handlers. Copy what they hold once the kit has set them up there';
      const words = lock
        ? `Start the kit with the new DATABASE_URL, and never again with the old one. ${own}`
        : 'The kit still runs. Stop it, and run the same command again: it copies what has changed since. ' +
          'If the machine fails before that, begin again with --stop';
      return { rows, isOver: lock !== undefined, words };
    } finally {
      await db.close();
      from.close();
      lock?.close();
    }
  },
  fails: ({ isOver }) => !isOver,
});
