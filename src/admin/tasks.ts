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
}

/** The field that holds the number of changed tasks, in JSON and in log lines. */
export const CHANGED = { retry: 'retried', discard: 'discarded' } as const;

/** Throws AdminError if a discard has no reason. */
export function taskChange(action: Action, filter: TaskFilter, reason = ''): TaskChange {
  if (action === 'discard' && reason.trim() === '')
    throw new AdminError('input', 'tasks are discarded with a reason: say why they need not run');
  return { action, filter, reason };
}

/** Reads the JSON of a request. Throws ZodError or AdminError. */
export function readTaskChange(action: Action, asked: unknown): TaskChange {
  const { ids, filter, reason } = selection.parse(asked);
  return taskChange(action, ids ? { ids } : (filter ?? {}), reason);
}

const job = z.object({ action: z.enum(['retry', 'discard']) }).loose();

/** Reads the JSON of a job, which also names the action. Throws ZodError or AdminError. */
export function readJob(asked: unknown): TaskChange {
  const { action, ...rest } = job.parse(asked);
  return readTaskChange(action, rest);
}

/** Resolves to the number of changed tasks. `onStep` and `signal` work as in changeInSteps. */
export async function changeTasks(
  store: Pick<Store, 'admin'>,
  { action, filter, reason }: TaskChange,
  clock: Clock,
  onStep?: (done: number, of: number, moved: number) => void,
  signal?: AbortSignal,
): Promise<number> {
  const change = (ids: number[]): Promise<number> =>
    action === 'retry' ? store.admin.retry(ids, clock.now()) : store.admin.discard(ids, reason, clock.now());
  return changeInSteps(await store.admin.matching(filter, clock.now()), change, onStep, signal);
}
