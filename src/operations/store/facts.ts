// Reads one snapshot of facts, by indexes only, so that it is cheap with any number of rows.
import type { Sql } from '../../store/sql.ts';
import { NEVER } from '../../store/lanes.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { PeopleStore } from './open.ts';
import type { Facts, HandlerFacts } from './shapes.ts';

/** At most this many are counted: events that a handler has not taken up; failing tasks, whose lanes are counted. */
const COUNTED = 1_000;
/** Recent tasks: ended within this time, and at most this many events before or after the newest dead letter. */
const RECENT = { events: 1_000, ms: 3_600_000 };

type Judged = Pick<HandlerFacts, 'behind' | 'failing' | 'recent' | 'suspects' | 'dueSince' | 'heldSince'>;
type HandlerRow = Omit<HandlerFacts, keyof Judged | 'paused'> & { paused: number };

const HANDLERS = `select id, name, file, state, fault, position, paused, waiting, done, skipped, dead, failed
  from handlers order by name`;
const FAILING_LANES = `select count(distinct case when lane >= 0 then lane end) as lanes, min(failed_at) as since
  from (select lane, failed_at from tasks where handler = @id and state = 0 and failed_at is not null
    order by failed_at limit ${COUNTED}) failing`;
const NEWEST_DEAD = 'select event from tasks where handler = @id and state = 3 order by cursor desc limit 1';
const AROUND = `select count(*) as ended, count(*) filter (where state = 3) as dead from tasks
  where event > @event - ${RECENT.events} and event < @event + ${RECENT.events} and handler = @id and ended_at > @since
    and not exists (select 1 from reruns where handler = @id and "only" = 'dead' and ended_at is null)`;
const due = (suspect: 0 | 1): string => `select due_at from (select due_at from lanes
  where handler = @id and suspect = ${suspect} and due_at is not null order by due_at limit 1) due${suspect}`;
const DUE = `select min(due_at) as at from (${due(0)} union all ${due(1)}) due`;
const NEXT = `select min(received_at) as at, count(*) as n from (select received_at from events
  where seq > @position order by seq limit ${COUNTED}) next`;
const SUSPECTS = `select (select count(*) from lanes where handler = @id and suspect = 1 and due_at is not null)
  + (select count(*) from lanes where handler = @id and suspect = 1 and boot is not null) as n`;
const HELD = `select e.received_at as at from tasks t join events e on e.seq = t.event
  where t.handler = @id and t.state = 0 and t.due_at = ${NEVER} order by t.cursor limit 1`;
/** Those that gave a sign of life in the last ten seconds in which one did. */
const INSTANCES = `select count(distinct instance) as v from boots
  where role = 'live' and seen_at >= (select max(seen_at) from boots) - 10000`;
const RUNNING = `select cast(sum((select count(*) from tasks t
    where t.lane = l.id and t.state = 0 and t.cursor <= l.claimed_to)) as bigint) as v
  from lanes l where l.boot is not null`;

async function handlerOf(tx: Sql, row: HandlerRow, at: number, newest: number): Promise<HandlerFacts> {
  const { id, position } = row;
  const { lanes = 0, since = null } =
    (await tx.get<{ lanes: number; since: number | null }>(FAILING_LANES, { id })) ?? {};
  const dead = await tx.get<{ event: number }>(NEWEST_DEAD, { id });
  const range = { id, event: dead?.event, since: at - RECENT.ms };
  const recent = dead && (await tx.get<HandlerFacts['recent']>(AROUND, range));
  const { at: dueAt = null } = (await tx.get<{ at: number | null }>(DUE, { id })) ?? {};
  const { at: receivedAt = null, n = 0 } = (await tx.get<{ at: number | null; n: number }>(NEXT, { position })) ?? {};
  const times = [dueAt, since, receivedAt].flatMap((time) => (time !== null && time <= at ? [time] : []));
  return {
    ...row,
    paused: row.paused === 1,
    // Numbers have holes, so counting is exact, and subtracting is not.
    behind: n < COUNTED ? n : newest - position,
    failing: since === null ? null : { lanes, since },
    recent: recent ?? { ended: 0, dead: 0 },
    suspects: (await tx.get<{ n: number }>(SUSPECTS, { id }))?.n ?? 0,
    dueSince: times.length > 0 ? Math.min(...times) : null,
    heldSince: (await tx.get<{ at: number }>(HELD, { id }))?.at ?? null,
  };
}

export const readFacts = (db: PeopleStore): Promise<Facts> =>
  db.read(async (tx) => {
    const at = db.clock.now();
    const one = async <Value>(sql: string): Promise<Value | null> => (await tx.get<{ v: Value }>(sql))?.v ?? null;
    const told = "select name, cast(value as text) as value from state where name <> 'lane_key'";
    const rows = await tx.all<{ name: string; value: string }>(told);
    const state = Object.fromEntries(rows.map(({ name, value }) => [name, JSON.parse(value) as unknown]));
    const newest = (await one<number>('select max(seq) as v from events')) ?? 0;
    const handlers: HandlerFacts[] = [];
    for (const row of await tx.all<HandlerRow>(HANDLERS)) handlers.push(await handlerOf(tx, row, at, newest));
    return {
      at,
      state,
      watermark: (state['watermark'] ?? null) as Cursor | null,
      floor: (state['floor'] ?? null) as Cursor | null,
      newestCursor: await one<Cursor>(
        'select cast(cursor as text) as v from events where cursor is not null order by events.cursor desc limit 1',
      ),
      newestAt: await one<number>('select received_at as v from events order by seq desc limit 1'),
      handlers,
      instances: (await one<number>(INSTANCES)) ?? 0,
      running: (await one<number>(RUNNING)) ?? 0,
      gaps: await tx.all<Facts['gaps'][number]>(
        'select cast(after as text) as after, cast(up_to as text) as "upTo" from gaps where closed_at is null order by id limit 100',
      ),
      alarms: await tx.all<Facts['alarms'][number]>(
        'select name, about, level, text, raised_at as "raisedAt", posted_at as "postedAt" from alarms order by raised_at',
      ),
      conflictAt: await one<number>("select max(received_at) as v from quarantine where reason = 'conflict'"),
      reruns: await tx.all<Facts['reruns'][number]>(`select h.name as handler, r."only", r.tasks
        from reruns r join handlers h on h.id = r.handler where r.ended_at is null order by r.id`),
    };
  });
