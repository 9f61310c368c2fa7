// Any number of tasks, moved in small transactions with room between them, so that deliveries never wait long.
import { setTimeout as sleep } from 'node:timers/promises';
import type { AdminStore } from '../store/admin.ts';
import type { TaskFilter } from '../store/read.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';

const STEP = 500;
const PAUSE_MS = 3;
/** Half of a group moved and an error instead of the rest would help nobody: a lock passes. */
const LOCKED_MS = 1_000;

/**
 * Resolves to how many of the tasks that match were moved. `onStep` is told how many of them have been gone through, at
 * first none, and how many were moved. Ends early, without an error, once `signal` is aborted.
 */
export async function changeInSteps(
  store: Pick<AdminStore, 'matching'>,
  filter: TaskFilter,
  now: number,
  fix: (ids: number[]) => Promise<number>,
  onStep: (done: number, of: number, moved: number) => void = () => {},
  signal?: AbortSignal,
): Promise<number> {
  const ids = await store.matching(filter, now);
  let moved = 0;
  onStep(0, ids.length, 0);
  for (let from = 0; from < ids.length; from += STEP) {
    if (signal?.aborted) break;
    if (from > 0) await sleep(PAUSE_MS);
    moved += await retryWhileBusy(() => fix(ids.slice(from, from + STEP)), LOCKED_MS);
    onStep(Math.min(from + STEP, ids.length), ids.length, moved);
  }
  return moved;
}
