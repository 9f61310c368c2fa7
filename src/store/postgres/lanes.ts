// Changes many lanes at once. A transaction first locks its lanes, in the order of their ids, and reads their tasks in
// a later statement. So it sees what was written before, and no two transactions wait for each other.
import type { Counts } from '../counts.ts';
import { HIGHEST, laneOf, NEVER, RELEASED } from '../lanes.ts';
import type { NewTask } from '../work.ts';
import type { Tx } from './connection.ts';
import { IDS, idsOf, rows } from './rows.ts';

/** Sets `due_at` and `suspect` of a free lane from its head. */
const HEAD = `(due_at, suspect) = (select due_at, cast(crashes > 0 as int) from tasks where lane = lanes.id and state = 0
  order by cursor limit 1)`;
const FREE = `, boot = null, claim = null, claimed_to = null, ${HEAD}`;
const ENDS = rows({ bigint: 'id cursor' });
export const TASKS = rows({ bigint: 'event handler lane cursor dueAt', text: 'dead' });
/** Makes lanes that are missing, and locks all. Returns those that had no waiting task. */
export const PLACE = `insert into lanes (id, handler, due_at, suspect)
  select distinct on (lane) lane, handler, "dueAt", 0 from ${TASKS.from} where dead is null order by lane, cursor
  on conflict (id) do update set due_at = excluded.due_at, suspect = 0 where lanes.boot is null and lanes.due_at is null
  returning id`;
const ADD = `insert into tasks (event, handler, lane, cursor, due_at, error, state, ended_at)
  select event, handler, lane, cursor, "dueAt",
    case when dead is not null and (select body is null from events where seq = event) then 'erased' else dead end, case when dead is null then 0 else 3 end,
    case when dead is not null then "dueAt" end
  from ${TASKS.from} on conflict do nothing returning event, handler, state`;
const HELD = `select event, lane from tasks where handler = @handler and state = 0 and due_at = ${NEVER}
  and cursor <= cast(@upTo as bigint) order by cursor limit ${RELEASED}`;
const RELEASE = `update tasks set due_at = @now where handler = @handler and state = 0 and due_at = ${NEVER}
  and event = any(cast(@events as bigint[]))`;

export type Locked = { id: number; boot: number | null; claim: number | null };

/** Call it before their tasks are read or changed. */
export const lockLanes = (tx: Tx, ids: number[]): Promise<Locked[]> =>
  tx.all(`select id, boot, claim from lanes where ${IDS} order by id for update`, { ids });

export const touch = async (tx: Tx, ids: number[]): Promise<void> => touchLocked(tx, idsOf(await lockLanes(tx, ids)));

/** Call it after every change to their waiting tasks. A lane made for one task is deleted once it is empty. */
export function touchLocked(tx: Tx, ids: number[]): void {
  if (ids.length > 0) tx.last(`update lanes set ${HEAD} where ${IDS} and boot is null`, { ids });
  dropOwn(tx, ids);
}

function dropOwn(tx: Tx, lanes: number[]): void {
  const ids = lanes.filter((id) => id < 0);
  if (ids.length > 0) tx.last(`delete from lanes where ${IDS} and due_at is null and boot is null`, { ids });
}

/** Marks that lanes have come as far as these cursors. `freed`: their claims are over, too. */
export function pass(tx: Tx, ends: { id: number; cursor: string }[], how?: 'freed'): void {
  if (ends.length === 0) return;
  const text = `update lanes set done_cursor = greatest(done_cursor, v.cursor)${how ? FREE : ''}
    from (select id, max(cursor) as cursor from ${ENDS.from} group by id) v where lanes.id = v.id`;
  tx.last(text, ENDS.of(ends));
  if (how) dropOwn(tx, idsOf(ends));
}

type Due = NewTask & { dueAt: number };

/** Puts new tasks into their lanes. */
export async function addTasks(tx: Tx, key: string, list: Due[], counts: Counts): Promise<void> {
  const tasks = list.map((task) => ({ ...task, lane: laneOf(key, task), cursor: task.cursor ?? '-1' }));
  const values = TASKS.of(tasks);
  const [free, added] = await Promise.all([
    tx.all<{ id: number }>(PLACE, values),
    tx.all<{ handler: number; state: number }>(ADD, values),
  ]);
  for (const { handler, state } of added) counts.add(handler, state === 0 ? 'waiting' : 'dead', 1);
  // If a task was there already, a lane may be due by a task that is not its head.
  const isDue = new Set(added.length < tasks.length ? [] : idsOf(free));
  touchLocked(
    tx,
    [...new Set(tasks.map(({ lane }) => lane))].filter((id) => !isDue.has(id)),
  );
}

/** Makes tasks due that wait for the watermark, up to the cursor `upTo`. Null: all of them. True: there may be more. */
export async function release(tx: Tx, handler: number, upTo: string | null, now: number): Promise<boolean> {
  const tasks = await tx.all<{ event: number; lane: number }>(HELD, { handler, upTo: upTo ?? HIGHEST });
  if (tasks.length === 0) return false;
  const lanes = [...new Set(tasks.map(({ lane }) => lane))];
  await lockLanes(tx, lanes);
  await tx.run(RELEASE, { now, handler, events: tasks.map(({ event }) => event) });
  touchLocked(tx, lanes);
  return tasks.length === RELEASED;
}
