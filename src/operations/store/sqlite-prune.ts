// Pruning: what is old, passed by replay and every handler, and has no waiting task, is removed. The floor tells replay.
import type { Cursor } from '../../wire/cursor.ts';
import { createCounters, STATES } from '../../store/sqlite/counters.ts';
import type { Db } from '../../store/sqlite/database.ts';
import type { State } from '../../store/sqlite/state.ts';
import { createWalk } from './walk.ts';

const PAGE = 500;

const statements = (db: Db) => ({
  page: db.sql<{ to: number | null; rows: number; oldest: number | null }>(`select max(seq) as "to", count(*) as rows,
    min(received_at) as oldest from (select seq, received_at from events where seq > ? order by seq limit ${PAGE})`),
  // A handler whose file is broken or missing holds pruning back: it will want these events.
  old: db.sql<{ seq: number; cursor: Cursor | null }>(`select seq, cast(cursor as text) as cursor from events e
    where seq > @after and seq <= @to and received_at < @before and seq <= (select coalesce(min(position), 9e15) from handlers)
      and (e.cursor is null or @watermark is null or e.cursor <= cast(@watermark as integer))
      and not exists (select 1 from tasks t where t.event = e.seq and t.state = 0) order by seq`),
  tasks: db.sql<{ handler: number; state: number }>('delete from tasks where event = ? returning handler, state'),
  attempts: db.sql('delete from attempts where event = ?'),
  event: db.sql('delete from events where seq = ?'),
  quarantine: db.sql('delete from quarantine where received_at < ?'),
  // Above the floor a lane still says what is late.
  lanes:
    db.sql(`delete from lanes where id > ? and id <= ? and due_at is null and boot is null and done_cursor <= cast(? as integer)
    and not exists (select 1 from tasks t where t.lane = lanes.id and t.state = 0)`),
});

/**
 * Looks at a page of events after the number `after`, and removes those that were received before this time, are passed by
 * replay and every handler, and have no waiting task. Resolves with the number that it came to. Null: to the end, for
 * events come in the order of their receipt.
 */
export function createPruning(db: Db, state: State) {
  const sql = statements(db);
  const counters = createCounters(db);
  const lanesById = createWalk(db, 'id', 'lanes');

  function remove(before: number, after: number, to: number): void {
    const counts = counters();
    const events = sql.old.all({ before, after, to, watermark: state.cursor('watermark') });
    let floor = state.cursor('floor');
    let done = 0;
    for (const { seq, cursor } of events) {
      for (const task of sql.tasks.all(seq)) {
        const was = STATES[task.state] ?? 'waiting';
        counts.add(task.handler, was, -1);
        if (was === 'done') done++;
      }
      sql.attempts.run(seq);
      sql.event.run(seq);
      if (cursor !== null && (floor === null || BigInt(cursor) > BigInt(floor))) floor = cursor;
    }
    counts.write();
    state.count({ events: -events.length, pruned: events.length, pruned_done: done });
    if (floor !== null) state.setCursor('floor', floor);
  }

  return async (before: number, after = 0): Promise<number | null> => {
    const { to = null, rows = 0, oldest } = (await db.query(() => sql.page.get(after))) ?? {};
    if (to !== null && Number(oldest) < before) await db.write(() => remove(before, after, to));
    if (rows === PAGE && Number(oldest) < before) return to;
    await db.write(() => sql.quarantine.run(before));
    const floor = await db.query(() => state.cursor('floor'));
    if (floor !== null) await lanesById((from, upTo) => db.write(() => sql.lanes.run(from, upTo, floor)));
    return null;
  };
}
