// Reruns as people ask for them: what a range holds, the requests, and their progress.
import type { AdminStore } from '../../admin.ts';
import type { RerunAt } from '../../work.ts';
import type { Point, Range, Rerun } from '../../read.ts';
import { createByTime } from '../read/by-time.ts';
import { isoOf, type Session } from '../session.ts';
import { createWalk } from '../work/reruns.ts';

const LAST = 2n ** 63n - 1n;

function startOf({ fromCursor, fromEvent }: Range): RerunAt {
  return { cursor: fromCursor > 0n ? fromCursor - 1n : -1n, event: fromEvent - 1 };
}

type Reruns = Pick<AdminStore, 'range' | 'survey' | 'reruns' | 'askRerun' | 'cancelRerun'>;

export function createReruns(session: Session): Reruns {
  const { lastBefore } = createByTime(session);
  const walk = createWalk(session, '');
  const ask = session.value<number>(`
    insert into reruns (handler, type, since, until, from_cursor, to_cursor, from_event, to_event, at_cursor, at_event, events, asked_at)
    values ((select id from handlers where name = @handler), @type, @from, @to, @fromCursor, @toCursor, @fromEvent, @toEvent,
      @cursor, @event, @events, @now)
    returning id`);
  const waiting = `select count(*) from tasks where rerun = r.id and rerun > 0 and state = 'ready'`;
  type ListRow = Omit<Rerun, 'state' | 'askedAt'> & { asked_at: number; ended_at: number | null; cancelled: number };
  const list = session.statement<ListRow>(`
    select r.id, h.name as handler, r.type, since as "from", until as "to", asked_at, ended_at, cancelled, events, seen, made,
      kept, purged, (${waiting} and attempts = 0 and deferred = 0) as untried,
      (${waiting} and (attempts > 0 or deferred > 0)) as retrying
    from reruns r join handlers h on h.id = r.handler order by r.id desc limit ?`);
  const cancel = session.statement(`
    update reruns set cancelled = 1, ended_at = coalesce(ended_at, ?) where id = ? and (ended_at is null
      or exists (select 1 from tasks where rerun = reruns.id and rerun > 0 and state = 'ready'))`);
  const waitingOf = session.value<number>(
    `select id from tasks where rerun = ? and rerun > 0 and state = 'ready' order by id`,
  );

  async function range(from: Point, to: Point | null): Promise<Range> {
    const fannedOut = Number(await session.state('fanned_out'));
    return {
      fromCursor: typeof from === 'string' ? BigInt(from) : -1n,
      toCursor: typeof to === 'string' ? BigInt(to) : LAST,
      fromEvent: typeof from === 'number' ? (await lastBefore(from)) + 1 : 0,
      toEvent: typeof to === 'number' ? Math.min(await lastBefore(to), fannedOut) : fannedOut,
    };
  }

  return {
    range,
    async survey(given, type, at, limit) {
      const { rows, upTo, last } = await walk(given, type, at ?? startOf(given), limit);
      const types = [...Map.groupBy(rows, (row) => row.type)].map(([name, group]) => ({
        type: name,
        events: group.length,
        purged: group.filter(({ purged }) => purged).length,
      }));
      return { types, next: last ? null : upTo };
    },
    reruns: async (limit) =>
      (await list.all(limit)).map(({ asked_at: askedAt, ended_at: endedAt, cancelled, ...rerun }) => {
        const open = endedAt === null || rerun.untried > 0;
        return { ...rerun, state: cancelled === 1 ? 'cancelled' : open ? 'running' : 'ended', askedAt: isoOf(askedAt) };
      }),
    askRerun: async ({ range: given, ...asked }, now) =>
      Number(await ask.get({ ...asked, ...given, ...startOf(given), now })),
    cancelRerun: (id, now) =>
      session.write(async () => ((await cancel.run(now, id)) === 1 ? waitingOf.all(id) : null), 'work'),
  };
}
