// Reruns: ended tasks go back into their lanes, page by page in cursor order, behind live work.
import type { Clock } from '../../base/clock.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { NewTask, StoredEvent } from '../work.ts';
import type { Boots } from './boots.ts';
import type { Connections, Tx } from './connection.ts';
import { Counts } from './counts.ts';
import { EVENT, toEvent, type EventRow } from './events.ts';
import { addTasks, laneOf, place, touch } from './lanes.ts';
import { rows } from './rows.ts';

/** Tasks of a page. */
const PAGE = 64;
const MINUTE_MS = 60_000;
/** Where a rerun begins: events without a cursor come first. */
const NO_CURSOR = '-1' as Cursor;

interface Rerun {
  id: number;
  handler: number;
  /** `all`: a task that the handler never had is made. */
  only: 'all' | 'dead';
  filter: string;
  after: Cursor;
  afterSeq: number;
  until: Cursor;
  untilSeq: number;
  perMinute: number | null;
}

/** Without events the rerun ends here. */
export type RerunPage = Rerun & { events: StoredEvent[] };

const DUE = `select r.id, r.handler, r."only", r.filter, cast(r.after_cursor as text) as after, r.after_seq as "afterSeq",
    cast(r.until_cursor as text) as until, r.per_minute as "perMinute", least(r.until_seq, h.position) as "untilSeq"
  from reruns r join handlers h on h.id = r.handler
  where r.ended_at is null and r.next_at <= @now and r.handler = any(cast(@handlers as bigint[])) order by r.next_at limit 1`;
const MATCHES = `(cast(@type as text) is null or e.type = @type) and (cast(@session as text) is null or e.session = @session)`;
/** Cursor -1 is that of an event without one. */
const DEAD = `select ${EVENT} from tasks t join events e on e.seq = t.event
  where t.handler = @handler and t.state = 3 and (t.cursor, t.event) > (cast(@after as bigint), @afterSeq)
    and t.cursor <= cast(@until as bigint) and t.event <= @untilSeq and ${MATCHES}
    and (cast(@error as text) is null or strpos(t.error, @error) = 1)
  order by t.cursor, t.event limit @limit`;
const WITHOUT_CURSOR = `select ${EVENT} from events e
  where e.cursor is null and e.seq > @afterSeq and e.seq <= @untilSeq and ${MATCHES} order by e.seq limit @limit`;
const BY_CURSOR = `select ${EVENT} from events e
  where e.cursor > cast(@after as bigint) and e.cursor <= cast(@until as bigint) and e.seq <= @untilSeq and ${MATCHES}
  order by e.cursor limit @limit`;
const TASKS = rows({ bigint: 'event lane cursor' });
const RESET = `update tasks t set state = 0, lane = v.lane, cursor = v.cursor, due_at = @now, failed_at = null, attempts = 0,
    crashes = 0, late = 0, rerun = 1, error = null, ended_at = null
  from ${TASKS.from} join tasks was on was.event = v.event and was.handler = @handler
  where t.event = v.event and t.handler = @handler and t.state = was.state and t.state >= @least
  returning t.event, was.state`;
const GO = `update reruns set after_cursor = cast(@after as bigint), after_seq = @afterSeq, next_at = @nextAt, tasks = tasks + @tasks,
    ended_at = @endedAt, filter = case when cast(@endedAt as bigint) is null then filter else '{}' end where id = @id`;

export function createReruns(
  db: Connections,
  { clock, boots, laneKey }: { clock: Clock; boots: Boots; laneKey: string },
) {
  return {
    /** The next page that is due, of one of these handlers. */
    page: (handlers: number[]): Promise<RerunPage | null> =>
      db.read(async (tx) => {
        const row = await tx.get<Rerun>(DUE, { now: clock.now(), handlers });
        return row ? { ...row, events: (await eventsOf(tx, row)).map(toEvent) } : null;
      }),

    /** Its tasks, in the lanes that the handler names now. */
    apply: (boot: number, page: RerunPage, list: NewTask[]): Promise<void> =>
      db.write(async (tx) => {
        await boots.check(tx, boot);
        const now = clock.now();
        const counts = new Counts();
        const tasks = await again(tx, page, list, { now, counts, laneKey });
        const { id, perMinute, events } = page;
        const last = events.at(-1);
        const nextAt = now + (perMinute ? Math.ceil((MINUTE_MS * events.length) / perMinute) : 0);
        const next = { after: last?.cursor ?? NO_CURSOR, afterSeq: last?.seq ?? 0, nextAt };
        tx.last(GO, { id, ...next, tasks, endedAt: last ? null : now });
        counts.write(tx);
      }),
  };
}

async function eventsOf(tx: Tx, row: Rerun): Promise<EventRow[]> {
  const { type = null, session = null, error = null } = JSON.parse(row.filter) as Record<string, string>;
  const { handler, only, after, perMinute } = row;
  const limit = Math.min(PAGE, Math.max(1, Math.floor((perMinute ?? Infinity) / 60)));
  const range = { ...row, type, session, error, handler, limit };
  if (only === 'dead') return tx.all(DEAD, range);
  const first = after === NO_CURSOR ? await tx.all<EventRow>(WITHOUT_CURSOR, range) : [];
  return first.length > 0 ? first : tx.all(BY_CURSOR, range);
}

interface Doing {
  now: number;
  counts: Counts;
  laneKey: string;
}

/** Ended tasks wait again; of a rerun of all, missing ones are made. Resolves with their number. */
async function again(
  tx: Tx,
  { handler, only }: RerunPage,
  list: NewTask[],
  { now, counts, laneKey }: Doing,
): Promise<number> {
  const tasks = list.map((task) => ({
    ...task,
    dueAt: now,
    rerun: 1,
    lane: laneOf(laneKey, task),
    cursor: task.cursor ?? NO_CURSOR,
  }));
  const lanes = [...new Set(tasks.map(({ lane }) => lane))];
  await place(
    tx,
    lanes.map((id) => ({ id, handler, dueAt: now })),
  );
  const least = only === 'dead' ? 3 : 1;
  const reset = await tx.all<{ state: number }>(RESET, { ...TASKS.of(tasks), handler, now, least });
  for (const { state } of reset) counts.move(handler, state, 0);
  const added =
    only === 'all'
      ? await addTasks(
          tx,
          laneKey,
          list.map((task) => ({ ...task, dueAt: now })),
          counts,
          1,
        )
      : 0;
  touch(tx, lanes);
  return reset.length + added;
}
