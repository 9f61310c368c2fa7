// Tasks as people see them: pages by keyset, neighbours in a lane, groups of dead letters, and the longest lanes.
import type { Cursor } from '../../../wire/cursor.ts';
import { patternOf } from '../../error-pattern.ts';
import type { AlarmStore } from '../../alarms.ts';
import type { DeadGroup, ReadStore, ShownTask, WaitingLane } from '../../read.ts';
import type { FailingHead } from '../../shown.ts';
import type { TaskState } from '../../work.ts';
import { createByTime } from './by-time.ts';
import { EVENT_KEY, isoOf, type Dialect, type Session } from '../session.ts';
import { HANDLERS } from '../work/waiting.ts';
import { matchOf, selectionOf, STRETCH } from './selection.ts';

/** Events on each side, by cursor, that are searched for neighbours. */
const NEAR = 1_000;
/** Maximum lanes to search for the longest ones, and the bound up to which the tasks of each are counted. */
const LANES = 1_000;
const IN_LANE = 200;

export interface TaskRow extends Omit<ShownTask, 'state' | 'late' | 'dueAt' | 'startedAt' | 'finishedAt'> {
  state: TaskState;
  held: number;
  late: number;
  due_at: number;
  started_at: number;
  changed_at: number;
}

/** Reads TaskRow. Conditions and order follow. */
export function taskOf(dialect: Dialect): string {
  const { STATE, HELD } = selectionOf(dialect);
  return `
    select t.id, ${EVENT_KEY}, e.type, e.session_id as "sessionId", h.name as handler, l.name as lane, ${STATE} as state,
      coalesce(c.attempt, t.attempts) as attempts, coalesce(c.late, t.late) as late, t.due_at,
      coalesce(c.started_at, t.started_at) as started_at, t.changed_at, t.error, ${HELD} as held
    from tasks t join events e on e.seq = t.event join handlers h on h.id = t.handler left join lanes l on l.id = t.lane
      left join claims c on c.task = t.id`;
}

