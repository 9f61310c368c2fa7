// Finds lanes whose first task has failed for long. The store keeps the last attempts of a task, so for a task that is
// retried often, memory says since when it fails.
import type { Clock } from '../base/clock.ts';
import type { FailingHead } from '../store/shown.ts';
import type { Store } from '../store/store.ts';

/** The search looks at many lanes, so it is made this often. */
const LOOK_MS = 30_000;
const STUCK_MS = 900_000;
const HEADS = 200;

export function createFailingHeads(store: Pick<Store, 'alarms'>, clock: Clock) {
  let lookedAfter = -Infinity;
  let failsAfter = new Map<number, number>();
  let stuck: FailingHead[] = [];

  /** `isPaused`: the time of a pause is no failure, so it does not count. */
  return async (isPaused: (handler: string) => boolean): Promise<FailingHead[]> => {
    const now = clock.monotonic();
    if (now - lookedAfter < LOOK_MS) return stuck;
    const heads = await store.alarms.failingHeads(HEADS);
    lookedAfter = now;
    const before = failsAfter;
    failsAfter = new Map(
      heads.map(({ task, handler, since }) => {
        const known = before.get(task) ?? now - Math.max(0, clock.now() - since);
        return [task, isPaused(handler) ? now : known];
      }),
    );
    stuck = heads.filter(({ task }) => now - (failsAfter.get(task) ?? now) >= STUCK_MS);
    return stuck;
  };
}
