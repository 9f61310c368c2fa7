// Fills a store of either edition with past events, before it starts: all handled, or all waiting behind a task that has
// failed. The tables are written directly, because a million deliveries would take minutes.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { ROOTS } from '../harness.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';

export interface Past {
  events: number;
  waiting: boolean;
}

const CHUNK = 50_000;
const LANES = 100_000;
const SESSION = '00000000-0000-4000-8000-000000000000';

export async function fill(edition: 'first' | 'second', folder: string, { events, waiting }: Past): Promise<void> {
  if (edition === 'second') return fillSecond(folder, { events, waiting });
  const path = join(ROOTS.first, 'test/bench/fill.ts');
  const first = (await import(path)) as { fill: (...past: unknown[]) => Promise<void> };
  return first.fill(folder, { events, waiting: waiting ? events : 0, lanes: LANES }, () => {});
}

async function fillSecond(folder: string, { events, waiting }: Past): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const store = openSqlite(join(folder, 'events.db'));
  await store.work.register([{ name: 'noting', file: 'noting.js', fault: null }], 0);
  const { raw: db } = store.db;
  db.pragma('synchronous = off');
  db.pragma('cache_size = -200000');
  db.pragma('wal_autocheckpoint = 1000');
  const [now, tomorrow] = [Date.now(), Date.now() + 86_400_000];
  const body = JSON.stringify({ data: { MessageReceived: { body: 'x'.repeat(300) } } });
  const addEvents = db.prepare(`
    with recursive n (n) as (select @from union all select n + 1 from n where n < @to)
    insert into events (seq, cursor, id, type, session, created_at, received_at, origin, origins, body)
    select n, 1000000 + n, lower(hex(randomblob(18))), 'MessageReceived', '${SESSION}',
      @now - @events + n, @now - @events + n, 1, 1, cast(@body as blob) from n`);
  // The first task of each lane has failed.
  const addTasks = db.prepare(`
    insert into tasks (event, handler, lane, cursor, state, due_at, failed_at, attempts, ended_at)
    select seq, 1, 1 + seq % ${LANES}, cursor, ${waiting ? 0 : 1}, iif(seq <= ${LANES}, @tomorrow, received_at),
      iif(seq <= ${LANES}, @now, null), seq <= ${LANES}, ${waiting ? 'null' : 'received_at'}
    from events where seq between @from and @to`);
  for (let from = 1; from <= events; from += CHUNK) {
    const to = Math.min(events, from + CHUNK - 1);
    addEvents.run({ from, to, now, events, body });
    addTasks.run({ from, to, now, tomorrow });
  }
  db.exec(`insert into lanes (id, handler, due_at, done_cursor)
    select lane, 1, ${waiting ? tomorrow : 'null'}, ${waiting ? -1 : 'max(cursor)'} from tasks group by lane`);
  db.exec(`update handlers set position = ${events}, ${waiting ? 'waiting' : 'done'} = ${events} where id = 1`);
  db.exec(`insert into state values ('events', ${events})`);
  store.close();
}
