// The statements of the lanes: what the lane core must know of them, and what it decides. Other processes note the lanes
// that they change in `dirty_lanes`, and the run process reads those again.
import { randomUUID } from 'node:crypto';
import { hasNoSession, type Heads, type LaneRow, type Want } from '../../lanes/lane.ts';
import { createLaneCore, type LaneCore } from '../../lanes/lanes.ts';
import { LOOKS, type StrictRow } from '../../lanes/strict-order.ts';
import type { Waiting } from '../../lanes/waiting.ts';
import { endOf } from '../../settlement.ts';
import type { NewTask, Settlement } from '../../work.ts';
import { createBulkInsert } from '../bulk.ts';
import { bind, type Session } from '../session.ts';
import { createMarkDirty, toWaiting, WAITING, type WaitingRow } from './waiting.ts';

const IN_LANE = `state = 'ready' and alone = 0`;
const STRICT = `t.state = 'ready' and t.strict = 1 and t.alone = 0`;
const PROGRESS = `cast(finished as text) as finished, cast(unproven as text) as unproven`;
type TextRow = Omit<LaneRow, 'finished' | 'unproven'> & { finished: string; unproven: string };

export type Lanes = ReturnType<typeof createLanes>;

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createLanes(session: Session) {
  const { db } = session;
  const core: LaneCore = createLaneCore();
  const me = randomUUID();
  const markDirty = createMarkDirty(session);
  const reading = createReading(session);
  const nameLane = session.value<number>(`
    insert into lanes (handler, name, rerun) values (?, ?, ?)
    on conflict (name, handler, rerun) do update set name = excluded.name returning id`);
  const begin = db.prepare<unknown[], Pick<TextRow, 'finished' | 'unproven'>>(`
    insert into lane_progress (lane, used_at) values (?, ?)
    on conflict (lane) do update set used_at = excluded.used_at returning ${PROGRESS}`);
  const finish = createBulkInsert(db, {
    into: 'insert into lane_progress (lane, finished, used_at)',
    row: '(?, ?, ?)',
    conflict:
      'on conflict (lane) do update set finished = max(finished, excluded.finished), used_at = excluded.used_at',
  });
  const restore = db.prepare(`
    insert into lanes (id, handler, name)
    select lane, handler, 'restored ' || lane from tasks where lane = ? and ${IN_LANE} limit 1`);
  const clearDirty = db.prepare('delete from dirty_lanes');
  const setUnproven = db.prepare('update lane_progress set unproven = max(unproven, ?) where lane = ?');
  const stepAside = db.prepare('update tasks set alone = 1 where id = ?');
  let loaded = false;
  let swept = session.state('lanes_swept');

  function forget(): void {
    core.forget();
    loaded = false;
  }

  function learn(ids: number[], now: number): void {
    if (ids.length === 0) return;
    const working = reading.working();
    for (const id of ids) {
      const row = reading.lane(id);
      if (row) core.learn(row, working.get(id) ?? 0, now);
      else core.gone(id);
    }
  }

  /** Restores the rows of lanes in which tasks wait. A person may have deleted them from the file by hand. */
  function repair(ids: number[]): void {
    const lost = ids.filter((id) => !reading.lane(id));
    if (lost.length === 0) return;
    session.write(() => {
      for (const id of lost) restore.run(id);
      session.count({ lanes_restored: lost.length });
    });
  }

  return {
    core,
    /**
     * Reads all lanes into memory, if this was not done or another process has worked with the lanes since. Call it
     * outside a transaction, because it takes a while.
     */
    load(now: number) {
      if (loaded && session.state('runner') === me) return;
      forget();
      // Written before the reading, so that this process notices if another one reads the lanes meanwhile.
      session.write(() => session.setState('runner', me));
      const waiting = reading.waitingLanes();
      repair(waiting);
      learn(waiting, now);
      loaded = true;
    },
    /** Reads lanes that other processes have changed. */
    refresh(now: number) {
      const sweeps = session.state('lanes_swept');
      core.dropIdle(sweeps !== swept);
      // Nothing waits in a lane that was swept away, although it may have looked so here.
      if (sweeps !== swept) for (const id of core.unread()) if (!reading.lane(id)) core.gone(id);
      swept = sweeps;
      const changed = reading.dirty();
      if (changed.length === 0) return;
      learn(changed, now);
      clearDirty.run();
      core.strictChanged();
    },
    /** The id of the task's lane; a new lane is created. */
    enter({ handler, rerun = 0 }: NewTask, laneName: string, now: number): number {
      const known = core.laneOf(handler, rerun, laneName);
      if (known !== undefined) return known;
      const id = nameLane.get(handler, laneName, rerun);
      const progress = begin.get(id, now);
      if (id === undefined || !progress) throw new Error(`a lane of handler ${handler} cannot be created`);
      core.entered(toLane({ id, handler, name: laneName, rerun, ...progress }));
      return id;
    },
    /** Writes to the file how far the settled tasks bring their lanes. */
    saveFinished(settlements: Settlement[], now: number) {
      const ends = new Map<number, bigint>();
      for (const settlement of settlements) {
        const { lane } = settlement.claim;
        if (lane === null) continue;
        const finished = endOf(settlement);
        if (finished !== null && finished > (ends.get(lane) ?? -1n)) ends.set(lane, finished);
        if (!core.has(lane)) markDirty(lane);
      }
      finish([...ends].map(([lane, finished]) => [lane, finished, now]));
    },
    /** Follows the watermark and returns how many strict tasks still wait for it. */
    advance(now: number): number {
      core.follow(
        {
          watermark: bind(session.cursorState('watermark')) ?? -1n,
          searched: Number(session.state('searched')),
          newest: reading.newest(),
          fannedOut: Number(session.state('fanned_out')),
        },
        now,
      );
      // Tasks that the watermark has passed are counted before lanes are released past them.
      count();
      const place = core.strictWants();
      if (place) core.strictFound(reading.strictAfter(place.cursor, place.lane), now);
      count();
      return core.unproven();
    },
    heads: (wants: Want[], now: number): Heads[] => wants.map((want) => reading.heads(want, now)),
    setAside(ids: number[]) {
      for (const id of ids) stepAside.run(id);
    },
    /**
     * True if a task of the lane with a higher cursor has ended, or runs because this task kept failing and let it
     * pass. `anywhere`: this task may be in the wrong lane, so an end in any lane of its handler counts. Reruns are
     * left out.
     */
    isLate({ lane, handler, rerun, cursor, alone }: Waiting, anywhere: boolean): boolean {
      if (lane === null || cursor === null) return false;
      if (anywhere && rerun === 0 && cursor < highestOf(handler)) return true;
      const finished = alone ? null : core.finishedOf(lane);
      return finished === null ? reading.isOvertaken(lane, cursor, alone) : cursor < finished;
    },
    hasNoSession(id: number): boolean {
      const row = reading.lane(id);
      return row !== undefined && hasNoSession(row.name);
    },
    /** Drops all lanes from memory. Call it after a rollback. */
    forget,
  };

  /** The count leaves out lanes that were released, so these are saved first. */
  function count(): void {
    for (const { lane, cursor } of core.releasedUnproven()) setUnproven.run(cursor, lane);
    const range = core.strictCountIn();
    if (range) core.strictCounted(reading.countStrict(range.above, range.upTo));
  }

  function highestOf(handler: number): bigint {
    // If this process has no lanes in memory, it does not see what others finish, so it reads the file.
    const most = (loaded ? core.highestOf(handler) : null) ?? reading.highestOf(handler);
    core.knowHighest(handler, most);
    return most;
  }
}

