// What people change in tasks. Every change of a waiting task must touch its lane.
import type { Change } from '../../store/sql.ts';
import { Counts, STATES } from '../../store/counts.ts';
import { HIGHEST } from '../../store/lanes.ts';
import type { PeopleStore } from './open.ts';
import { HOLD } from './reruns.ts';
import type { Rerun, TaskFilter } from './shapes.ts';
import { walk, type Stretch } from './walk.ts';

type Task = Record<'event' | 'handler' | 'lane' | 'state', number>;

const WAITING = `select t.event, t.handler, t.lane from tasks t join handlers h on h.id = t.handler
  join events e on e.seq = t.event where t.state = 0 and t.event > @from and t.event <= @to and h.name = @handler
    and (e.type = @type or @type is null) and (e.session = @session or @session is null)
    and (instr(t.error, @error) = 1 or @error is null)`;
const SKIP = `update tasks set state = 2, ended_at = @now, error = 'discarded'
  where event = @event and handler = @handler and state = 0 returning handler, lane, 0 as state`;
const HASTEN = `update tasks set due_at = @now where event = @event and handler = @handler and state = 0
  and failed_at is not null returning handler, lane, 0 as state`;
const AGAIN = `update tasks set state = 0, due_at = @now, failed_at = null, attempts = 0, crashes = 0, error = null,
  ended_at = null, rerun = case when state > 0 then 1 else rerun end where event = @event and handler = @handler and state = @state`;
const RERUN = `insert into reruns (handler, "only", filter, after_cursor, after_seq, until_cursor, until_seq,
    per_minute, next_at, asked_at)
  select id, @only, @filter, cast(@after as bigint), cast(@afterSeq as bigint), cast(@until as bigint),
    (select coalesce(max(seq), 0) from events), cast(@perMinute as bigint), cast(@now as bigint), cast(@now as bigint)
  from handlers where name = @handler returning id`;
/** Tables with rows of a handler, and the key by which each is walked. */
const OF_HANDLER = { tasks: 'event', attempts: 'event', lanes: 'id' };

/** Its file is not back. */
const AWAY = "exists (select 1 from handlers where id = @id and state <> 'loaded')";

/** Deletes a handler that will not come back, with its tasks and all its other rows. */
export async function forget(db: PeopleStore, handler: string): Promise<void> {
  const { id } = (await db.get<{ id: number }>('select id from handlers where name = @handler', { handler })) ?? {};
  // This comes first: otherwise an interruption could leave waiting tasks whose lane is deleted.
  await discard(db, { handler, limit: 0 });
  for (const [table, key] of Object.entries(OF_HANDLER)) {
    const sql = `delete from ${table} where ${key} > @from and ${key} <= @to and handler = @id and ${AWAY}`;
    await walk(db, table, key, (stretch) => db.run(sql, { ...stretch, id }));
  }
  await db.write(async (tx) => {
    await tx.lock('handlers');
    if ((await tx.run(`delete from handlers where id = @id and ${AWAY}`, { id })) === 0) return;
    await tx.run('delete from reruns where handler = @id', { id });
    await tx.run('delete from setup_steps where handler = @handler', { handler });
  });
}

/** Ends waiting tasks as skipped. `event` is an event's number. Resolves with the number of tasks. */
export const discard = (db: PeopleStore, filter: TaskFilter): Promise<number> => changeWaiting(db, filter, SKIP, 2);

/** Makes failing tasks due now. Resolves with their number. */
export const hasten = (db: PeopleStore, filter: TaskFilter): Promise<number> => changeWaiting(db, filter, HASTEN, 0);

async function changeWaiting(
  db: PeopleStore,
  { event, ...filter }: TaskFilter,
  sql: string,
  to: number,
): Promise<number> {
  let changed = 0;
  // The search runs outside the transaction, because it may pass many tasks that do not match.
  async function stretch(range: Stretch): Promise<void> {
    const tasks = await db.all<Task>(WAITING, { ...filter, ...range });
    if (tasks.length > 0) changed += await db.write((tx) => change(tx, tasks, sql, to, db.clock.now()));
  }
  const seq = Number(event);
  await (event === undefined ? walk(db, 'tasks', 'event', stretch) : stretch({ from: seq - 1, to: seq }));
  return changed;
}

async function change(tx: Change, tasks: Task[], sql: string, to: number, now: number): Promise<number> {
  await tx.lock(tasks.map(({ lane }) => lane));
  const changed: Task[] = [];
  for (const { event, handler } of tasks) changed.push(...(await tx.all<Task>(sql, { event, handler, now })));
  await tx.touch(changed.map(({ lane }) => lane));
  await moved(tx, changed, to);
  return changed.length;
}

async function moved(tx: Change, tasks: Task[], to: number): Promise<void> {
  const counts = new Counts();
  for (const { handler, state } of tasks) counts.move(handler, state, to);
  await counts.write(tx);
}

/** Makes one task due now, with all its attempts again. False: it is missing or done, or has just stepped aside. */
export function retry(db: PeopleStore, name: string, event: number): Promise<boolean> {
  return db.write(async (tx) => {
    const which = `select event, handler, lane, state from tasks
      where event = @event and handler = (select id from handlers where name = @name)`;
    const find = (): Promise<Task | undefined> => tx.get<Task>(which, { event, name });
    const before = await find();
    if (!before || STATES[before.state] === 'done') return false;
    // Holds the lane, which was deleted if it held only this task. Until it is held, the task may end, or step aside.
    await tx.run(HOLD, { ...before });
    const task = await find();
    const isOpen =
      task !== undefined &&
      STATES[task.state] !== 'done' &&
      task.lane === before.lane &&
      (await tx.run(AGAIN, { ...task, now: db.clock.now() })) > 0;
    if (isOpen) await moved(tx, [task], 0);
    await tx.touch([before.lane]);
    return isOpen;
  });
}

/** Adds a rerun. Resolves with its number. Null: no handler has this name. */
export async function rerun(db: PeopleStore, { from, to, filter, ...rest }: Rerun): Promise<number | null> {
  // Events without a cursor come first, as -1. A range begins after every event with the cursor just below `from`.
  const [after, afterSeq] = from === null ? ['-1', 0] : [String(BigInt(from) - 1n), Number.MAX_SAFE_INTEGER];
  const until = to ?? HIGHEST;
  const row = { ...rest, filter: JSON.stringify(filter), after, afterSeq, until, now: db.clock.now() };
  return db.write(async (tx) => (await tx.get<{ id: number }>(RERUN, row))?.id ?? null);
}
