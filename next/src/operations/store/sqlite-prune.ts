// Pruning: what is old, passed by replay and every handler, and has no waiting task, is removed. The floor tells replay.
import type { Cursor } from '../../wire/cursor.ts';
import { createCounters, STATES } from '../../store/sqlite/counters.ts';
import type { Db } from '../../store/sqlite/database.ts';
import type { State } from '../../store/sqlite/state.ts';

const PAGE = 500;

const statements = (db: Db) => ({
  // A handler whose file is broken or missing holds pruning back: it will want these events.
  old: db.sql<{ seq: number; cursor: Cursor | null }>(`select seq, cast(cursor as text) as cursor from events e
    where received_at < @before and seq <= (select coalesce(min(position), 9e15) from handlers)
      and (e.cursor is null or @watermark is null or e.cursor <= cast(@watermark as integer))
      and not exists (select 1 from tasks t where t.event = e.seq and t.state = 0) order by seq limit ${PAGE}`),
  tasks: db.sql<{ handler: number; state: number }>('delete from tasks where event = ? returning handler, state'),
  attempts: db.sql('delete from attempts where event = ?'),
  event: db.sql('delete from events where seq = ?'),
  quarantine: db.sql('delete from quarantine where received_at < ?'),
  // Above the floor a lane still says what is late.
  lanes: db.sql(`delete from lanes where due_at is null and boot is null and done_cursor <= cast(? as integer)
    and not exists (select 1 from tasks t where t.lane = lanes.id and t.state = 0)`),
});

export class Pruning {
  readonly #state: State;
  readonly #sql: ReturnType<typeof statements>;
  readonly #counters: ReturnType<typeof createCounters>;

  constructor(db: Db, state: State) {
    this.#state = state;
    this.#sql = statements(db);
    this.#counters = createCounters(db);
  }

  page(before: number): number {
    const counts = this.#counters();
    const events = this.#sql.old.all({ before, watermark: this.#state.cursor('watermark') });
    let floor = this.#state.cursor('floor');
    for (const { seq, cursor } of events) {
      for (const { handler, state } of this.#sql.tasks.all(seq)) counts.add(handler, STATES[state] ?? 'waiting', -1);
      this.#sql.attempts.run(seq);
      this.#sql.event.run(seq);
      if (cursor !== null && (floor === null || BigInt(cursor) > BigInt(floor))) floor = cursor;
    }
    counts.write();
    this.#state.count({ events: -events.length });
    if (floor !== null) this.#state.setCursor('floor', floor);
    if (events.length < PAGE) {
      this.#sql.quarantine.run(before);
      if (floor !== null) this.#sql.lanes.run(floor);
    }
    return events.length;
  }
}