function createReading({ db, value }: Session) {
  const lane = db.prepare<[number], TextRow>(`
    select id, handler, name, rerun, coalesce(cast(finished as text), '-1') as finished, coalesce(cast(unproven as text), '-1') as unproven
    from lanes left join lane_progress on lane = id where id = ?`);
  // The query skips from lane to lane: it takes as many steps as lanes, however many tasks wait in each.
  const waitingLanes = value<number, []>(`
    with recursive waiting (lane) as (
      select min(lane) from tasks where ${IN_LANE}
      union all select (select min(lane) from tasks where lane > waiting.lane and ${IN_LANE}) from waiting where lane is not null
    ) select lane from waiting where lane is not null`);
  // "cross" makes SQLite start from the few claims, not from the tasks.
  const working = db.prepare<[], { lane: number; claims: number }>(`
    select t.lane, count(*) as claims from claims c cross join tasks t on t.id = c.task where t.alone = 0 group by t.lane`);
  const dirty = value<number, []>('select lane from dirty_lanes');
  const heads = db.prepare<unknown[], WaitingRow>(
    `select ${WAITING} from tasks where lane = +? and ${IN_LANE} order by tasks.cursor limit +?`,
  );
  // Reads from the highest cursor down, past the few held tasks, to the first released one.
  const top = value<bigint>(
    `select cursor from tasks where lane = +? and ${IN_LANE} and strict = 0 and release_at <= +? order by cursor desc limit 1`,
  ).safeIntegers();
  const earliest = value<number | null>(
    `select min(release_at) from tasks where lane = +? and ${IN_LANE} and strict = 0`,
  );
  const furthest = value<string>(
    'select cast(max(finished) as text) from lanes join lane_progress on lane = id where handler = ? and rerun = 0',
  );
  const overtaken = value<number>(`
    select 1 where exists (select 1 from lane_progress where lane = @lane and finished > @cursor)
      or (@alone and exists (select 1 from claims c cross join tasks t on t.id = c.task where t.lane = @lane and t.cursor > @cursor))`);
  const newest = value<number | null, []>('select max(seq) from events');
  const strict = value<number>(`
    select count(*) from tasks t cross join lane_progress l on l.lane = t.lane
    where ${STRICT} and t.cursor > +? and t.cursor <= +? and t.cursor > max(l.finished, l.unproven)`);
  // By cursor and lane, because several handlers may have a task of the same cursor.
  const strictAfter = db.prepare<unknown[], { cursor: string; lane: number; event: number }>(`
    select cast(t.cursor as text) as cursor, t.lane, t.event from tasks t
    where ${STRICT} and (t.cursor, t.lane) > (+?, +?) order by t.cursor, t.lane limit ${LOOKS}`);

  return {
    lane(id: number): LaneRow | undefined {
      const row = lane.get(id);
      return row && toLane(row);
    },
    waitingLanes: () => waitingLanes.all(),
    working: () => new Map(working.all().map(({ lane: id, claims }) => [id, claims])),
    dirty: () => dirty.all(),
    heads({ lane: id, most, released }: Want, now: number): Heads {
      const tasks = heads.all(id, most).map(toWaiting);
      const isHeld = tasks.some(({ cursor, strict: waits }) => !waits && cursor !== null && cursor > released);
      const more = tasks.length >= most;
      if (!isHeld) return { lane: id, tasks, more, top: null, earliest: null };
      // The tasks that are still held arrived within the last ORDER_WINDOW_MS, so `earliest` reads few rows.
      const upTo = top.get(id, now) ?? null;
      return { lane: id, tasks, more, top: upTo, earliest: upTo === null ? (earliest.get(id) ?? null) : null };
    },
    highestOf: (handler: number): bigint => BigInt(furthest.get(handler) ?? -1),
    isOvertaken: (id: number, cursor: bigint, alone: boolean): boolean =>
      overtaken.get({ lane: id, cursor, alone: alone ? 1 : 0 }) !== undefined,
    newest: (): number => newest.get() ?? 0,
    countStrict: (above: bigint, upTo: bigint): number => strict.get(above, upTo) ?? 0,
    strictAfter: (cursor: bigint, id: number): StrictRow[] =>
      strictAfter.all(cursor, id).map((row) => ({ ...row, cursor: BigInt(row.cursor) })),
  };
}

function toLane(row: TextRow): LaneRow {
  return { ...row, finished: BigInt(row.finished), unproven: BigInt(row.unproven) };
}
