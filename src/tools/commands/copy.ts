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

type Row = Record<string, bigint | string | Buffer | null>;

/** Notes in one transaction; the size of a body from which the next row waits; notes until a line is printed. */
const PAGE = { notes: 2_000, bytes: 2 ** 16, line: 100_000 };
/** Integers, by which rows are copied. Handlers set up their own tables anew on PostgreSQL, and these stay empty. */
const KEYS = Object.entries({
  ...{ handlers: 'id', events: 'seq', tasks: 'event', attempts: 'event', lanes: 'id' },
  ...{ gaps: 'id', reruns: 'id', quarantine: 'id', samples: 'at' },
});
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
async function finish(from: Database.Database, tx: Tx, names: { schema: string; copying: string }): Promise<void> {
  await tx.run("delete from state where name <> 'schema'");
  for (const row of from.prepare('select name, cast(value as text) as value from state').all() as Row[])
    await tx.run('insert into state values (@name, @value)', row);
  const next = 'select setval(pg_get_serial_sequence(@name, @key), cast(@seq as bigint))';
  for (const { name, seq } of from.prepare('select name, seq from sqlite_sequence').all() as Row[])
    await tx.all(next, { name, key: name === 'events' ? 'seq' : 'id', seq: String(seq) });
  await tx.query('set local enable_seqscan = on');
  for (const [name, key] of KEYS) {
    const text = `select cast(count(*) as text) || ' ' || coalesce(sum(${key} % 1000003), 0) as digest from ${name}`;
    const [there, here] = [await tx.get<Row>(text), from.prepare<[], Row>(text).get()];
    if (there?.['digest'] !== here?.['digest'])
      throw new Refused(`the copy of ${name} differs: use --stop, and begin again`);
  }
  await tx.query(
    `drop schema if exists "${names.schema}"; alter schema "${names.copying}" rename to "${names.schema}"`,
  );
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
  let rows = 0;
  for (let page = PAGE.notes; page === PAGE.notes; rows += page) {
    page = await db.write((tx) => copyPage(from, tx), 'once');
    if (rows % PAGE.line > (rows + page) % PAGE.line) process.stderr.write(`${rows + page} rows\n`);
  }
  if (!isLast) return rows;
  await db.write((tx) => finish(from, tx, { schema, copying: db.schema }), 'once');
  forget(from);
  return rows;
}

export const copy = define({
  name: 'copy',
  about: 'copies the store from SQLite to PostgreSQL: most of it while the kit runs, the rest after it has stopped',
  args: z.object({
    url: z
      .string()
      .regex(/^postgres(ql)?:\/\//, 'must be postgres://…?schema=<name>')
      .refine((text) => URL.canParse(text), 'is no address'),
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
    const { db } = await openPostgres(place.href);
    const from = new Database(store, { fileMustExist: true }).defaultSafeIntegers();
    const lock = orUndefined(() => lockBeside(store));
    try {
      const isBegun = (await stateOf(db, 'copied')) !== null;
      const there = await db.get<Row>('select to_regclass(@name) as name', { name: `"${schema}".state` });
      const isThere = there?.['name'] !== null;
      if (stop || isThere) await db.write((tx) => tx.query(`drop schema "${db.schema}" cascade`));
      if (stop && !isBegun) throw new Refused(`no copy was begun in ${schema}`);
      if (stop) {
        forget(from);
        return { rows: 0, isOver: true, words: 'The copy that was begun is removed' };
      }
      if (isThere)
        throw new Refused(`there is a store in ${schema} already: start the kit with it, or name another schema`);
      const rows = await copyAll(from, db, schema, lock !== undefined);
      const own = 'Not copied: tables of your own handlers. Copy what they hold once the kit has set them up there';
      const words = lock
        ? `Start the kit with the new DATABASE_URL, and never again with the old one. ${own}`
        : 'The kit still runs. Stop it, and run the same command again: it copies what has changed since';
      return { rows, isOver: lock !== undefined, words };
    } finally {
      await db.close();
      from.close();
      lock?.close();
    }
  },
  fails: ({ isOver }) => !isOver,
});
