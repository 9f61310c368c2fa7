// Any number of tasks, moved in small transactions with room between them, so that deliveries never wait long.
import { setTimeout as sleep } from 'node:timers/promises';
import type { MendStore, TaskFilter } from './store.ts';

const STEP = 500;
const PAUSE_MS = 3;

/** Resolves to how many of the tasks that match were moved. `onStep` is told how many of them have been gone through. */
export async function mendAll(
  store: Pick<MendStore, 'matching'>,
  filter: TaskFilter,
  now: number,
  mend: (ids: number[]) => Promise<number>,
  onStep: (done: number, of: number) => void = () => {},
): Promise<number> {
  const ids = await store.matching(filter, now);
  let moved = 0;
  for (let from = 0; from < ids.length; from += STEP) {
    if (from > 0) await sleep(PAUSE_MS);
    moved += await mend(ids.slice(from, from + STEP));
    onStep(Math.min(from + STEP, ids.length), ids.length);
  }
  return moved;
}
