// Reruns put ended tasks back into their lanes, page by page in cursor order, behind live work.
import type { Clock } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import { checkBoot } from '../../store/boots.ts';
import { Counts } from '../../store/counts.ts';
import { laneOf } from '../../store/lanes.ts';
import { eventsOf, seqsOf } from '../../store/rows.ts';
import { stateOf, type Change, type Database, type Sql } from '../../store/sql.ts';
import type { NewTask, StoredEvent } from '../../store/work.ts';

/** Events in a page. */
const PAGE = 64;
const MINUTE_MS = 60_000;
/** The cursor that stands for none. A rerun begins with events without a cursor. */
const NO_CURSOR = '-1' as Cursor;

interface RerunRow {
  id: number;
  handler: number;
  /** `all`: an event that the handler had no task for gets one. */
  only: 'all' | 'dead';
  filter: string;
  after: Cursor;
  afterSeq: number;
  until: Cursor;
  untilSeq: number;
  perMinute: number | null;
}

/** A page without events ends the rerun. */
export type RerunPage = RerunRow & { events: StoredEvent[] };

const NEXT = `select r.id, r.handler, r."only", r.filter, cast(r.after_cursor as text) as after, r.after_seq as "afterSeq",
    cast(r.until_cursor as text) as until, r.per_minute as "perMinute",
    case when r.until_seq < h.position then r.until_seq else h.position end as "untilSeq"
  from reruns r join handlers h on h.id = r.handler
  where r.ended_at is null and r.next_at <= @now and r.handler in (select cast(value as bigint) from json_each(@handlers))
  order by r.next_at limit 1`;
const KEY = 'select e.seq, coalesce(octet_length(e.body), 0) as bytes';
const MATCHES = '(e.type = @type or @type is null) and (e.session = @session or @session is null)';
// A task has the cursor -1 if its event has none.
const DEAD = `${KEY} from tasks t join events e on e.seq = t.event
  where t.handler = @handler and t.state = 3 and (t.cursor, t.event) > (cast(@after as bigint), @afterSeq)
    and t.cursor <= cast(@until as bigint) and t.event <= @untilSeq and ${MATCHES}
    and (instr(t.error, @error) = 1 or @error is null)
  order by t.cursor, t.event limit @limit`;
const WITHOUT_CURSOR = `${KEY} from events e
  where e.cursor is null and e.seq > @afterSeq and e.seq <= @untilSeq and ${MATCHES} order by e.seq limit @limit`;
const BY_CURSOR = `${KEY} from events e
  where e.cursor > cast(@after as bigint) and e.cursor <= cast(@until as bigint) and e.seq <= @untilSeq and ${MATCHES}
  order by e.cursor limit @limit`;
const STATE = 'select state from tasks where event = @event and handler = @handler';
/** Makes the lane if it is missing, and locks it. */
export const HOLD = `insert into lanes (id, handler) values (@lane, @handler)
  on conflict (id) do update set handler = excluded.handler`;
const RESET = `update tasks set state = 0, lane = @lane, cursor = cast(@cursor as bigint), due_at = @now, failed_at = null,
    attempts = 0, crashes = 0, late = 0, rerun = 1, error = null, ended_at = null
  where event = @event and handler = @handler and state = @state`;
const ADD = `insert into tasks (event, handler, lane, cursor, due_at, rerun)
  select seq, cast(@handler as bigint), cast(@lane as bigint), cast(@cursor as bigint), cast(@now as bigint), 1
  from events where seq = @event on conflict do nothing`;
const GO = `update reruns set after_cursor = cast(@after as bigint), after_seq = @afterSeq, next_at = @nextAt,
    tasks = tasks + @tasks, ended_at = coalesce(ended_at, cast(@endedAt as bigint)),
    filter = case when cast(@endedAt as bigint) is null then filter else '{}' end
  where id = @id`;

const CURRENT = `select 1 as one from reruns where id = @id and ended_at is null
  and after_cursor = cast(@after as bigint) and after_seq = @afterSeq`;

async function eventsFor(tx: Sql, row: RerunRow): Promise<StoredEvent[]> {
  const filter = JSON.parse(row.filter) as Record<string, string>;
  const limit = Math.min(PAGE, Math.max(1, Math.floor((row.perMinute ?? Infinity) / 60)));
  const keys = (sql: string): Promise<{ seq: number; bytes: number }[]> => tx.all(sql, { ...row, ...filter, limit });
  if (row.only === 'dead') return eventsOf(tx, seqsOf(await keys(DEAD)));
  const first = row.after === NO_CURSOR ? await keys(WITHOUT_CURSOR) : [];
  return eventsOf(tx, seqsOf(first.length > 0 ? first : await keys(BY_CURSOR)));
}

/** True: the task waits again, or was made. */
type Again = Omit<NewTask, 'lane'> & { lane: number };
async function again(tx: Change, task: Again, only: string, now: number, counts: Counts): Promise<boolean> {
  const { event, handler, lane } = task;
  const row = { event, handler, lane, cursor: task.cursor ?? NO_CURSOR, now };
  const known = await tx.get<{ state: number }>(STATE, row);
  if (known) {
    if (known.state === 0 || (only === 'dead' && known.state !== 3)) return false;
    if ((await tx.run(RESET, { ...row, ...known })) === 0) return false;
    counts.move(handler, known.state, 0);
    return true;
  }
  if (only === 'dead' || (await tx.run(ADD, row)) === 0) return false;
  counts.add(handler, 'waiting', 1);
  return true;
}

/** Reruns, which `run` hands to its handlers. */
export function createReruns(db: Database, clock: Clock) {
  return {
    /** The next page that is due for one of these handlers. Null: none is due. */
    page: (handlers: number[]): Promise<RerunPage | null> =>
      db.read(async (tx) => {
        const row = await tx.get<RerunRow>(NEXT, { now: clock.now(), handlers: JSON.stringify(handlers) });
        return row ? { ...row, events: await eventsFor(tx, row) } : null;
      }),

    /** Puts the tasks of a page into the lanes that the handler names now. */
    apply: (boot: number, page: RerunPage, list: NewTask[]): Promise<void> =>
      db.write(async (tx) => {
        const { id, handler, only, perMinute, events } = page;
        await checkBoot(tx, boot);
        // Meanwhile a person may have stopped the rerun, or another instance may have put this page back.
        await tx.lock(`rerun ${id}`);
        if (!(await tx.get(CURRENT, { ...page }))) return;
        const now = clock.now();
        const key = await stateOf(tx, 'lane_key');
        const tasks = list.map((task) => ({ ...task, lane: laneOf(key, task) }));
        const lanes = [...new Set(tasks.map(({ lane }) => lane))].toSorted((a, b) => a - b);
        for (const lane of lanes) await tx.run(HOLD, { lane, handler });
        const counts = new Counts();
        const changed = await Promise.all(tasks.map((task) => again(tx, task, only, now, counts)));
        await tx.touch(lanes);
        await counts.write(tx);
        const last = events.at(-1);
        const pauseMs = perMinute ? Math.ceil((MINUTE_MS * events.length) / perMinute) : 0;
        const next = { after: last?.cursor ?? NO_CURSOR, afterSeq: last?.seq ?? 0, nextAt: now + pauseMs };
        const done = { tasks: changed.filter(Boolean).length, endedAt: last ? null : now };
        await tx.run(GO, { id, ...next, ...done });
      }),
  };
}
