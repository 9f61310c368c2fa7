// Lanes, for many at once. A transaction locks its lanes first, by id, in a statement of its own, and reads their tasks in a
// later one: so it sees what was written before, and no two wait for each other.
import { hash } from 'node:crypto';
import type { NewTask } from '../work.ts';
import type { Tx } from './connection.ts';
import type { Counts } from './counts.ts';
import { idsOf, rows } from './rows.ts';

/** `due_at` of a strict task that waits for the watermark. */
export const NEVER = 9_000_000_000_000_000;
/** Of a free lane: its head, the lowest waiting cursor. */
const HEAD = `(due_at, suspect) = (select due_at, cast(crashes > 0 as int) from tasks where lane = lanes.id and state = 0
  order by cursor limit 1)`;
/** Handlers are numbered below this. */
const HANDLERS = 4_096;
/** Strict tasks that one turn releases. */
const RELEASED = 1_024;

const IDS = 'id = any(cast(@ids as bigint[]))';
const ENDS = rows({ bigint: 'id cursor' });
const PLACES = rows({ bigint: 'id handler dueAt' });
const TASKS = rows({ bigint: 'event handler lane cursor dueAt', text: 'dead' });

const ADD = `insert into tasks (event, handler, lane, cursor, due_at, error, state, ended_at, rerun)
  select event, handler, lane, cursor, "dueAt", dead, case when dead is null then 0 else 3 end,
    case when dead is not null then "dueAt" end, @rerun
  from ${TASKS.from} on conflict do nothing returning event, handler, state`;

/** The lane of one task. */
export const ownLane = (handler: number, event: number): number => -(event * HANDLERS + handler);

/** A task without a lane's name or without a cursor has a lane of its own. Others: a keyed hash, 52 bits. */
export function laneOf(key: string, { handler, event, cursor, lane }: NewTask): number {
  if (lane === null || cursor === null) return ownLane(handler, event);
  return Number.parseInt(hash('sha256', `${key}/${handler}/${lane}`).slice(0, 13), 16);
}

/** Call it before their tasks are read or changed. `which`: other lanes than these. */
export const lock = (
  tx: Tx,
  ids: number[],
  which = IDS,
): Promise<{ id: number; boot: number | null; claim: number }[]> =>
  tx.all(`select id, boot, claim from lanes where ${which} order by id for update`, { ids });

/** Call it after every change to their waiting tasks. The lane of one task goes with it. */
export function touch(tx: Tx, ids: number[]): void {
  if (ids.length > 0) tx.last(`update lanes set ${HEAD} where ${IDS} and boot is null`, { ids });
  dropOwn(tx, ids);
}

/** How far a lane has come. */
type End = { id: number; cursor: string };
const NOTHING = '-1';

/** Claims are over, and their lanes have come this far. */
export function free(tx: Tx, ids: number[], ends: End[] = []): void {
  pass(
    tx,
    [...ids.map((id) => ({ id, cursor: NOTHING })), ...ends],
    `, boot = null, claim = null, claimed_to = null, ${HEAD}`,
  );
  dropOwn(tx, ids);
}

/** The same for claims that go on. */
export function pass(tx: Tx, ends: End[], more = ''): void {
  const highest = new Map<number, bigint>();
  for (const { id, cursor } of ends) if (BigInt(cursor) >= (highest.get(id) ?? -1n)) highest.set(id, BigInt(cursor));
  if (highest.size === 0) return;
  const text = `update lanes set done_cursor = greatest(done_cursor, v.cursor)${more} from ${ENDS.from} where lanes.id = v.id`;
  tx.last(text, ENDS.of([...highest].map(([id, cursor]) => ({ id, cursor }))));
}

function dropOwn(tx: Tx, lanes: number[]): void {
  const ids = lanes.filter((id) => id < 0);
  if (ids.length > 0) tx.last(`delete from lanes where ${IDS} and due_at is null and boot is null`, { ids });
}

/** `dueAt`: of its lowest new cursor. */
export type Place = Record<'id' | 'handler' | 'dueAt', number>;

/** Locks lanes, and makes those that are missing. Resolves with those that had waiting tasks: touch them afterwards. */
export async function place(tx: Tx, places: Place[]): Promise<number[]> {
  if (places.length === 0) return [];
  const placed = await tx.all<{ id: number }>(
    `insert into lanes (id, handler, due_at, suspect) select id, handler, "dueAt", 0 from ${PLACES.from} order by id
    on conflict (id) do update set due_at = excluded.due_at, suspect = 0 where lanes.boot is null and lanes.due_at is null
    returning id`,
    PLACES.of(places),
  );
  const ids = new Set(idsOf(placed));
  return places.flatMap(({ id }) => (ids.has(id) ? [] : id));
}

/** New tasks come into their lanes. Resolves with their number. */
export async function addTasks(
  tx: Tx,
  key: string,
  list: (NewTask & { dueAt: number })[],
  counts: Counts,
  rerun = 0,
): Promise<number> {
  const tasks = list.map((task) => ({
    ...task,
    dead: task.dead ?? null,
    lane: laneOf(key, task),
    cursor: task.cursor ?? '-1',
  }));
  const heads = new Map<number, (typeof tasks)[number]>();
  for (const task of tasks.filter(({ dead }) => dead === null))
    if (BigInt(task.cursor) < BigInt(heads.get(task.lane)?.cursor ?? 2n ** 63n)) heads.set(task.lane, task);
  const places = [...heads].map(([id, task]) => ({ ...task, id }));
  const [late, added] = await Promise.all([
    place(tx, places),
    tx.all<{ event: number; handler: number; state: number }>(ADD, { ...TASKS.of(tasks), rerun }),
  ]);
  for (const { handler, state } of added) counts.add(handler, state === 0 ? 'waiting' : 'dead');
  // If a task was there already, it may be no head.
  touch(tx, added.length < tasks.length ? [...heads.keys()] : late);
  return added.length;
}

/** Tasks of the handler that wait for the watermark and are at or below this cursor are due now. True: there are more. */
export async function release(tx: Tx, handler: number, upTo: string, now: number): Promise<boolean> {
  const held = `handler = @handler and state = 0 and due_at = ${NEVER}`;
  const tasks = await tx.all<{ event: number; lane: number }>(
    `select event, lane from tasks where ${held} and cursor <= cast(@upTo as bigint) order by cursor limit ${RELEASED}`,
    { handler, upTo },
  );
  const lanes = [...new Set(tasks.map(({ lane }) => lane))];
  await lock(tx, lanes);
  const events = tasks.map(({ event }) => event);
  await tx.run(`update tasks set due_at = @now where ${held} and event = any(cast(@events as bigint[]))`, {
    now,
    handler,
    events,
  });
  touch(tx, lanes);
  return tasks.length === RELEASED;
}
