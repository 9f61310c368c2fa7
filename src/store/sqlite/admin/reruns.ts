// Reruns: the requests, their progress, and the walk through history in cursor order, page by page. tasks.ts makes the
// tasks, because it keeps the lanes.
import type { AdminStore } from '../../admin.ts';
import type { RerunAt, RerunPage, StoredEvent } from '../../work.ts';
import type { Point, Range, Rerun, ReadStore } from '../../read.ts';
import { createByTime } from '../ingest/by-time.ts';
import { EVENT_COLUMNS, EVENT_TEXT, isoOf, type Session, type Sync } from '../session.ts';

const LAST = 2n ** 63n - 1n;

interface WalkRow extends StoredEvent {
  purged: number;
  /** 1: the event belongs to the rerun. */
  matches: number;
}

/**
 * Reads one page of a range: events in cursor order, then events without a cursor of their own. Both queries also
 * return events that do not match, so that the position moves past them.
 */
function createWalk({ db }: Session, body: string) {
  const matches = `e.seq between @fromEvent and @toEvent and (@type is null or e.type = @type)`;
  const placed = db.prepare<unknown[], WalkRow>(`
    select ${EVENT_COLUMNS}, e.body is null as purged, ${body}${matches} as matches from events e
    where e.cursor > @cursor and e.cursor <= @toCursor and e.conflicting = 0 order by e.cursor limit @limit`);
  const placeless = db.prepare<unknown[], WalkRow>(`
    select ${EVENT_COLUMNS}, e.body is null as purged, ${body}${matches} and coalesce(e.cursor, -1) between @fromCursor and @toCursor as matches
    from events e indexed by events_placeless
    where (e.cursor is null or e.conflicting = 1) and e.seq > @event and e.seq <= @toEvent order by e.seq limit @limit`);

  return (range: Range, type: string | null, at: RerunAt, limit: number) => {
    const asked = { ...range, ...at, type };
    const first = placed.all({ ...asked, limit });
    const rest = first.length < limit ? placeless.all({ ...asked, limit: limit - first.length }) : [];
    const upTo = { cursor: BigInt(first.at(-1)?.cursor ?? at.cursor), event: rest.at(-1)?.seq ?? at.event };
    const last = first.length + rest.length < limit;
    return { rows: [...first, ...rest].filter((row) => row.matches), upTo, last };
  };
}

function startOf({ fromCursor, fromEvent }: Range): RerunAt {
  return { cursor: fromCursor > 0n ? fromCursor - 1n : -1n, event: fromEvent - 1 };
}

const RANGE = `from_cursor as fromCursor, to_cursor as toCursor, from_event as fromEvent, to_event as toEvent`;
type RerunRow = { [Name in keyof Range | 'id' | 'handler' | 'at_cursor' | 'at_event']: bigint } & {
  type: string | null;
};

/** The part of reruns that `run` needs, because it makes the tasks. */
export function createRerunFeed(session: Session) {
  const { db } = session;
  const walk = createWalk(session, `${EVENT_TEXT}, `);
  // A cheap query first, because it runs at each turn and usually there is no rerun.
  const any = session.value('select 1 from reruns where ended_at is null limit 1');
  const next = db
    .prepare<unknown[], RerunRow>(`
    select id, handler, type, ${RANGE}, at_cursor, at_event from reruns
    where ended_at is null and handler in (select value from json_each(@handlers))
      and (select count(*) from (
        select 1 from tasks where rerun = reruns.id and rerun > 0 and state = 'ready' and attempts = 0 and deferred = 0 limit @limit)) < @limit
    order by id limit 1`)
    .safeIntegers();
  const moveOn = db.prepare(`
    update reruns set at_cursor = @toCursor, at_event = @toEvent, seen = seen + @seen, purged = purged + @purged,
      ended_at = case when @last then @now end
    where id = @id and at_cursor = @cursor and at_event = @event and ended_at is null`);
  const count = db.prepare('update reruns set made = made + ?, kept = kept + ?, purged = purged + ? where id = ?');

  return {
    next(handlers: number[], limit: number): RerunPage | null {
      const row = any.get() === undefined ? undefined : next.get({ handlers: JSON.stringify(handlers), limit });
      if (!row) return null;
      const { fromCursor, toCursor } = row;
      const range = { fromCursor, toCursor, fromEvent: Number(row.fromEvent), toEvent: Number(row.toEvent) };
      const from = { cursor: row.at_cursor, event: Number(row.at_event) };
      const { rows, upTo, last } = walk(range, row.type, from, limit);
      const events = rows.filter(({ purged }) => !purged);
      const purged = rows.length - events.length;
      return { id: Number(row.id), handler: Number(row.handler), from, upTo, last, events, purged };
    },
    /** False: the rerun was cancelled, or another process has already passed this page. */
    moveOn({ id, from, upTo, last, events, purged }: RerunPage, now: number): boolean {
      const seen = { seen: events.length + purged, purged };
      const to = { toCursor: upTo.cursor, toEvent: upTo.event };
      return moveOn.run({ id, ...from, ...to, ...seen, last: last ? 1 : 0, now }).changes === 1;
    },
    count: (id: number, made: number, kept: number, purged: number): void => void count.run(made, kept, purged, id),
  };
}

