// The part of reruns that `run` needs: the walk through history in cursor order, page by page. tasks.ts makes the tasks,
// because it keeps the lanes.
import type { Range } from '../../read.ts';
import type { RerunAt, RerunPage, StoredEvent } from '../../work.ts';
import { EVENT_COLUMNS, EVENT_TEXT, type Session } from '../session.ts';

interface WalkRow extends StoredEvent {
  purged: number;
  /** 1: the event belongs to the rerun. */
  matches: number;
}

/**
 * Reads one page of a range: events in cursor order, then events without a cursor of their own. Both queries also
 * return events that do not match, so that the position moves past them.
 */
export function createWalk({ db }: Session, body: string) {
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

const RANGE = `from_cursor as fromCursor, to_cursor as toCursor, from_event as fromEvent, to_event as toEvent`;
type RerunRow = { [Name in keyof Range | 'id' | 'handler' | 'at_cursor' | 'at_event']: bigint } & {
  type: string | null;
};

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
