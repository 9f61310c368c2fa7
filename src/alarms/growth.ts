// How counters have grown lately: what happened keeps its alarm up for ten minutes, over a restart as well, which would
// else look like an all-clear. Times are monotonic; only those of an earlier process are as the wall clock says.
import type { Clock } from '../base/clock.ts';
import type { KeepStore } from '../store/keep.ts';
import { StoreError } from '../store/store.ts';

const SNAPSHOT_MS = 60_000;
const RECENT_MS = 600_000;
/** What attempts came to before does not tell how a handler is now. */
const ATTEMPTS_MS = 180_000;

type Counters = Record<string, number>;

export interface Growth {
  /** By how much each has grown. Throws StoreError while the store cannot be read. */
  look(counters: Counters): Promise<Counters>;
}

export function createGrowth(store: Pick<KeepStore, 'snapshots' | 'note'>, clock: Clock): Growth {
  let seen: { after: number; counters: Counters }[] | undefined;

  async function load(): Promise<NonNullable<typeof seen>> {
    const kept = (await store.snapshots()) ?? [];
    return kept.map(({ at, counters }) => ({ after: clock.monotonic() - Math.max(0, clock.now() - at), counters }));
  }

  async function keep(list: NonNullable<typeof seen>): Promise<void> {
    const age = (after: number): number => clock.monotonic() - after;
    const snapshots = list.map(({ after, counters }) => ({ at: clock.now() - age(after), counters }));
    try {
      await store.note({}, { snapshots: JSON.stringify(snapshots) });
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
  }

  return {
    async look(counters) {
      const now = clock.monotonic();
      seen = (seen ?? (await load())).filter(({ after }) => now - after <= RECENT_MS);
      if (now - (seen.at(-1)?.after ?? -Infinity) >= SNAPSHOT_MS) {
        seen.push({ after: now, counters });
        await keep(seen);
      }
      const past = seen[0]?.counters ?? {};
      const shortly = seen.findLast(({ after }) => now - after >= ATTEMPTS_MS)?.counters ?? past;
      const before = (name: string): number => (name.startsWith('attempts.') ? shortly : past)[name] ?? 0;
      return Object.fromEntries(Object.entries(counters).map(([name, value]) => [name, value - before(name)]));
    },
  };
}
