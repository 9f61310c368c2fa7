// Moves a handler's tasks to another handler, for example after a rename, together with its lanes and their progress.
import type { Counts } from '../../state.ts';
import type { AdminStore } from '../../admin.ts';
import { createAttempts } from '../work/attempts.ts';
import type { Session } from '../session.ts';
import { createMarkDirty, HANDLERS } from '../work/waiting.ts';

interface GivenRow {
  id: number;
  event: number;
  state: 'ready' | 'dead' | 'skipped';
  from: string;
  lane: number | null;
  deadGroup: number | null;
}

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createMove(session: Session): Pick<AdminStore, 'giveTo' | 'giveLanes' | 'giveSteps'> {
  const { dialect } = session;
  const { max } = dialect;
  const listed = dialect.oneOf('@ids', 'bigint');
  const markDirty = createMarkDirty(session);
  const attemptLog = createAttempts(session);
  const idOf = session.value<number>('select id from handlers where name = ?');
  const given = session.statement<GivenRow>(`
    select t.id, event, state, h.name as "from", lane, dead_group as "deadGroup" from tasks t join handlers h on h.id = t.handler
    where t.id ${listed} and state <> 'done' and not exists (select 1 from claims where task = t.id) order by t.id`);
  const taken = session.value<number>(`select id from tasks where id ${listed}`);
  // A lane and the handler's lane with its name. If the lane was removed, the task keeps its id, which is never reused.
  const pairs = `lanes o join lanes n on n.name = o.name and n.rerun = o.rerun and n.handler = @handler`;
  const give = session.statement(`
    update tasks set id = event * ${HANDLERS} + @handler, handler = @handler,
      lane = coalesce((select n.id from ${pairs} where o.id = tasks.lane), lane)
    where id ${listed}`);
  const skip = session.statement(`
    update tasks set state = 'skipped', changed_at = @now, error = @error, dead_group = null where id ${listed}`);
  const addLanes = session.statement(`
    insert into lanes (handler, name, rerun) select distinct cast(@handler as bigint), name, rerun from lanes where id ${listed}
    on conflict (name, handler, rerun) do nothing`);
  const newLanes = session.value<number>(`select n.id from ${pairs} where o.id ${listed}`);
  const progress = session.statement(`
    insert into lane_progress (lane, finished, unproven, used_at)
      select n.id, max(p.finished), max(p.unproven), cast(@now as bigint) from ${pairs} join lane_progress p on p.lane = o.id
      where o.id ${listed} and n.id <> o.id group by n.id
    on conflict (lane) do update set finished = ${max}(lane_progress.finished, excluded.finished),
      unproven = ${max}(lane_progress.unproven, excluded.unproven), used_at = excluded.used_at`);
  const giveSteps = session.statement(`
    update setup_steps set handler = @to where handler = @from and not exists (
      select 1 from setup_steps s where s.handler = @to)`);
  const lanesOf = session.value<number>('select id from lanes where handler = ? and id > ? order by id limit ?');

  /** Gives the handler lanes named like these, with their progress. */
  async function copyLanes(ids: number[], handler: number, now: number): Promise<void> {
    if (ids.length === 0) return;
    await addLanes.run({ ids, handler });
    await progress.run({ ids, handler, now });
    await markDirty([...ids, ...(await newLanes.all({ ids, handler }))]);
  }

  async function handlerOf(name: string): Promise<number> {
    const id = await idOf.get(name);
    if (id === undefined) throw new Error(`there is no handler ${name}: npx kit tasks shows whose tasks there are`);
    return id;
  }

  async function giveTasks(rows: GivenRow[], handler: number, to: string, now: number): Promise<void> {
    if (rows.length === 0) return;
    await copyLanes(lanesIn(rows), handler, now);
    await give.run({ ids: rows.map(({ id }) => id), handler });
    for (const { id, event, deadGroup } of rows)
      await attemptLog.given(id, event * HANDLERS + handler, handler, deadGroup);
    const left = noLongerWaiting(rows);
    const came = rows.filter(({ state }) => state === 'ready').length;
    await session.count({ ...left, [`waiting.${to}`]: came + (left[`waiting.${to}`] ?? 0) });
  }

  async function skipTasks(rows: GivenRow[], error: string, now: number): Promise<void> {
    if (rows.length === 0) return;
    await skip.run({ ids: rows.map(({ id }) => id), error, now });
    for (const [group, { length }] of Map.groupBy(rows, ({ deadGroup }) => deadGroup))
      if (group !== null) await attemptLog.leaveGroup(group, length);
    await markDirty(lanesIn(rows));
    const counts: Counts = { 'tasks.skipped': rows.length };
    for (const [state, { length }] of Map.groupBy(rows, (row) => row.state)) counts[`tasks.${state}`] = -length;
    await session.count({ ...counts, ...noLongerWaiting(rows) });
  }

  return {
    giveTo: (ids, name, now) =>
      session.write(async () => {
        const handler = await handlerOf(name);
        const rows = await given.all({ ids });
        const ofHandler = ({ event }: GivenRow): number => event * HANDLERS + handler;
        const has = new Set(await taken.all({ ids: rows.map(ofHandler) }));
        const moved: GivenRow[] = [];
        const left: GivenRow[] = [];
        for (const row of rows) {
          (has.has(ofHandler(row)) ? left : moved).push(row);
          has.add(ofHandler(row));
        }
        await giveTasks(moved, handler, name, now);
        const open = left.filter(({ state }) => state !== 'skipped');
        await skipTasks(open, `${name} has its own task of this event`, now);
        return moved.length;
      }, 'work'),
    giveSteps: (from, to) => session.write(() => giveSteps.run({ from, to }), 'work'),
    giveLanes: (from, to, after, limit, now) =>
      session.write(async () => {
        const handler = await handlerOf(to);
        const ids = await lanesOf.all(await handlerOf(from), after, limit);
        await copyLanes(ids, handler, now);
        return ids.length === limit ? (ids.at(-1) ?? null) : null;
      }, 'work'),
  };
}

function lanesIn(rows: GivenRow[]): number[] {
  return rows.flatMap(({ lane }) => lane ?? []);
}

function noLongerWaiting(rows: GivenRow[]): Counts {
  const waiting = Map.groupBy(
    rows.filter(({ state }) => state === 'ready'),
    ({ from }) => from,
  );
  return Object.fromEntries([...waiting].map(([from, { length }]) => [`waiting.${from}`, -length]));
}
