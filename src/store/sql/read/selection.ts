// Selects tasks by the state that people see, by handler and by id. Used to show tasks and to change them.
import type { ShownState, TaskState } from '../../work.ts';
import type { TaskFilter } from '../../read.ts';
import type { Dialect } from '../session.ts';
import { HANDLERS } from '../work/waiting.ts';

/** Maximum events, or tasks, that one page of a filtered list looks at. */
export const STRETCH = 10_000;

const EVERY = Number.MAX_SAFE_INTEGER;

/** Conditions for queries of `tasks t`, and queries of the ids of tasks. */
export function selectionOf(dialect: Dialect) {
  /** A ready task with a claim is running. */
  const STATE = `case when t.state = 'ready' and exists (select 1 from claims where task = t.id) then 'running' else t.state end`;
  /** A task is released if the watermark or its lane has passed it, or if it was released unproven. */
  const PASSED = `t.cursor <= ${dialect.max}(
    coalesce((select cast(value as bigint) from state where name = 'watermark'), -1),
    coalesce((select ${dialect.max}(finished, unproven) from lane_progress where lane = t.lane), -1))`;
  /** A strict task is held unless `PASSED`; any other until its release time, or until a later task is released. */
  const HELD = `case when t.state = 'ready' and not exists (select 1 from claims where task = t.id)
    and case when t.strict = 1 then t.alone = 0 and not ${PASSED}
      else t.release_at > @now and not (t.alone = 0 and (${PASSED} or exists (
        select 1 from tasks o where o.lane = t.lane and o.state = 'ready' and o.alone = 0 and o.cursor > t.cursor
          and o.strict = 0 and o.release_at <= @now))) end
    then 1 else 0 end`;
  /** `@held` is 1 for held tasks, 0 for ready tasks that are not held, null for both. */
  const IN_STATE = `${STATE} = @state and (cast(@held as bigint) is null or ${HELD} = @held)`;
  /**
   * The event was received early enough. An event with a smaller number may have been received later by the clock, which
   * was then set back.
   */
  const OLD = `t.id < @below and (@below = ${EVERY} or (select received_at from events where seq = t.event) < @receivedBefore)`;
  /** Its parameters come from `matchOf`. */
  const MATCHING = `
    (cast(@state as text) is null or (${IN_STATE}))
    and (cast(@handler as text) is null or t.handler = (select id from handlers where name = @handler))
    and (cast(@group as bigint) is null or t.dead_group = @group)
    and ${OLD} and t.changed_at <= @changedBy and (@all = 1 or t.id ${dialect.oneOf('@ids', 'bigint')})`;
  // Each state except done has a partial index. SQLite uses it if the query repeats the condition of the index.
  const idsOf = {
    ready: `select id from tasks ${dialect.indexedBy('tasks_in_lane')} where state = 'ready' and alone = 0
      union all select id from tasks ${dialect.indexedBy('tasks_alone')} where state = 'ready' and alone = 1`,
    running: 'select task as id from claims',
    dead: `select id from tasks where state in ('dead', 'skipped') and state = 'dead'`,
    skipped: `select id from tasks where state in ('dead', 'skipped') and state = 'skipped'`,
    group: `select id from tasks where state = 'dead' and dead_group = @group`,
  };
  return { STATE, HELD, IN_STATE, OLD, MATCHING, idsOf };
}

/** The parameters of IN_STATE. */
export function inState(state: ShownState | undefined): { state: TaskState | null; held: 0 | 1 | null } {
  if (state === 'held') return { state: 'ready', held: 1 };
  return { state: state ?? null, held: state === 'ready' ? 0 : null };
}

/**
 * The parameters of MATCHING. People see a ready task as ready only if it is not held. `lastEvent`: only tasks of events
 * up to this number.
 */
export function matchOf(
  { ids, state, handler, group, changedBy, receivedBefore }: TaskFilter,
  now: number,
  lastEvent?: number,
) {
  return {
    ...inState(state),
    now,
    handler: handler ?? null,
    group: group ?? null,
    changedBy: changedBy ?? Number.MAX_SAFE_INTEGER,
    below: lastEvent === undefined ? EVERY : (lastEvent + 1) * HANDLERS,
    receivedBefore: receivedBefore ?? null,
    all: ids ? 0 : 1,
    ids: ids ?? [],
  };
}
