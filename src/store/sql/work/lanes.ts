// The statements of the lanes: what the lane core must know of them, and what it decides. Other processes note the lanes
// that they change in `dirty_lanes`, and the run process reads those again.
import { randomUUID } from 'node:crypto';
import { hasNoSession, type Heads, type Want } from '../../lanes/lane.ts';
import { createLaneCore, type LaneCore } from '../../lanes/lanes.ts';
import type { Waiting } from '../../lanes/waiting.ts';
import { endOf } from '../../settlement.ts';
import type { NewTask, Settlement } from '../../work.ts';
import { together, type Session } from '../session.ts';
import { createLaneReading, IN_LANE } from './lane-reading.ts';
import { createMarkDirty } from './waiting.ts';

export type Lanes = ReturnType<typeof createLanes>;

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createLanes(session: Session) {
  const { max, oneOf } = session.dialect;
  const core: LaneCore = createLaneCore();
  const me = randomUUID();
  const markDirty = createMarkDirty(session);
  const reading = createLaneReading(session);
  const nameLanes = session.insertAll({
    into: 'lanes',
    columns: { handler: 'bigint', name: 'text', rerun: 'bigint' },
    conflict: 'on conflict do nothing',
  });
  const begin = session.insertAll({
    into: 'lane_progress',
    columns: { lane: 'bigint', used_at: 'bigint' },
    conflict: 'on conflict (lane) do update set used_at = excluded.used_at',
  });
  const finish = session.insertAll({
    into: 'lane_progress',
    columns: { lane: 'bigint', finished: 'bigint', used_at: 'bigint' },
    conflict: `on conflict (lane) do update
      set finished = ${max}(lane_progress.finished, excluded.finished), used_at = excluded.used_at`,
  });
  const restore = session.statement(`
    insert into lanes (id, handler, name)
    select lane, min(handler), 'restored ' || lane from tasks where lane ${oneOf('?', 'bigint')} and ${IN_LANE} group by lane`);
  const clearDirty = session.statement(`delete from dirty_lanes where n ${oneOf('?', 'bigint')}`);
  const setUnproven = session.statement(`update lane_progress set unproven = ${max}(unproven, ?) where lane = ?`);
  const stepAside = session.statement(`update tasks set alone = 1 where id ${oneOf('?', 'bigint')}`);
  let loaded = false;
  let swept = 0;
  /** Whether no other process keeps the lanes in memory now. */
  let isOnly = true;

  function forget(): void {
    core.forget();
    loaded = false;
  }

  async function learn(ids: number[], now: number): Promise<void> {
    if (ids.length === 0) return;
    const working = await reading.working();
    const rows = new Map((await reading.lanes(ids)).map((row) => [row.id, row]));
    for (const id of ids) {
      const row = rows.get(id);
      if (row) core.learn(row, working.get(id) ?? 0, now);
      else core.gone(id);
    }
  }

  /** Restores the rows of lanes in which tasks wait. A person may have deleted them from the store by hand. */
  async function repair(ids: number[]): Promise<void> {
    const known = new Set((await reading.lanes(ids)).map(({ id }) => id));
    const lost = ids.filter((id) => !known.has(id));
    if (lost.length === 0) return;
    await session.write(async () => {
      await restore.run(lost);
      await session.count({ lanes_restored: lost.length });
    }, 'work');
  }

  return {
    core,
    /**
     * Reads all lanes into memory, if this was not done or another process has worked with the lanes since. Call it
     * outside a transaction, because it takes a while.
     */
    async load(now: number) {
      if (loaded && (await session.state('runner')) === me) return;
      forget();
      // Written before the reading, so that this process notices if another one reads the lanes meanwhile.
      await session.setState('runner', me);
      swept = Number(await session.state('lanes_swept'));
      const waiting = await reading.waitingLanes();
      await repair(waiting);
      await learn(waiting, now);
      loaded = true;
    },
    /** Reads lanes that other processes have changed. */
    async refresh(now: number) {
      isOnly = true;
      const [state, changed] = await together(session.state('lanes_swept'), reading.dirty());
      const sweeps = Number(state);
      const isSwept = sweeps !== swept;
      swept = sweeps;
      core.dropIdle(isSwept);
      // Nothing waits in a lane that was swept away, although it may have looked so here.
      if (isSwept) {
        const unread = core.unread();
        const known = new Set((await reading.lanes(unread)).map(({ id }) => id));
        for (const id of unread) if (!known.has(id)) core.gone(id);
      }
      if (changed.length === 0) return;
      await clearDirty.run(changed.map(({ n }) => n));
      await learn([...new Set(changed.map(({ lane }) => lane))], now);
      core.strictOrder.invalidate();
    },
    /** Call it in a transaction that only settles. The instance may have handed over, so another one has the lanes. */
    async settles() {
      isOnly = await session.leads();
    },
    /** Creates or finds the lanes of these tasks. Afterwards `idOf` knows each. */
    async enter(tasks: NewTask[], now: number) {
      const groups = new Map<string, { handler: number; rerun: number; names: Set<string> }>();
      for (const { handler, rerun = 0, lane, cursor } of tasks) {
        if (lane === null || cursor === null || core.laneOf(handler, rerun, lane) !== undefined) continue;
        const group = groups.get(`${handler} ${rerun}`) ?? { handler, rerun, names: new Set() };
        groups.set(`${handler} ${rerun}`, group);
        group.names.add(lane);
      }
      for (const { handler, rerun, names } of groups.values()) {
        await nameLanes([...names].map((name) => [handler, name, rerun]));
        const ids = await reading.named(handler, rerun, [...names]);
        await begin(ids.map((id) => [id, now]));
        for (const row of await reading.lanes(ids)) core.entered(row);
      }
    },
    idOf({ handler, rerun = 0, lane }: NewTask): number {
      const id = core.laneOf(handler, rerun, lane ?? '');
      if (id === undefined) throw new Error(`a lane of handler ${handler} cannot be created`);
      return id;
    },
    /** Writes to the store how far the settled tasks bring their lanes. */
    async saveFinished(settlements: Settlement[], now: number) {
      const ends = new Map<number, bigint>();
      const unknown: number[] = [];
      for (const settlement of settlements) {
        const { lane } = settlement.claim;
        if (lane === null) continue;
        const finished = endOf(settlement);
        if (finished !== null && finished > (ends.get(lane) ?? -1n)) ends.set(lane, finished);
        if (!isOnly || !core.has(lane)) unknown.push(lane);
      }
      if (unknown.length > 0) await markDirty(unknown);
      if (ends.size > 0) await finish([...ends].map(([lane, finished]) => [lane, finished, now]));
    },
    /** Follows the watermark and returns how many strict tasks still wait for it. */
    async advance(now: number): Promise<number> {
      const facts = await reading.facts();
      core.follow(facts, now);
      // Tasks that the watermark has passed are counted before lanes are released past them.
      await count();
      const place = core.strictOrder.wants();
      if (place) core.strictFound(await reading.strictAfter(place.cursor, place.lane), now);
      await count();
      return core.strictOrder.waiting();
    },
    heads: (wants: Want[], now: number): Promise<Heads[]> => Promise.all(wants.map((want) => reading.heads(want, now))),
    async setAside(ids: number[]) {
      if (ids.length > 0) await stepAside.run(ids);
    },
    /**
     * True if a task of the lane with a higher cursor has ended, or runs because this task kept failing and let it
     * pass. `anywhere`: this task may be in the wrong lane, so an end in any lane of its handler counts. Reruns are
     * left out.
     */
    async isLate({ lane, handler, rerun, cursor, alone }: Waiting, anywhere: boolean): Promise<boolean> {
      if (lane === null || cursor === null) return false;
      if (anywhere && rerun === 0 && cursor < (await highestOf(handler))) return true;
      const finished = alone ? null : core.finishedOf(lane);
      return finished === null ? reading.isOvertaken(lane, cursor, alone) : cursor < finished;
    },
    async hasNoSession(id: number): Promise<boolean> {
      const [row] = await reading.lanes([id]);
      return row !== undefined && hasNoSession(row.name);
    },
    /** Drops all lanes from memory. Call it after a rollback. */
    forget,
  };

  /** The count leaves out lanes that were released, so these are saved first. */
  async function count(): Promise<void> {
    for (const { lane, cursor } of core.strictOrder.released()) await setUnproven.run(cursor, lane);
    const range = core.strictOrder.countIn();
    if (range) core.strictOrder.counted(await reading.countStrict(range.above, range.upTo));
  }

  async function highestOf(handler: number): Promise<bigint> {
    // If this process has no lanes in memory, it does not see what others finish, so it reads the store.
    const known = loaded ? core.highestOf(handler) : null;
    const most = known ?? (await reading.highestOf(handler));
    core.knowHighest(handler, most);
    return most;
  }
}
