// Second step of a turn: events become tasks and lanes, and the handler's position moves. Strict tasks wait until the
// watermark has passed them.
import type { Cursor } from '../../wire/cursor.ts';
import type { NewTask, Order } from '../work.ts';
import type { Counters } from './counters.ts';
import type { Db } from './database.ts';
import { NEVER, type Lanes } from './lanes.ts';

/** Strict tasks that one turn releases. */
const RELEASED = 1_024;
const HIGHEST = '9223372036854775807' as Cursor;

export type Tasks = ReturnType<typeof createTasks>;

export function createTasks(db: Db, lanes: Lanes) {
  const move = db.sql('update handlers set position = @upTo where id = @handler and position = @from');
  const insert = db.sql(`insert into tasks (event, handler, lane, cursor, due_at, state, error, ended_at, rerun)
    values (@event, @handler, @lane, cast(@cursor as integer), @dueAt, @state, @error, @endedAt, @rerun) on conflict do nothing`);
  const held = db.sql<{ event: number; lane: number }>(`select event, lane from tasks
    where handler = ? and state = 0 and due_at = ${NEVER} and cursor <= cast(? as integer) order by cursor limit ${RELEASED}`);
  const release = db.sql('update tasks set due_at = ? where event = ? and handler = ?');
  const waits = db.value<number>(`select 1 from tasks where handler = ? and state = 0 and due_at = ${NEVER} limit 1`);

  return {
    move: (handler: number, from: number, upTo: number): boolean => move.run({ handler, from, upTo }).changes > 0,
    /** Adds the lanes whose head may have changed to `touched`. */
    add(task: NewTask, due: number, counters: Counters, touched: Set<number>, rerun = 0): void {
      const { handler, event, cursor, dead = null } = task;
      const lane = lanes.of(task);
      const isDead = dead !== null;
      const row = { event, handler, lane, cursor: cursor ?? '-1', dueAt: due, rerun, error: dead };
      const isNew = insert.run({ ...row, state: isDead ? 3 : 0, endedAt: isDead ? due : null }).changes > 0;
      if (isNew) counters.add(handler, isDead ? 'dead' : 'waiting', 1);
      if (isDead || !isNew) return;
      if (!lanes.place(lane, handler, due)) touched.add(lane);
    },
    /** Strict tasks at or below the watermark are due now; if the handler is no longer strict, all are. */
    release(handler: number, order: Order, watermark: Cursor | null, now: number): 'more' | 'done' {
      const upTo = order === 'strict' ? watermark : HIGHEST;
      if (upTo === null) return 'done';
      const tasks = held.all(handler, upTo);
      for (const { event } of tasks) release.run(now, event, handler);
      for (const lane of new Set(tasks.map((task) => task.lane))) lanes.touch(lane);
      return tasks.length === RELEASED ? 'more' : 'done';
    },
    areHeld: (handler: number): boolean => waits.get(handler) !== undefined,
  };
}
