// Reads waiting tasks, says when a task can be claimed, and notes that lanes have changed.
import type { Waiting } from '../../lanes/waiting.ts';
import type { Session } from '../session.ts';

export const WAITING = `id, event, handler, lane, alone, cast(cursor as text) as cursor, strict, release_at as "releaseAt",
  due_at as "dueAt", hold_until as "holdUntil", rerun, isolated, attempts, deferred, error`;

export type WaitingRow = Omit<Waiting, 'cursor' | 'alone' | 'strict' | 'isolated'> &
  Record<'alone' | 'strict' | 'isolated', number> & { cursor: string | null };

export function toWaiting(row: WaitingRow): Waiting {
  const { cursor, alone, strict, isolated } = row;
  return {
    ...row,
    cursor: cursor === null ? null : BigInt(cursor),
    alone: alone === 1,
    strict: strict === 1,
    isolated: isolated === 1,
  };
}

/** A condition for queries of tasks: the task is the next of its lane, and no task of the lane is claimed. */
const NEXT = `not exists (select 1 from claims where task = tasks.id) and (tasks.alone = 1
  or not exists (select 1 from claims c cross join tasks o where o.id = c.task and o.lane = tasks.lane and o.alone = 0)
  and not exists (select 1 from tasks o where o.lane = tasks.lane and o.state = 'ready' and o.alone = 0 and o.cursor < tasks.cursor))`;

/**
 * A condition for queries of tasks: the task is due, and runs in a process of its own. `?`: now. `handlers`: a test of
 * the handler's id, such as `in (…)`. `+` makes the database find the few isolated tasks, and not read all that wait.
 */
export const isolatedOf = (handlers: string): string =>
  `state = 'ready' and isolated = 1 and due_at <= ? and +handler ${handlers} and ${NEXT}`;

/** The maximum number of handlers. A task's id is made of its event and its handler. */
export const HANDLERS = 4_096;
/** A range for the ids of an event's tasks. `seq` is a column or a parameter. */
export const idsOfEvent = (seq: string): string =>
  `between ${seq} * ${HANDLERS} and ${seq} * ${HANDLERS} + ${HANDLERS - 1}`;

/** Tells the process that keeps the lanes in memory to read these lanes again. */
export function createMarkDirty(session: Session): (lanes: number[]) => Promise<void> {
  const insert = session.insertAll({ into: 'dirty_lanes', columns: { lane: 'bigint' } });
  return async (lanes) => {
    const rows = [...new Set(lanes)].toSorted((a, b) => a - b).map((lane) => [lane]);
    if (rows.length > 0) await insert(rows);
  };
}