// oxlint-disable-next-line max-lines-per-function -- one statement each, beside the method that runs it
export function createTasks(
  session: Session,
): Pick<ReadStore, 'neighbours' | 'groups' | 'tasks' | 'waitingLanes'> & Pick<AlarmStore, 'failingHeads'> {
  const { lastBefore } = createByTime(session);
  const TASK = taskOf(session.dialect);
  const { MATCHING, idsOf } = selectionOf(session.dialect);
  /** `lookedAt`: the newest ids of one kind, at most as many as one page looks at. */
  const pagesOf = (lookedAt: string, order: string) => ({
    page: session.statement<TaskRow>(
      `${TASK} where t.id in (${lookedAt}) and ${MATCHING} order by ${order} limit @limit`,
    ),
    /** The last row that was looked at, if there may be more. */
    last: session.value<number>(`${lookedAt} offset ${STRETCH - 1}`),
  });
  const listOf = (ids: string) =>
    pagesOf(`select id from (${ids}) listed where id < @before order by id desc limit ${STRETCH}`, 't.id desc');
  /** Tasks that have ended: the task that ended last is the first, whenever its event came. */
  const endedOf = (ids: string) =>
    pagesOf(
      `${ids} and (changed_at, id) < (coalesce((select changed_at from tasks where id = @before), @before), @before)
        order by changed_at desc, id desc limit ${STRETCH}`,
      't.changed_at desc, t.id desc',
    );
  const lists = {
    ready: listOf(idsOf.ready),
    running: listOf(idsOf.running),
    dead: endedOf(idsOf.dead),
    skipped: endedOf(idsOf.skipped),
    group: endedOf(idsOf.group),
    any: listOf('select id from tasks'),
  };
  /** Searches the nearest events, because done tasks have no index by lane: it would make every event cost more. */
  const near = (side: '<' | '>', order: 'desc' | 'asc') =>
    session.statement<TaskRow>(`
    ${TASK} where t.lane = @lane and t.id in (
      select seq * ${HANDLERS} + cast(@handler as bigint) from (
        select seq from events where cursor ${side} @cursor and conflicting = 0 order by cursor ${order} limit ${NEAR}) nearby)
    order by t.cursor ${order} limit 3`);
  const [earlier, later] = [near('<', 'desc'), near('>', 'asc')];
  const place = session.statement<{ lane: number | null; handler: number; cursor: Cursor | null }>(
    'select lane, handler, cast(cursor as text) as cursor from tasks where id = ?',
  );
  const groups = session.statement<
    Omit<DeadGroup, 'firstAt' | 'lastAt' | 'pattern'> & { first: number; last: number }
  >(`
    select c.id, h.name as handler, c.dead, c.first_at as "first", c.last_at as "last", t.id as task,
      ${EVENT_KEY}, t.error
    from dead_groups c join handlers h on h.id = c.handler
      join tasks t on t.id = (select id from tasks where dead_group = c.id and state = 'dead' order by changed_at desc, id desc limit 1)
      join events e on e.seq = t.event
    where (cast(@handler as text) is null or h.name = @handler) and (cast(@id as bigint) is null or c.id = @id)
    order by c.dead desc, c.id desc limit @limit`);
  const deadOf = session.value<number>(`
    select cast(coalesce(sum(dead), 0) as bigint) from dead_groups
    where (cast(@handler as text) is null or handler = (select id from handlers where name = @handler))
      and (cast(@id as bigint) is null or id = @id)`);
  const waits = `lane = hop.lane and state = 'ready' and alone = 0`;
  // The query skips from lane to lane in an index, so a long backlog costs no more than a short one.
  const LANE_HEADS = `
    with recursive hop (lane, n) as (
      select min(lane), 1 from tasks where state = 'ready' and alone = 0
      union all
      select (select min(lane) from tasks where lane > hop.lane and state = 'ready' and alone = 0), n + 1 from hop
      where hop.lane is not null and n < ${LANES}
    ), counted as materialized (
      select lane, (select count(*) from (select 1 from tasks where ${waits} limit ${IN_LANE + 1}) waiters) as waiting,
        (select id from tasks where ${waits} order by cursor limit 1) as head
      from hop where lane is not null`;
  const crowded = session.statement<
    Omit<WaitingLane, 'head' | 'more'> & WaitingLane['head']
  >(`${LANE_HEADS} and (cast(@handler as text) is null or lane in (
        select l.id from lanes l join handlers h on h.id = l.handler where h.name = @handler))
      order by 2 desc, 1 limit @limit)
    select h.name as handler, l.name as lane, waiting, coalesce(c.attempt, t.attempts) as attempts, t.error, ${EVENT_KEY}
    from counted k join lanes l on l.id = k.lane join handlers h on h.id = l.handler join tasks t on t.id = k.head
      join events e on e.seq = t.event left join claims c on c.task = t.id
    where waiting > 1 order by waiting desc, k.lane`);
  // Attempts before `changed_at` failed before a person retried the task.
  const failing = session.statement<FailingHead>(`${LANE_HEADS})
    select t.id as task, h.name as handler, ${EVENT_KEY}, waiting - 1 as behind,
      coalesce((select min(started_at) from attempts where task = t.id and attempt > 0 and started_at >= t.changed_at), t.started_at) as since
    from counted k join tasks t on t.id = k.head join handlers h on h.id = t.handler join events e on e.seq = t.event
    where t.attempts > 0 order by since, t.id limit ?`);

  return {
    async neighbours(id, now) {
      const at = await place.get(id);
      if (!at || at.lane === null || at.cursor === null) return { earlier: [], later: [] };
      const match = { ...at, cursor: BigInt(at.cursor), now };
      const [before, after] = [await earlier.all(match), await later.all(match)];
      return { earlier: before.map(toTask).toReversed(), later: after.map(toTask) };
    },
    async groups({ handler, id, limit }) {
      const match = { handler: handler ?? null, id: id ?? null, limit };
      const rows = (await groups.all(match)).map(({ first, last, ...group }) => {
        return { ...group, firstAt: isoOf(first), lastAt: isoOf(last), pattern: patternOf(group.error ?? '') };
      });
      return { dead: (await deadOf.get(match)) ?? 0, groups: rows };
    },
    async tasks({ receivedBefore, before, limit = 50, ...filter }, now) {
      const lastEvent = receivedBefore === undefined ? undefined : await lastBefore(receivedBefore);
      const match = matchOf({ ...filter, receivedBefore, changedBy: undefined }, now, lastEvent);
      const kind = match.state === null || match.state === 'done' ? 'any' : match.state;
      const { page, last } = lists[filter.group === undefined ? kind : 'group'];
      const from = { ...match, before: before ?? Number.MAX_SAFE_INTEGER };
      const rows = await page.all({ ...from, limit });
      const full = rows.length === limit;
      return { tasks: rows.map(toTask), next: (full ? rows.at(-1)?.id : await last.get(from)) ?? null };
    },
    failingHeads: (limit) => failing.all(limit),
    waitingLanes: async (limit, of) =>
      (await crowded.all({ handler: of ?? null, limit })).map(({ handler, lane, waiting, ...head }) => {
        return { handler, lane, waiting: Math.min(waiting, IN_LANE), more: waiting > IN_LANE, head };
      }),
  };
}

export function toTask({ held, state, late, due_at, started_at, changed_at, ...task }: TaskRow): ShownTask {
  return {
    ...task,
    state: held ? 'held' : state,
    late: late === 1,
    dueAt: isoOf(due_at),
    startedAt: task.attempts === 0 ? null : isoOf(started_at),
    finishedAt: state === 'ready' || state === 'running' ? null : isoOf(changed_at),
  };
}
