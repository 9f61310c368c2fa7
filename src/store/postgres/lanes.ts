// Lanes, for many at once. A transaction locks its lanes first, by id, in a statement of its own, and then reads their tasks
// in another one: so it sees what was written before, and no two wait for each other.
import { hash } from 'node:crypto';
import type { Sql } from '../sql.ts';
import type { NewTask } from '../work.ts';
import type { Counts } from './counts.ts';
import { columnsOf } from './values.ts';

/** `due_at` of a strict task that waits for the watermark. */
export const NEVER = 9_000_000_000_000_000;
/** Of a free lane's due time: the head, its lowest waiting cursor. */
export const HEAD = `(select due_at, cast(crashes > 0 as int) from tasks where lane = lanes.id and state = 0
  order by cursor limit 1)`;
/** Handlers are numbered below this. */
const HANDLERS = 4_096;

/** The lane of one task. */
export const ownLane = (handler: number, event: number): number => -(event * HANDLERS + handler);

/** A task without a lane's name or without a cursor has a lane of its own. Others: a keyed hash, 52 bits. */
export function laneOf(key: string, { handler, event, cursor, lane }: NewTask): number {
  if (lane === null || cursor === null) return ownLane(handler, event);
  return Number.parseInt(hash('sha256', `${key}/${handler}/${lane}`).slice(0, 13), 16);
}

/** Call it before their tasks are read or changed. */
export const lock = (tx: Sql, lanes: Iterable<number>): Promise<{ id: number; boot: number | null; claim: number }[]> =>
  tx.all('select id, boot, claim from lanes where id = any(cast(@lanes as bigint[])) order by id for update', {
    lanes: [...lanes],
  });

/** Call it after every change to their waiting tasks. The lane of one task goes with it. */
export async function touch(tx: Sql, given: Iterable<number>): Promise<void> {
  const lanes = [...given];
  if (lanes.length === 0) return;
  await tx.run(
    `update lanes set (due_at, suspect) = ${HEAD} where id = any(cast(@lanes as bigint[])) and boot is null`,
    { lanes },
  );
  await dropOwn(tx, lanes);
}

/** Of these, the lanes of one task that are empty. */
export async function dropOwn(tx: Sql, lanes: number[]): Promise<void> {
  const own = lanes.filter((lane) => lane < 0);
  if (own.length > 0)
    await tx.run('delete from lanes where id = any(cast(@own as bigint[])) and due_at is null and boot is null', {
      own,
    });
}

/** The lane, and when its lowest new cursor is due. */
export interface Place {
  id: number;
  handler: number;
  dueAt: number;
}

/**
 * Locks lanes, and makes those that are missing. One that had no waiting task is due as its place says; resolves with the
 * others, which must be touched afterwards.
 */
export async function place(tx: Sql, places: Place[]): Promise<Set<number>> {
  const rows = await tx.all<{ id: number }>(
    `insert into lanes (id, handler, due_at, suspect)
    select id, handler, due_at, 0 from unnest(cast(@id as bigint[]), cast(@handler as bigint[]), cast(@dueAt as bigint[]))
      as v (id, handler, due_at) order by id
    on conflict (id) do update set due_at = excluded.due_at, suspect = 0 where lanes.boot is null and lanes.due_at is null
    returning id`,
    columnsOf(places, 'id', 'handler', 'dueAt'),
  );
  const placed = new Set(rows.map(({ id }) => id));
  return new Set(places.flatMap(({ id }) => (placed.has(id) ? [] : id)));
}

export type DueTask = NewTask & { dueAt: number };

/** New tasks come into their lanes. Resolves with their number. */
export async function addTasks(tx: Sql, key: string, tasks: DueTask[], counts: Counts, rerun = 0): Promise<number> {
  const rows = tasks.map((task) => ({ ...task, lane: laneOf(key, task), cursor: task.cursor ?? '-1' }));
  const heads = new Map<number, (typeof rows)[number]>();
  for (const row of rows) {
    const head = heads.get(row.lane);
    if (row.dead === undefined && (!head || BigInt(row.cursor) < BigInt(head.cursor))) heads.set(row.lane, row);
  }
  const places = [...heads].map(([id, { handler, dueAt }]) => ({ id, handler, dueAt }));
  const touched = await place(tx, places);
  const added = await tx.all<{ event: number; handler: number; state: number }>(
    `insert into tasks (event, handler, lane, cursor, due_at, error, state, ended_at, rerun)
    select event, handler, lane, cursor, due_at, error, case when error is null then 0 else 3 end,
      case when error is not null then due_at end, @rerun
    from unnest(cast(@event as bigint[]), cast(@handler as bigint[]), cast(@lane as bigint[]), cast(@cursor as bigint[]),
      cast(@dueAt as bigint[]), cast(@dead as text[])) as v (event, handler, lane, cursor, due_at, error)
    on conflict do nothing returning event, handler, state`,
    { ...columnsOf(rows, 'event', 'handler', 'lane', 'cursor', 'dueAt', 'dead'), rerun },
  );
  for (const { handler, state } of added) counts.add(handler, state === 0 ? 'waiting' : 'dead', 1);
  // A task that was there already may not wait.
  const known = new Set(added.map(({ event, handler }) => `${event} ${handler}`));
  for (const { event, handler, lane } of rows)
    if (!known.has(`${event} ${handler}`) && heads.has(lane)) touched.add(lane);
  await touch(tx, touched);
  return added.length;
}

/** Strict tasks that one turn releases. */
const RELEASED = 1_024;

/** Tasks of the handler that wait for the watermark and are at or below this cursor are due now. */
export async function release(
  tx: Sql,
  handler: number,
  upTo: string | undefined,
  now: number,
): Promise<'more' | 'done'> {
  const held = await tx.all<{ event: number; lane: number }>(
    `select event, lane from tasks where handler = @handler and state = 0 and due_at = ${NEVER}
      and cursor <= cast(@upTo as bigint) order by cursor limit ${RELEASED}`,
    { handler, upTo },
  );
  const lanes = new Set(held.map(({ lane }) => lane));
  await lock(tx, lanes);
  await tx.run(
    `update tasks set due_at = @now where handler = @handler and event = any(cast(@events as bigint[]))
      and state = 0 and due_at = ${NEVER}`,
    { now, handler, events: held.map(({ event }) => event) },
  );
  await touch(tx, lanes);
  return held.length === RELEASED ? 'more' : 'done';
}
