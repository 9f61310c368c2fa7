// Removes what is older than its retention, in steps so small that no delivery waits for one.
import type { Clock } from '../clock.ts';
import type { KeepStore } from '../store/keep-store.ts';

const DAY_MS = 86_400_000;
const STEP = 200;
/** Between two steps, so that deliveries come first. */
const BREATH_MS = 20;
const REST_MS = 600_000;

export interface PruneOptions {
  store: KeepStore;
  clock: Clock;
  retentionDays: number;
  payloadDays: number;
}

/** A step; milliseconds until the next. */
export function createPruner({ store, clock, retentionDays, payloadDays }: PruneOptions): {
  step: () => Promise<number>;
} {
  let rows: number | null = 0;
  let bodies: number | null = payloadDays < retentionDays ? 0 : null;
  return {
    async step() {
      const before = (days: number): number => clock.now() - days * DAY_MS;
      if (rows !== null) {
        rows = await store.prune(before(retentionDays), rows, STEP);
        return BREATH_MS;
      }
      if (bodies !== null) {
        bodies = await store.purge(before(payloadDays), bodies, STEP);
        return BREATH_MS;
      }
      await store.sweep(before(retentionDays));
      rows = 0;
      bodies = payloadDays < retentionDays ? 0 : null;
      return REST_MS;
    },
  };
}
