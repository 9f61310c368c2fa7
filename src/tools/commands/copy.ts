// Copies a store from SQLite to PostgreSQL while the kit is stopped: first what lives, and once the kit runs there, the rest.
// It may be interrupted, and goes on when it is called again.
import Database from 'better-sqlite3';
import { z } from 'zod';
import { define, Refused } from '../../operations/define.ts';
import { DAY_MS } from '../../operations/judge.ts';
import type { Connections, Tx } from '../../store/postgres/connection.ts';
import { lockBeside } from '../../store/sqlite/open.ts';
import { stateOf } from '../../store/sql.ts';

type Row = Record<string, unknown>;

/** Events, or rows of other tables, in one transaction. */
const PAGE = { events: 250, rows: 2_000 };
/** Tables and their keys. Tasks and attempts go with their events. */
const LIVE = { handlers: 'id', lanes: 'id', gaps: 'id', reruns: 'id' };
const REST = { quarantine: 'id', samples: 'at' };
const OF_EVENTS = { events: 'seq', tasks: 'event', attempts: 'event' };
const WAITING = 'select distinct event from tasks where event > ? and state = 0 order by event';
const ALL = 'select seq from events where seq > ? order by seq';
/** The last event that came a day before the newest. */
const OLD = `select coalesce(max(seq), 0) as seq from events
  where received_at <= (select received_at from events order by seq desc limit 1) - ${DAY_MS}`;
const TYPES: Record<string, 'bigint' | 'bytea'> = { INTEGER: 'bigint', BLOB: 'bytea' };

/** What was copied: what lives, and of the rest the events up to `seq`. */
interface Copied {
  seq: number;
}

type Pages = ReturnType<typeof createPages>;

function createPages(from: Database.Database, db: Connections) {
  const all = (sql: string, ...values: unknown[]): Row[] => from.prepare(sql).safeIntegers().all(values) as Row[];

  /** Rows that are there already stay as they are. */
  async function insert(tx: Tx, table: string, list: Row[]): Promise<void> {
    const columns = from.pragma(`table_info(${table})`) as { name: string; type: string }[];
    const arrays = columns.map(({ name, type }) => `cast(@${name} as ${TYPES[type] ?? 'text'}[])`);
    const names = columns.map(({ name }) => `"${name}"`).join();
    // A newer event may have taken the cursor or the id of an event that is copied late.
    const which =
      'event' in (list[0] ?? {}) && table !== 'quarantine'
        ? 'where exists (select 1 from events e where e.seq = v.event)'
        : '';
    const text = `insert into ${table} (${names}) select ${names} from unnest(${arrays.join()}) as v (${names}) ${which}
      on conflict do nothing`;
    const plain = (value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value);
    const values = columns.map(({ name }) => [name, list.map((row) => plain(row[name]))]);
    if (list.length > 0) await tx.run(text, Object.fromEntries(values));
  }

  async function rows(table: string, key: string): Promise<void> {
    const page = `select * from ${table} where ${key} > ? order by ${key} limit ${PAGE.rows}`;
    for (let after: unknown = Number.MIN_SAFE_INTEGER; ;) {
      const list = all(page, after);
      if (list.length === 0) return;
      await db.write((tx) => insert(tx, table, list));
      after = list.at(-1)?.[key];
    }
  }

  /** `which` lists events. `tell`: what waits was copied before, and may have ended and been pruned since. */
  async function events(which: string, begin: number, tell?: (tx: Tx, seq: number) => unknown): Promise<void> {
    const tables = { ...OF_EVENTS, tasks: tell ? 'state > 0 and event' : 'event' };
    const ids = from.prepare(`${which} limit ${PAGE.events}`).pluck();
    for (let after = begin; ;) {
      const seqs = ids.all(after) as number[];
      if (seqs.length === 0) return;
      after = seqs.at(-1) ?? after;
      await db.write(async (tx) => {
        for (const [table, key] of Object.entries(tables))
          await insert(tx, table, all(`select * from ${table} where ${key} in (${seqs.join()})`));
        await tell?.(tx, after);
      });
    }
  }

  return { all, rows, events };
}

async function copyLive(db: Connections, { all, rows, events }: Pages): Promise<void> {
  if (all('select 1 from lanes where boot is not null').length > 0)
    throw new Refused('the kit did not end by itself: start it once more, and stop it with SIGTERM');
  if (await db.get('select 1 as one from boots'))
    throw new Refused('a kit has run on that store before: name another schema');
  for (const [table, key] of Object.entries(LIVE)) await rows(table, key);
  await events(WAITING, 0);
  await events(ALL, Number(all(OLD)[0]?.['seq']));
  await db.write(async (tx) => {
    await tx.run("delete from state where name <> 'schema'");
    for (const row of all('select name, cast(value as text) as value from state'))
      await tx.run('insert into state values (@name, @value)', row);
    const next = 'select setval(pg_get_serial_sequence(@name, @key), cast(@seq as bigint))';
    for (const { name, seq } of all('select name, seq from sqlite_sequence'))
      await tx.all(next, { name, key: name === 'events' ? 'seq' : 'id', seq: String(seq) });
    await tx.set('copied', { seq: 0 } satisfies Copied);
  });
}

async function copyRest({ rows, events }: Pages, { seq }: Copied): Promise<void> {
  await events(ALL, seq, (tx, after) => tx.set('copied', { seq: after } satisfies Copied));
  for (const [table, key] of Object.entries(REST)) await rows(table, key);
}

async function counts(db: Connections, { all }: Pages): Promise<{ here: number; there: number }> {
  const [{ here, last } = {}] = all('select count(*) as here, coalesce(max(seq), 0) as last from events');
  const sql = 'select count(*) as there from events where seq <= cast(@last as bigint)';
  const { there = 0 } = (await db.get<{ there: number }>(sql, { last: String(last) })) ?? {};
  return { here: Number(here), there };
}

export const copy = define({
  name: 'copy',
  about: 'copies the store from SQLite to PostgreSQL; the kit must be stopped',
  args: z.object({ url: z.string().startsWith('postgres') }),
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
      const pages = createPages(from, db);
      const copied = await stateOf<Copied>(db, 'copied');
      await (copied ? copyRest(pages, copied) : copyLive(db, pages));
      const words = copied
        ? 'Everything is copied but the tables of your own handlers'
        : 'Start the kit with that DATABASE_URL, and call this again with the old one: it copies the rest';
      return { ...(await counts(db, pages)), words };
    } finally {
      await db.close();
      from.close();
      lock.close();
    }
  },
  fails: ({ here, there, words }) => words.startsWith('Everything') && here > there,
});
