// Prunes what is older than RETENTION_DAYS, a page at a time. It stops if the clock is wrong, because it goes by time.
import { iso } from '../base/clock.ts';
import { DAY_MS, HOUR_MS } from '../operations/judge.ts';
import type { Keep, Step } from './keep.ts';

/** Between two pages, for deliveries. */
const PAUSE_MS = 50;

/** The clock is more than a day ahead of the newest event and of the last prune. */
export function isTooFar(now: number, newestAt: number | null, lastAt: number | null): boolean {
  const known = Math.max(newestAt ?? -Infinity, lastAt ?? -Infinity);
  return known !== -Infinity && now - known > DAY_MS;
}

export function createPruning({ read, admin, config, clock, log }: Keep): Step {
  let after = 0;
  return async () => {
    const { newestAt, state } = await read.facts();
    const now = clock.now();
    const lastAt = typeof state['pruned_at'] === 'number' ? state['pruned_at'] : null;
    if (isTooFar(now, newestAt, lastAt)) {
      const known = iso(Math.max(newestAt ?? 0, lastAt ?? 0));
      const words = 'nothing is pruned now: the clock is a day ahead of what is known, or nothing came for a day';
      log.warn({ now: iso(now), known }, words);
      return HOUR_MS;
    }
    const next = await admin.prune(now - config.RETENTION_DAYS * DAY_MS, after);
    after = next ?? 0;
    if (next !== null) return PAUSE_MS;
    await admin.tell('pruned_at', now);
    return HOUR_MS;
  };
}