type Reruns = Pick<ReadStore, 'handlers' | 'range' | 'survey' | 'reruns'> &
  Pick<AdminStore, 'askRerun' | 'cancelRerun'>;

export function createReruns(session: Session): Sync<Reruns> {
  const { db } = session;
  const { lastBefore } = createByTime(session);
  const walk = createWalk(session, '');
  const handlers = db.prepare<[], { name: string; loaded: number }>('select name, loaded from handlers order by name');
  const ask = db.prepare(`
    insert into reruns (handler, type, since, until, from_cursor, to_cursor, from_event, to_event, at_cursor, at_event, events, asked_at)
    values ((select id from handlers where name = @handler), @type, @from, @to, @fromCursor, @toCursor, @fromEvent, @toEvent,
      @cursor, @event, @events, @now)`);
  const waiting = `select count(*) from tasks where rerun = r.id and rerun > 0 and state = 'ready'`;
  type ListRow = Omit<Rerun, 'state' | 'askedAt'> & { asked_at: number; ended_at: number | null; cancelled: number };
  const list = db.prepare<unknown[], ListRow>(`
    select r.id, h.name as handler, r.type, since as "from", until as "to", asked_at, ended_at, cancelled, events, seen, made,
      kept, purged, (${waiting} and attempts = 0 and deferred = 0) as untried,
      (${waiting} and (attempts > 0 or deferred > 0)) as retrying
    from reruns r join handlers h on h.id = r.handler order by r.id desc limit ?`);
  const cancel = db.prepare(`
    update reruns set cancelled = 1, ended_at = coalesce(ended_at, ?) where id = ? and (ended_at is null
      or exists (select 1 from tasks where rerun = reruns.id and rerun > 0 and state = 'ready'))`);
  const waitingOf = session.value<number>(
    `select id from tasks where rerun = ? and rerun > 0 and state = 'ready' order by id`,
  );

  function range(from: Point, to: Point | null): Range {
    const fannedOut = Number(session.state('fanned_out'));
    return {
      fromCursor: typeof from === 'string' ? BigInt(from) : -1n,
      toCursor: typeof to === 'string' ? BigInt(to) : LAST,
      fromEvent: typeof from === 'number' ? lastBefore(from) + 1 : 0,
      toEvent: typeof to === 'number' ? Math.min(lastBefore(to), fannedOut) : fannedOut,
    };
  }

  return {
    handlers: () => handlers.all().map(({ name, loaded }) => ({ name, loaded: loaded === 1 })),
    range,
    survey(given, type, at, limit) {
      const { rows, upTo, last } = walk(given, type, at ?? startOf(given), limit);
      const types = [...Map.groupBy(rows, (row) => row.type)].map(([name, group]) => ({
        type: name,
        events: group.length,
        purged: group.filter(({ purged }) => purged).length,
      }));
      return { types, next: last ? null : upTo };
    },
    reruns: (limit) =>
      list.all(limit).map(({ asked_at: askedAt, ended_at: endedAt, cancelled, ...rerun }) => {
        const open = endedAt === null || rerun.untried > 0;
        return { ...rerun, state: cancelled ? 'cancelled' : open ? 'running' : 'ended', askedAt: isoOf(askedAt) };
      }),
    askRerun: ({ range: given, ...asked }, now) =>
      Number(ask.run({ ...asked, ...given, ...startOf(given), now }).lastInsertRowid),
    cancelRerun: (id, now) => session.write(() => (cancel.run(now, id).changes === 1 ? waitingOf.all(id) : null)),
  };
}
