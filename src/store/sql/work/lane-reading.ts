// Reads lanes and their waiting tasks.
import type { Heads, LaneRow, Want } from '../../lanes/lane.ts';
import { LOOKS, type Facts, type StrictRow } from '../../lanes/strict-order.ts';
import type { Session } from '../session.ts';
import { toWaiting, WAITING, type WaitingRow } from './waiting.ts';

export const IN_LANE = `state = 'ready' and alone = 0`;
const STRICT = `t.state = 'ready' and t.strict = 1 and t.alone = 0`;

type TextRow = Omit<LaneRow, 'finished' | 'unproven'> & { finished: string; unproven: string };

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createLaneReading(session: Session) {
  const { max, oneOf } = session.dialect;
  const lanes = session.statement<TextRow>(`
    select id, handler, name, rerun, coalesce(cast(finished as text), '-1') as finished, coalesce(cast(unproven as text), '-1') as unproven
    from lanes left join lane_progress on lane = id where id ${oneOf('?', 'bigint')}`);
  const named = session.value<number>(
    `select id from lanes where name ${oneOf('@names', 'text')} and handler = @handler and rerun = @rerun order by id`,
  );
  // The query skips from lane to lane: it takes as many steps as lanes, however many tasks wait in each.
  const waitingLanes = session.value<number>(`
    with recursive waiting (lane) as (
      select min(lane) from tasks where ${IN_LANE}
      union all select (select min(lane) from tasks where lane > waiting.lane and ${IN_LANE}) from waiting where lane is not null
    ) select lane from waiting where lane is not null`);
  // "cross" makes SQLite start from the few claims, not from the tasks.
  const working = session.statement<{ lane: number; claims: number }>(`
    select t.lane, count(*) as claims from claims c cross join tasks t
    where t.id = c.task and t.alone = 0 and t.lane is not null group by t.lane`);
  const dirty = session.statement<{ n: number; lane: number }>('select n, lane from dirty_lanes');
  const heads = session.statement<WaitingRow>(
    `select ${WAITING} from tasks where lane = +? and ${IN_LANE} order by tasks.cursor, tasks.id limit +?`,
  );
  // Reads from the highest cursor down, past the few held tasks, to the first released one.
  const top = session.value<string>(
    `select cast(cursor as text) from tasks where lane = +? and ${IN_LANE} and strict = 0 and release_at <= +? order by tasks.cursor desc limit 1`,
  );
  const earliest = session.value<number | null>(
    `select min(release_at) from tasks where lane = +? and ${IN_LANE} and strict = 0`,
  );
  const furthest = session.value<string | null>(
    'select cast(max(finished) as text) from lanes join lane_progress on lane = id where handler = ? and rerun = 0',
  );
  const overtaken = session.value<number>(`
    select 1 where exists (select 1 from lane_progress where lane = @lane and finished > @cursor)
      or (@alone = 1 and exists (
        select 1 from claims c cross join tasks t where t.id = c.task and t.lane = @lane and t.cursor > @cursor))`);
  const facts = session.statement<Record<'watermark' | 'searched' | 'newest' | 'fannedOut', string | null>>(`
    select (select cast(value as text) from state where name = 'watermark') as watermark,
      (select cast(value as text) from state where name = 'searched') as searched,
      (select cast(max(seq) as text) from events) as newest,
      (select cast(value as text) from state where name = 'fanned_out') as "fannedOut"`);
  const strict = session.value<number>(`
    select count(*) from tasks t cross join lane_progress l
    where l.lane = t.lane and ${STRICT} and t.cursor > +? and t.cursor <= +? and t.cursor > ${max}(l.finished, l.unproven)`);
  // By cursor and lane, because several handlers may have a task of the same cursor.
  const strictAfter = session.statement<{ cursor: string; lane: number; event: number }>(`
    select cast(t.cursor as text) as cursor, t.lane, t.event from tasks t
    where ${STRICT} and (t.cursor, t.lane) > (+?, +?) order by t.cursor, t.lane limit ${LOOKS}`);

  return {
    async lanes(ids: number[]): Promise<LaneRow[]> {
      return ids.length === 0 ? [] : (await lanes.all(ids)).map(toLane);
    },
    named: (handler: number, rerun: number, names: string[]) => named.all({ handler, rerun, names }),
    waitingLanes: () => waitingLanes.all(),
    working: async () => new Map((await working.all()).map(({ lane, claims }) => [lane, claims])),
    dirty: () => dirty.all(),
    async heads({ lane: id, most, released }: Want, now: number): Promise<Heads> {
      const tasks = (await heads.all(id, most)).map(toWaiting);
      const isHeld = tasks.some(({ cursor, strict: waits }) => !waits && cursor !== null && cursor > released);
      const more = tasks.length >= most;
      if (!isHeld) return { lane: id, tasks, more, top: null, earliest: null };
      // The tasks that are still held arrived within the last ORDER_WINDOW_MS, so `earliest` reads few rows.
      const upTo = await top.get(id, now);
      if (upTo !== undefined) return { lane: id, tasks, more, top: BigInt(upTo), earliest: null };
      return { lane: id, tasks, more, top: null, earliest: (await earliest.get(id)) ?? null };
    },
    highestOf: async (handler: number): Promise<bigint> => BigInt((await furthest.get(handler)) ?? -1),
    isOvertaken: async (id: number, cursor: bigint, alone: boolean): Promise<boolean> =>
      (await overtaken.get({ lane: id, cursor, alone: alone ? 1 : 0 })) !== undefined,
    async facts(): Promise<Facts> {
      const { watermark = null, searched = null, newest = null, fannedOut = null } = (await facts.get()) ?? {};
      return {
        watermark: BigInt(watermark ?? -1),
        searched: Number(searched),
        newest: Number(newest),
        fannedOut: Number(fannedOut),
      };
    },
    countStrict: async (above: bigint, upTo: bigint): Promise<number> => (await strict.get(above, upTo)) ?? 0,
    strictAfter: async (cursor: bigint, id: number): Promise<StrictRow[]> =>
      (await strictAfter.all(cursor, id)).map((row) => ({ ...row, cursor: BigInt(row.cursor) })),
  };
}

function toLane(row: TextRow): LaneRow {
  return { ...row, finished: BigInt(row.finished), unproven: BigInt(row.unproven) };
}
