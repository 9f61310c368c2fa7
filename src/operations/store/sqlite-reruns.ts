// Reruns put ended tasks back into their lanes, page by page in cursor order, behind live work.
import { systemClock, type Clock } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { NewTask, StoredEvent } from '../../store/work.ts';
import { createBoots } from '../../store/sqlite/boots.ts';
import { createCounters, STATES, type Counters } from '../../store/sqlite/counters.ts';
import type { Db } from '../../store/sqlite/database.ts';
import { createLanes, createTasks } from '../../store/sqlite/lanes.ts';
import { createState } from '../../store/sqlite/state.ts';
import { EVENT, pageOf, type EventRow } from '../../store/sqlite/rows.ts';

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

const MATCHES = '(@type is null or e.type = @type) and (@session is null or e.session = @session)';

const statements = (db: Db) => ({
  due: db.sql<RerunRow>(`select id, handler, only, filter, cast(after_cursor as text) as after, after_seq as afterSeq,
      cast(until_cursor as text) as until, per_minute as perMinute,
      min(until_seq, (select position from handlers h where h.id = handler)) as untilSeq
    from reruns where ended_at is null and next_at <= ? and handler in (select value from json_each(?))
    order by next_at limit 1`),
  // A task has the cursor -1 if its event has none.
  dead: db.sql<EventRow>(`select ${EVENT} from tasks t join events e on e.seq = t.event
    where t.handler = @handler and t.state = 3 and (t.cursor, t.event) > (cast(@after as integer), @afterSeq)
      and t.cursor <= cast(@until as integer) and t.event <= @untilSeq and ${MATCHES}
      and (@error is null or instr(t.error, @error) = 1)
    order by t.cursor, t.event limit @limit`),
  withoutCursor: db.sql<EventRow>(`select ${EVENT} from events e
    where e.cursor is null and e.seq > @afterSeq and e.seq <= @untilSeq and ${MATCHES} order by e.seq limit @limit`),
  byCursor: db.sql<EventRow>(`select ${EVENT} from events e
    where e.cursor > cast(@after as integer) and e.cursor <= cast(@until as integer) and e.seq <= @untilSeq and ${MATCHES}
    order by e.cursor limit @limit`),
  reset:
    db.sql(`update tasks set state = 0, lane = @lane, cursor = cast(@cursor as integer), due_at = @now, failed_at = null, attempts = 0, crashes = 0,
      late = 0, rerun = 1, error = null, ended_at = null
    where event = @event and handler = @handler and state >= @least`),
  stateOf: db.value<number>('select state from tasks where event = ? and handler = ?'),
  go: db.sql(`update reruns set after_cursor = cast(@after as integer), after_seq = @afterSeq, next_at = @nextAt,
    tasks = tasks + @tasks, ended_at = @endedAt, filter = iif(@endedAt is null, filter, '{}') where id = @id`),
});

function eventsOf(sql: ReturnType<typeof statements>, row: RerunRow): StoredEvent[] {
  const { type = null, session = null, error = null } = JSON.parse(row.filter) as Record<string, string>;
  const { handler, only, after, afterSeq, until, untilSeq, perMinute } = row;
  const limit = Math.min(PAGE, Math.max(1, Math.floor((perMinute ?? Infinity) / 60)));
  const range = { after, afterSeq, until, untilSeq, type, session, limit };
  if (only === 'dead') return pageOf(sql.dead.iterate({ ...range, handler, error }), limit).events;
  const first = after === NO_CURSOR ? pageOf(sql.withoutCursor.iterate(range), limit).events : [];
  return first.length > 0 ? first : pageOf(sql.byCursor.iterate(range), limit).events;
}

/** Reruns, which `run` hands to its handlers. */
export function createReruns(db: Db, clock: Clock = systemClock) {
  const lanes = createLanes(db, createState(db));
  const [counters, boots, tasks] = [createCounters(db), createBoots(db, lanes), createTasks(db, lanes)];
  const sql = statements(db);

  /** True: the task waits again, or was made. */
  function one(task: NewTask, page: RerunPage, now: number, counts: Counters, touched: Set<number>): boolean {
    const [{ event, handler }, { only }] = [task, page];
    const state = sql.stateOf.get(event, handler);
    if (state === undefined) {
      if (only === 'all') tasks.add(task, now, counts, touched, 1);
      return only === 'all';
    }
    const lane = lanes.of(task);
    const was = STATES[state];
    const least = only === 'dead' ? 3 : 1;
    const cursor = task.cursor ?? NO_CURSOR;
    if (!was || sql.reset.run({ event, handler, lane, cursor, now, least }).changes === 0) return false;
    counts.add(handler, was, -1);
    counts.add(handler, 'waiting', 1);
    if (!lanes.place(lane, handler, now)) touched.add(lane);
    return true;
  }

  return {
    /** The next page that is due for one of these handlers. Null: none is due. */
    page(handlers: number[]): Promise<RerunPage | null> {
      return db.read(() => {
        const row = sql.due.get(clock.now(), JSON.stringify(handlers));
        return row ? { ...row, events: eventsOf(sql, row) } : null;
      });
    },

    /** Puts the tasks of a page into the lanes that the handler names now. */
    apply(boot: number, page: RerunPage, list: NewTask[]): Promise<void> {
      return db.write(() => {
        boots.check(boot);
        const now = clock.now();
        const counts = counters();
        const touched = new Set<number>();
        const changed = list.filter((task) => one(task, page, now, counts, touched)).length;
        for (const lane of touched) lanes.touch(lane);
        counts.write();
        const { id, perMinute, events } = page;
        const last = events.at(-1);
        const pauseMs = perMinute ? (MINUTE_MS * events.length) / perMinute : 0;
        const next = { after: last?.cursor ?? NO_CURSOR, afterSeq: last?.seq ?? 0, nextAt: now + pauseMs };
        sql.go.run({ id, ...next, tasks: changed, endedAt: last ? null : now });
      });
    },
  };
}
