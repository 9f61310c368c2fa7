// Fills a store with past events, by default all handled. `waiting` events wait in lanes whose first task has failed.
// The tables are written directly, because ten million events through the receiver would take an hour.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { createIds } from '../../src/store/sqlite/ingest/ids.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { createSession } from '../../src/store/sqlite/session.ts';

const CHUNK = 32_768;
/** A running kit sorts its newest ids into their index as soon as there are this many (ids.ts: SEGMENT / PARTS). */
const SORTED = 2_048;
/** A task's id is its event's `seq` times this number, plus its handler's id. */
const HANDLERS = 4_096;
const DAY_MS = 86_400_000;

export interface Past {
  events: number;
  waiting?: number;
  /** The tasks are spread over this many lanes. */
  lanes?: number;
}

export async function fill(
  folder: string,
  { events, waiting = 0, lanes = 1 }: Past,
  progress: (line: string) => void,
): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, 'events.db');
  const store = openSqlite(path, { owner: true });
  await store.work.register(['noting']);
  store.close();
  const db = new Database(path);
  db.pragma('synchronous = off');
  db.pragma('cache_size = -200000');
  const ids = createIds(createSession(db, path));
  const addIds = db.prepare(
    'insert into latest_ids (id, event) select id, seq from events where seq between @from and @to',
  );
  const addEvents = db.prepare(`
    with recursive n (n) as (select @from union all select n + 1 from n where n < @to)
    insert into events (seq, cursor, id, type, session_id, created_at, received_at, origin, body)
    select n, 1000000 + n, lower(hex(randomblob(18))), 'MessageReceived', '00000000-0000-4000-8000-000000000000',
      @now - @events + n, @now - @events + n, 'webhook', cast(@body as blob) from n`);
  const addTasks = db.prepare(`
    insert into tasks (id, event, handler, lane, alone, cursor, state, strict, release_at, due_at, hold_until, attempts, started_at, changed_at)
    select seq * ${HANDLERS} + 1, seq, 1, 1 + seq % @lanes, 0, cursor,
      case when seq <= @waiting then 'ready' else 'done' end, 0, received_at,
      case when seq <= @lanes then @now + ${DAY_MS} else received_at end,
      case when seq <= @lanes then @now + ${DAY_MS} end, seq <= @lanes, received_at, received_at
    from events where seq between @from and @to`);
  const body = JSON.stringify({ data: { MessageReceived: { body: 'x'.repeat(300) } } });
  const now = Date.now();
  db.prepare(`
    with recursive n (n) as (select 1 union all select n + 1 from n where n < ?)
    insert into lanes (id, handler, name) select n, 1, 'past/' || n from n`).run(lanes);
  db.prepare('insert into lane_progress (lane, used_at) select id, ? from lanes').run(now);
  for (let from = 1; from <= events; from += CHUNK) {
    const to = Math.min(events, from + CHUNK - 1);
    db.transaction(() => {
      addEvents.run({ from, to, now, events, body });
      addTasks.run({ from, to, now, waiting, lanes });
    })();
    for (let at = from; at <= to; at += SORTED) {
      addIds.run({ from: at, to: Math.min(to, at + SORTED - 1) });
      ids.refresh();
      ids.fold(now);
    }
    if (Math.floor(to / 1e6) > Math.floor(from / 1e6))
      progress(`  ${Math.floor(to / 1e6)} of ${events / 1e6} million events written`);
  }
  const count = db.prepare(
    'insert into counters values (?, ?) on conflict (name) do update set value = value + excluded.value',
  );
  count.run('events', events);
  count.run('tasks.done', events - waiting);
  count.run('tasks.ready', waiting);
  count.run('waiting.noting', waiting);
  db.prepare(`update state set value = ? where name = 'fanned_out'`).run(BigInt(events));
  db.close();
}
