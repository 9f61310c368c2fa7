// What must hold for a store at any moment: nothing acknowledged is lost, nothing is doubled, order is kept or marked.
import Database from 'better-sqlite3';
import { join } from 'node:path';

/** A handler. Its table has no unique constraint, so that a second completion of an event is found. */
export const COUNTING = `
import { defineHandler } from '#kit';
export default defineHandler({
  name: 'counting', on: 'MessageReceived', retry: { attempts: 1000, firstMs: 10, maxMs: 50 },
  setup: ['create table seen (n integer primary key, event text not null, cursor integer, lane text, late integer)'],
  async handle(event, ctx) {
    await ctx.complete((tx) => tx.run('insert into seen (event, cursor, lane, late) values (?, ?, ?, ?)',
      event.key, Number(event.cursor), event.sessionId + event.data.from, ctx.late ? 1 : 0));
    if (process.env.TELL_COMPLETIONS) process.stdout.write('completed ' + event.key + '\\n');
  },
});
`;

const MINE = "(select t.* from tasks t join handlers h on h.id = t.handler and h.name = 'counting')";

export interface Look {
  done: number;
  violations: string[];
}

/** `completed`: keys of events. `happened`: cursors that the service has. */
export function look(
  folder: string,
  acknowledged: { id: string }[],
  { completed = [], happened = [] }: { completed?: string[]; happened?: string[] } = {},
): Look {
  const db = new Database(join(folder, 'events.db'), { readonly: true, timeout: 5_000 });
  try {
    const list = (sql: string): string[] => db.prepare<[], string>(sql).pluck().all();
    const violations: string[] = [];
    const report = (what: string, found: string[]): void => {
      if (found.length > 0) violations.push(`${what}: ${found.slice(0, 5).join(', ')}${found.length > 5 ? ' …' : ''}`);
    };
    const whole = list('pragma integrity_check');
    if (whole[0] !== 'ok') report('integrity_check', whole);
    const ids = new Set(list('select id from events where id is not null'));
    report(
      'acknowledged, but not stored',
      acknowledged.filter(({ id }) => !ids.has(id)).map(({ id }) => id),
    );
    for (const key of ['id', 'cursor'])
      report('stored twice', list(`select ${key} from events where ${key} is not null group by 1 having count(*) > 1`));
    const stored = new Set(list('select cast(cursor as text) from events'));
    const [watermark = 0] = list("select json_extract(value, '$') from state where name = 'watermark'");
    report(
      'up to the watermark, but not stored',
      happened.filter((cursor) => Number(cursor) <= Number(watermark) && !stored.has(cursor)),
    );
    const handles = list("select name from sqlite_schema where name = 'seen'").length > 0;
    const seen = new Set(handles ? list('select event from seen') : []);
    report(
      'completed, but without its row',
      completed.filter((key) => !seen.has(key)),
    );
    if (handles) {
      report('completed twice', list('select event from seen group by event having count(*) > 1'));
      report(
        'done without its row',
        list(`select 'c:' || cursor from ${MINE} where state = 1 and 'c:' || cursor not in (select event from seen)`),
      );
      report(
        'a row whose task is not done',
        list(`select event from seen where event not in (select 'c:' || cursor from ${MINE} where state = 1)`),
      );
      report(
        'out of order, and not marked late',
        list(`select event from (select event, late, cursor, max(cursor) over
          (partition by lane order by n rows between unbounded preceding and 1 preceding) as highest from seen)
          where cursor < highest and late = 0`),
      );
    }
    report('given up', list(`select event || ' ' || coalesce(error, '') from ${MINE} where state > 1`));
    const counted =
      list(`select name from handlers h where waiting <> (select count(*) from tasks where handler = h.id and state = 0)
      or done <> (select count(*) from tasks where handler = h.id and state = 1)`);
    report('counters differ from the rows of', counted);
    const done = handles ? Number(db.prepare('select count(*) from seen').pluck().get()) : 0;
    return { done, violations };
  } finally {
    db.close();
  }
}
