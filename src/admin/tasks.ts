// Retry and discard: selects tasks and changes them.
import type { Store } from '../store/store.ts';
import { z } from 'zod';
import type { Clock } from '../base/clock.ts';
import type { TaskFilter } from '../store/read.ts';
import { AdminError } from './error.ts';
import { selection } from './filters.ts';
import { changeInSteps } from './in-steps.ts';

export type Action = 'retry' | 'discard';

export interface TaskChange {
  action: Action;
  filter: TaskFilter;
  /** Stored with each discarded task. */
  reason: string;
  /**
   * When the person saw the tasks, Unix milliseconds: those that have changed since are left alone; and how many: if
   * more match, none is changed. Absent: whatever matches now is changed.
   */
  shown?: { at: number; count?: number | undefined } | undefined;
}

/** The field that holds the number of changed tasks, in JSON and in log lines. */
export const CHANGED = { retry: 'retried', discard: 'discarded' } as const;

/** What people read before done tasks run again. */
export const REPEATS = 'Calls to other systems can repeat; ctx.idempotencyKey stays the same.';

/**
 * A discard by age takes held tasks too. Throws AdminError if a discard has no reason, or if done tasks are selected
 * otherwise than by id, for a retry.
 */
export function taskChange(action: Action, filter: TaskFilter, reason = ''): TaskChange {
  if (filter.state === 'done' && (action === 'discard' || !filter.ids))
    throw new AdminError('input', 'done tasks can only run again, and only if they are named by id');
  if (action === 'discard' && reason.trim() === '')
    throw new AdminError('input', 'tasks are discarded with a reason: say why they need not run');
  const byAge = action === 'discard' && filter.state === 'ready' && filter.receivedBefore !== undefined;
  return { action, filter: byAge ? { ...filter, state: 'waiting' } : filter, reason };
}

/** Reads the JSON of a request. Throws ZodError or AdminError. */
export function readTaskChange(action: Action, asked: unknown): TaskChange {
  const { ids, state, filter, reason, shown } = selection.parse(asked);
  return { ...taskChange(action, ids ? { ids, state } : (filter ?? {}), reason), shown };
}

const job = z.object({ action: z.enum(['retry', 'discard']) }).loose();

/** Reads the JSON of a job, which also names the action. Throws ZodError or AdminError. */
export function readJob(asked: unknown): TaskChange {
  const { action, ...rest } = job.parse(asked);
  return readTaskChange(action, rest);
}

/** The ids of the tasks to change. Throws AdminError if more match than were shown, or the clock was set back since. */
export async function matchingTasks(
  store: Pick<Store, 'admin'>,
  { filter, shown }: TaskChange,
  clock: Clock,
): Promise<number[]> {
  const now = clock.now();
  if ((shown?.at ?? now) > now)
    throw new AdminError('busy', 'nothing was changed: the clock was set back since the tasks were shown; look again');
  const ids = await store.admin.matching({ ...filter, changedBy: shown?.at }, now);
  if (ids.length <= (shown?.count ?? Infinity)) return ids;
  throw new AdminError(
    'busy',
    `nothing was changed: ${ids.length} tasks match, ${shown?.count} were shown; look again`,
  );
}

/**
 * Changes the tasks that `matchingTasks` has found. Resolves to the number of changed tasks. `steps`: what changeInSteps
 * takes.
 */
export function changeThese(
  ids: number[],
  store: Pick<Store, 'admin'>,
  { action, filter, reason }: TaskChange,
  clock: Clock,
  ...steps: [onStep?: Parameters<typeof changeInSteps>[2], signal?: AbortSignal]
): Promise<number> {
  const change = (some: number[]): Promise<number> =>
    action === 'retry'
      ? store.admin.retry(some, clock.now(), filter.state === 'done')
      : store.admin.discard(some, reason, clock.now());
  return changeInSteps(ids, change, ...steps);
}
