// The part of reruns that `run` needs: the walk through history in cursor order, page by page. tasks.ts makes the tasks,
// because it keeps the lanes.
import type { Cursor } from '../../../wire/cursor.ts';
import type { Range } from '../../read.ts';
import type { RerunAt, RerunPage } from '../../work.ts';
import { EVENT_COLUMNS, toStored, type EventRow, type Session } from '../session.ts';

interface WalkRow extends EventRow {
  purged: number;
  /** 1: the event belongs to the rerun. */
  matches: number;
}

/**
 * Reads one page of a range: events in cursor order, then events without a cursor of their own. Both queries also
 * return events that do not match, so that the position moves past them.
 */
export function createWalk({ statement, dialect }: Session, body: string) {
  const columns = (
    also: string,
  ): string => `${EVENT_COLUMNS}, case when e.body is null then 1 else 0 end as purged, ${body}
    case when e.seq between @fromEvent and @toEvent and (cast(@type as text) is null or e.type = @type) ${also} then 1 else 0 end as matches`;
  const placed = statement<WalkRow>(`
    select ${columns('')} from events e
    where e.cursor > @cursor and e.cursor <= @toCursor and e.conflicting = 0 order by e.cursor limit @limit`);
  const placeless = statement<WalkRow>(`
    select ${columns('and coalesce(e.cursor, -1) between @fromCursor and @toCursor')}
    from events e ${dialect.indexedBy('events_placeless')}
    where (e.cursor is null or e.conflicting = 1) and e.seq > @event and e.seq <= @toEvent order by e.seq limit @limit`);

  return async (range: Range, type: string | null, at: RerunAt, limit: number) => {
    const asked = { ...range, ...at, type };
    const first = await placed.all({ ...asked, limit });
    const rest = first.length < limit ? await placeless.all({ ...asked, limit: limit - first.length }) : [];
    const upTo = { cursor: BigInt(first.at(-1)?.cursor ?? at.cursor), event: rest.at(-1)?.seq ?? at.event };
    const last = first.length + rest.length < limit;
    return { rows: [...first, ...rest].filter((row) => row.matches === 1), upTo, last };
  };
}

interface RerunRow {
  id: number;
  handler: number;
  type: string | null;
  fromCursor: Cursor;
  toCursor: Cursor;
  atCursor: Cursor;
  fromEvent: number;
  toEvent: number;
  atEvent: number;
}

export function createRerunFeed(session: Session) {
  const { statement, value, dialect } = session;
  const walk = createWalk(session, `${dialect.eventText}, `);
  // A cheap query first, because it runs at each turn and usually there is no rerun.
  const any = value('select 1 from reruns where ended_at is null limit 1');
  const next = statement<RerunRow>(`
    select id, handler, type, cast(from_cursor as text) as "fromCursor", cast(to_cursor as text) as "toCursor",
      cast(at_cursor as text) as "atCursor", from_event as "fromEvent", to_event as "toEvent", at_event as "atEvent" from reruns
    where ended_at is null and handler ${dialect.oneOf('@handlers', 'bigint')}
      and (select count(*) from (
        select 1 from tasks where rerun = reruns.id and rerun > 0 and state = 'ready' and attempts = 0 and deferred = 0 limit @limit)
        as untried) < @limit
    order by id limit 1`);
  const moveOn = statement(`
    update reruns set at_cursor = @toCursor, at_event = @toEvent, seen = seen + @seen, purged = purged + @purged,
      ended_at = case when cast(@last as bigint) = 1 then cast(@now as bigint) end
    where id = @id and at_cursor = @cursor and at_event = @event and ended_at is null`);
  const count = statement('update reruns set made = made + ?, kept = kept + ?, purged = purged + ? where id = ?');

  return {
    async next(handlers: number[], limit: number): Promise<RerunPage | null> {
      const row = (await any.get()) === undefined ? undefined : await next.get({ handlers, limit });
      if (!row) return null;
      const { id, handler, type, fromEvent, toEvent } = row;
      const range = { fromCursor: BigInt(row.fromCursor), toCursor: BigInt(row.toCursor), fromEvent, toEvent };
      const from = { cursor: BigInt(row.atCursor), event: row.atEvent };
      const { rows, upTo, last } = await walk(range, type, from, limit);
      const events = rows.filter(({ purged }) => purged === 0).map(toStored);
      return { id, handler, from, upTo, last, events, purged: rows.length - events.length };
    },
    /** False: the rerun was cancelled, or another process has already passed this page. */
    async moveOn({ id, from, upTo, last, events, purged }: RerunPage, now: number): Promise<boolean> {
      const seen = { seen: events.length + purged, purged };
      const to = { toCursor: upTo.cursor, toEvent: upTo.event };
      return (await moveOn.run({ id, ...from, ...to, ...seen, last: last ? 1 : 0, now })) === 1;
    },
    count: async (id: number, made: number, kept: number, purged: number): Promise<void> =>
      void (await count.run(made, kept, purged, id)),
  };
}
