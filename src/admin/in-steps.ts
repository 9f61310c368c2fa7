// Changes any number of tasks in small transactions with pauses between them, so that deliveries never wait long.
import { setTimeout as sleep } from 'node:timers/promises';
import { retryWhileBusy } from '../store/retry-while-busy.ts';

export const STEP = 500;
const PAUSE_MS = 3;
/** Each step retries a locked store for this long, because giving up would leave half of the tasks unchanged. */
const LOCKED_MS = 1_000;

/**
 * Resolves to the number of changed tasks. `onStep` is called before the first step and after each step, with three
 * counts: tasks handled so far, all of them, changed tasks. If `signal` is aborted, the change ends early, without
 * an error.
 */
export async function changeInSteps(
  ids: number[],
  fix: (ids: number[]) => Promise<number>,
  onStep: (done: number, of: number, moved: number) => void = () => {},
  signal?: AbortSignal,
): Promise<number> {
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
