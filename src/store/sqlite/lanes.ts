// Lanes: which lane a task is in, and when a lane is due. `touch` keeps one rule: a free lane is due when its head is.
// Strict tasks wait until the watermark has reached them.
import type { Cursor } from '../../wire/cursor.ts';
import type { Counts } from '../counts.ts';
import { HIGHEST, laneOf, NEVER, RELEASED } from '../lanes.ts';
import type { NewTask, Order } from '../work.ts';
import type { Db } from './database.ts';
import type { State } from './state.ts';

/** SQL for the `due_at` and `suspect` of a lane: both are taken from its head, the lowest waiting cursor. */
export const HEAD =
  '(select due_at, crashes > 0 from tasks where lane = lanes.id and state = 0 order by cursor limit 1)';

export type Lanes = ReturnType<typeof createLanes>;

export function createLanes(db: Db, state: State) {
  const place = db.sql(`insert into lanes (id, handler, due_at, suspect) values (?, ?, ?, 0)
    on conflict (id) do update set due_at = excluded.due_at, suspect = 0 where boot is null and due_at is null`);
  const touch = db.sql(`update lanes set (due_at, suspect) = ${HEAD} where id = ? and boot is null`);
  const drop = db.sql('delete from lanes where id = ? and due_at is null and boot is null');
  let key: unknown;

  return {
    of: (task: NewTask): number => laneOf((key ??= state.get('lane_key')), task),
    /** Makes a missing or empty lane due at `dueAt`, for a new task in it. False: it is neither, so touch it afterwards. */
    place: (lane: number, handler: number, dueAt: number): boolean => place.run(lane, handler, dueAt).changes > 0,
    /** Call it after every change to a lane's waiting tasks. A lane made for one task is deleted once it is empty. */
    touch(lane: number): void {
      touch.run(lane);
      if (lane < 0) drop.run(lane);
    },
  };
}

export type Tasks = ReturnType<typeof createTasks>;

/** Second step of a turn: events become tasks, and the handler's position moves. */
export function createTasks(db: Db, lanes: Lanes) {
  const move = db.sql('update handlers set position = @upTo where id = @handler and position = @from');
  const insert = db.sql(`insert into tasks (event, handler, lane, cursor, due_at, state, error, ended_at)
    values (?, ?, ?, cast(? as integer), ?, ?, iif(? is null, null, iif((select body is null from events where seq = ?), 'erased', ?)), ?)
    on conflict do nothing`);
  const held = db.sql<{ event: number; lane: number }>(`select event, lane from tasks
    where handler = +? and state = 0 and due_at = ${NEVER} and cursor <= cast(? as integer) order by cursor limit ${RELEASED}`);
  const release = db.sql('update tasks set due_at = ? where event = ? and handler = ?');
  const waits = db.value<number>(`select 1 from tasks where handler = ? and state = 0 and due_at = ${NEVER} limit 1`);

  return {
    move: (handler: number, from: number, upTo: number): boolean => move.run({ handler, from, upTo }).changes > 0,
    /** Adds a task. If the head of its lane may have changed, the lane is added to `touched`. */
    add(task: NewTask, due: number, counts: Counts, touched: Set<number>): void {
      const { handler, event, cursor, dead = null } = task;
      const lane = lanes.of(task);
      const isDead = dead !== null;
      const end = isDead ? [3, dead, event, dead, due] : [0, null, null, null, null];
      const isNew = insert.run(event, handler, lane, cursor ?? '-1', due, ...end).changes > 0;
      if (isNew) counts.add(handler, isDead ? 'dead' : 'waiting', 1);
      if (isDead || !isNew) return;
      if (!lanes.place(lane, handler, due)) touched.add(lane);
    },
    /** Makes tasks that wait for the watermark due if it has reached them, or if the handler is no longer strict. */
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
