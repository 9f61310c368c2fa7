// What must hold for a store at any moment: nothing acknowledged is lost, nothing is doubled, order is kept or marked.
import Database from 'better-sqlite3';
import { Client } from 'pg';
import type { Options } from './report.ts';

/** A handler. Its table has no unique constraint, so that a second completion of an event is found. */
export const COUNTING = `
import { defineHandler } from '#kit';
const isPostgres = process.env.DATABASE_URL.startsWith('postgres');
const key = isPostgres ? 'bigint generated always as identity' : 'integer';
const values = isPostgres ? '$1, $2, $3, $4' : '?, ?, ?, ?';
export default defineHandler({
  name: 'counting', on: 'MessageReceived', retry: { attempts: 1000, firstMs: 10, maxMs: 50 },
  setup: ['create table seen (n ' + key + ' primary key, event text not null, cursor integer, lane text, late integer)'],
  async handle(event, ctx) {
    await ctx.complete((tx) => tx.run('insert into seen (event, cursor, lane, late) values (' + values + ')',
      event.key, Number(event.cursor), event.sessionId + event.data.from, ctx.late ? 1 : 0));
    if (process.env.TELL_COMPLETIONS) process.stdout.write('completed ' + event.key + '\\n');
  },
});
`;

const MINE = "(select t.* from tasks t join handlers h on h.id = t.handler and h.name = 'counting')";

let schemas = 0;

/** For the environment of a kit: a store of its own. */
export const ownStore = ({ postgres }: Options): Record<string, string> =>
  postgres === undefined ? {} : { DATABASE_URL: `${postgres}?schema=prove${++schemas}` };

export interface Look {
  done: number;
  violations: string[];
}

interface Reader {
  /** The first column of the rows, as text. */
  list: (sql: string) => Promise<string[]>;
  tables: string;
  close: () => unknown;
}

async function open(store: string): Promise<Reader> {
  if (store.startsWith('sqlite:')) {
    const db = new Database(store.slice('sqlite:'.length), { readonly: true, timeout: 5_000 });
    const list = async (sql: string) => db.prepare<[]>(sql).pluck().all().map(String);
    return { list, tables: 'select name from sqlite_schema', close: () => db.close() };
  }
  const url = new URL(store);
  const client = new Client({
    connectionString: store.replace(url.search, ''),
    options: `-c search_path=${url.searchParams.get('schema')}`,
  });
  await client.connect();
  const list = async (text: string) =>
    (await client.query<[unknown]>({ text, rowMode: 'array' })).rows.map(([value]) => String(value));
  const tables = 'select table_name from information_schema.tables where table_schema = current_schema()';
  return { list, tables, close: () => client.end() };
}

/** `store`: its DATABASE_URL. `completed`: keys of events. `happened`: cursors that the service has. */
export async function look(
  store: string,
  acknowledged: { id: string }[],
  { completed = [], happened = [] }: { completed?: string[]; happened?: string[] } = {},
): Promise<Look> {
  const { list, tables, close } = await open(store);
  try {
    const violations: string[] = [];
    const report = (what: string, found: string[]): void => {
      if (found.length > 0) violations.push(`${what}: ${found.slice(0, 5).join(', ')}${found.length > 5 ? ' …' : ''}`);
    };
    const whole = store.startsWith('sqlite:') ? await list('pragma integrity_check') : ['ok'];
    if (whole[0] !== 'ok') report('integrity_check', whole);
    const ids = new Set(await list('select id from events where id is not null'));
    report(
      'acknowledged, but not stored',
      acknowledged.filter(({ id }) => !ids.has(id)).map(({ id }) => id),
    );
    for (const key of ['id', 'cursor'])
      report(
        'stored twice',
        await list(`select ${key} from events where ${key} is not null group by 1 having count(*) > 1`),
      );
    const stored = new Set(await list('select cast(cursor as text) from events'));
    const [watermark = '0'] = await list("select value from state where name = 'watermark'");
    report(
      'up to the watermark, but not stored',
      happened.filter((cursor) => Number(cursor) <= Number(JSON.parse(watermark)) && !stored.has(cursor)),
    );
    const handles = (await list(tables)).includes('seen');
    const seen = new Set(handles ? await list('select event from seen') : []);
    report(
      'completed, but without its row',
      completed.filter((key) => !seen.has(key)),
    );
    if (handles) {
      report('completed twice', await list('select event from seen group by event having count(*) > 1'));
      report(
        'done without its row',
        await list(
          `select 'c:' || cursor from ${MINE} where state = 1 and 'c:' || cursor not in (select event from seen)`,
        ),
      );
      report(
        'a row whose task is not done',
        await list(`select event from seen where event not in (select 'c:' || cursor from ${MINE} where state = 1)`),
      );
      report(
        'out of order, and not marked late',
        await list(`select event from (select event, late, cursor, max(cursor) over
          (partition by lane order by n rows between unbounded preceding and 1 preceding) as highest from seen)
          where cursor < highest and late = 0`),
      );
    }
    report('given up', await list(`select event || ' ' || coalesce(error, '') from ${MINE} where state > 1`));
    const counted =
      await list(`select name from handlers h where waiting <> (select count(*) from tasks where handler = h.id and state = 0)
      or done <> (select count(*) from tasks where handler = h.id and state = 1)`);
    report('counters differ from the rows of', counted);
    return { done: handles ? Number(await list('select count(*) from seen')) : 0, violations };
  } finally {
    await close();
  }
}
