// What people read: lists of events and tasks, in short steps, so that the process can do other work in between.
import { setImmediate } from 'node:timers/promises';
import type { Origin } from '../../wire/event.ts';
import type { Cause, EventFilter, EventLine, TaskFilter, TaskLine } from './shapes.ts';
import { STATES } from '../../store/counts.ts';
import { NEVER } from '../../store/lanes.ts';
import { parseCursor } from '../../wire/cursor.ts';
import { ORIGINS, originOf } from '../../store/rows.ts';
import type { Values } from '../../store/sql.ts';
import type { PeopleStore } from './open.ts';

/** At most this many tasks of a handler are grouped by cause. */
const CAUSES = 10_000;
/** Events that one statement of a search looks at. */
const STRETCH = 10_000;
const KEY = `case when e.cursor is null then 'i:' || e.id else 'c:' || cast(e.cursor as text) end`;
const LINE = `select e.seq, ${KEY} as key, e.id, cast(e.cursor as text) as cursor, e.type, e.session,
    e.created_at as "createdAt", e.received_at as "receivedAt", e.origin, e.origins, e.deliveries,
    case when e.body is null then 1 else 0 end as erased from events e`;
const EVENTS = `${LINE} where e.seq >= @from and e.seq < @to
  and (e.type = @type or @type is null) and (e.session = @session or @session is null)
  and (e.received_at >= @since or @since is null) and (e.received_at <= @until or @until is null)
  and (instr(e.body, @sender) > 0 or @sender is null) and (instr(e.body, @text) > 0 or @text is null)
  and (exists (select 1 from tasks t where t.event = e.seq and t.state = @state) or @state is null)
  order by e.seq desc limit @limit`;
const OUTCOMES = `select t.event, h.name, t.state from tasks t join handlers h on h.id = t.handler
  where t.event in (select cast(value as bigint) from json_each(@seqs)) order by h.name`;
const tasksIn = (order: 'asc' | 'desc'): string => `select h.name as handler, t.event, ${KEY} as key, e.type, t.state,
    t.attempts, t.crashes, t.failed_at as "firstFailedAt", t.ended_at as "endedAt", t.late, t.error,
    case when t.state = 0 and t.due_at < ${NEVER} then t.due_at end as "dueAt",
    case when t.state = 0 and t.cursor <= l.claimed_to then 1 else 0 end as running
  from tasks t join handlers h on h.id = t.handler join events e on e.seq = t.event left join lanes l on l.id = t.lane
  where t.event >= @from and t.event < @to and (h.name = @handler or @handler is null)
    and (t.state = @state or @state is null) and (e.type = @type or @type is null)
    and (e.session = @session or @session is null) and (instr(t.error, @error) = 1 or @error is null)
  order by t.event ${order}, h.name limit @limit`;
/** Groups the newest tasks by the first line of their error, and names the newest event of each group. */
const causesOf = (which: string): string => `select c.error, c.tasks, c."newestAt", ${KEY} as example
  from (select substr(error, 1, instr(error || @line, @line) - 1) as error, count(*) as tasks,
      max(coalesce(ended_at, failed_at)) as "newestAt", max(event) as event
    from (select event, error, ended_at, failed_at from tasks where handler = @id and ${which} desc limit ${CAUSES}) newest
    where error is not null group by 1) c join events e on e.seq = c.event`;
const CAUSE = {
  waiting: causesOf('state = 0 and failed_at is not null order by failed_at'),
  dead: causesOf('state = 3 order by cursor'),
};

type EventRow = Omit<EventLine, 'erased' | 'origin' | 'origins' | 'outcomes'> &
  Record<'origin' | 'origins' | 'erased', number>;
type TaskRow = Omit<TaskLine, 'state' | 'running' | 'late'> & Record<'state' | 'running' | 'late', number>;

async function lines(db: PeopleStore, rows: EventRow[]): Promise<EventLine[]> {
  const seqs = JSON.stringify(rows.map(({ seq }) => seq));
  const all = await db.all<{ event: number; name: string; state: number }>(OUTCOMES, { seqs });
  const byEvent = Map.groupBy(all, ({ event }) => event);
  return rows.map(({ origin, origins, erased, ...row }) => ({
    ...row,
    origin: originOf(origin),
    origins: (Object.keys(ORIGINS) as Origin[]).filter((name) => (origins & ORIGINS[name]) > 0),
    erased: erased === 1,
    outcomes: Object.fromEntries(
      (byEvent.get(row.seq) ?? []).map(({ name, state }) => [name, STATES[state] ?? 'waiting']),
    ),
  }));
}

async function seqOf(db: PeopleStore, which: string): Promise<number | null> {
  return (await db.get<{ seq: number | null }>(`select ${which} as seq`))?.seq ?? null;
}

/**
 * Searches the events in stretches, from the newest down, or `up` from the oldest event with a waiting task. A rare match
 * may come after millions of other rows, and the process must answer others meanwhile.
 */
async function search<Row>(
  db: PeopleStore,
  sql: string,
  filter: Values,
  limit: number,
  before?: number,
  up = false,
): Promise<Row[]> {
  const rows: Row[] = [];
  const first = up
    ? // Without `+ 0` SQLite would walk the table's own key, which begins with millions of ended tasks.
      '(select min(event + 0) from tasks where state = 0)'
    : '(select min(seq) from events)';
  const oldest = (await seqOf(db, first)) ?? Infinity;
  const end = before ?? ((await seqOf(db, '(select max(seq) from events)')) ?? 0) + 1;
  for (let passed = 0; passed < end - oldest && rows.length < limit; passed += STRETCH) {
    const from = up ? oldest + passed : end - passed - STRETCH;
    const stretch = { ...filter, from, to: from + STRETCH, limit: limit - rows.length };
    rows.push(...(await db.all<Row>(sql, stretch)));
    await setImmediate();
  }
  return rows;
}

/** Finds an event by its key, id or cursor. */
export async function readEvent(db: PeopleStore, name: string): Promise<EventLine | null> {
  const [, kind, rest = name] = /^([ci]):(.*)$/s.exec(name) ?? [];
  const isCursor = parseCursor(rest) !== undefined;
  const byId = kind === 'c' ? undefined : await db.get<EventRow>(`${LINE} where e.id = @rest`, { rest });
  const byCursor = `${LINE} where e.cursor = cast(@rest as bigint)`;
  const row = byId ?? (isCursor && kind !== 'i' ? await db.get<EventRow>(byCursor, { rest }) : undefined);
  return row ? ((await lines(db, [row]))[0] ?? null) : null;
}

export async function readEvents(
  db: PeopleStore,
  { outcome, before, sender, text, ...filter }: EventFilter,
): Promise<EventLine[]> {
  const bytes = {
    sender: sender === undefined ? null : Buffer.from(`"from":${JSON.stringify(sender)}`),
    text: text === undefined ? null : Buffer.from(text),
  };
  return lines(db, await search(db, EVENTS, { ...filter, ...bytes, state: numberOf(outcome) }, filter.limit, before));
}

/** Newest first; `state` waiting: oldest first. */
export async function readTasks(db: PeopleStore, { event: name, state, ...filter }: TaskFilter): Promise<TaskLine[]> {
  const found = name === undefined ? undefined : await readEvent(db, name);
  if (found === null) return [];
  const asked = { ...filter, state: numberOf(state) };
  const up = state === 'waiting';
  const sql = tasksIn(up ? 'asc' : 'desc');
  const rows = found
    ? await db.all<TaskRow>(sql, { ...asked, from: found.seq, to: found.seq + 1 })
    : await search<TaskRow>(db, sql, asked, filter.limit, undefined, up);
  return rows.map(({ state: at, running, late, crashes, ...row }) => ({
    ...row,
    crashes: crashes / 4,
    state: STATES[at] ?? 'waiting',
    running: running === 1,
    late: late === 1,
  }));
}

/** The causes of failing tasks and dead letters, the most frequent first. */
export async function readCauses(
  db: PeopleStore,
  { handler, state, limit }: Pick<TaskFilter, 'handler' | 'state' | 'limit'>,
): Promise<Cause[]> {
  const causes: Cause[] = [];
  const known = 'select id, name from handlers where name = @handler or @handler is null';
  for (const { id, name } of await db.all<{ id: number; name: string }>(known, { handler }))
    for (const which of ['waiting', 'dead'] as const)
      if (state === undefined || state === which)
        for (const row of await db.all<Omit<Cause, 'handler' | 'state'>>(CAUSE[which], { id, line: '\n' }))
          causes.push({ handler: name, state: which, ...row });
  return causes.toSorted((a, b) => b.tasks - a.tasks).slice(0, limit);
}

const numberOf = (state: TaskLine['state'] | undefined): number | null =>
  state === undefined ? null : STATES.indexOf(state);
