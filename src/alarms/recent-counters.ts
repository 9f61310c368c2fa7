// Tells how much each counter has grown in the last ten minutes, so that an alarm about a single event stays up that
// long. Snapshots of the counters are stored, so that a restart does not end the alarm. Their age comes from the
// monotonic clock, or, if an earlier process took them, from the wall clock.
import type { Store } from '../store/store.ts';
import type { Clock } from '../base/clock.ts';
import { orNone } from '../store/or-none.ts';

export const RECENT_MS = 600_000;
const SNAPSHOT_MS = 60_000;
/** The growth of attempt counters covers only this time: older attempts do not show how a handler works now. */
const ATTEMPTS_MS = 180_000;

type Counters = Record<string, number>;

/**
 * Returns a function that tells how much each counter has grown. It throws StoreError while the store cannot be read.
 */
export function createRecentCounters(store: Pick<Store, 'state'>, clock: Clock) {
  let seen: { after: number; counters: Counters }[] | undefined;

  async function load(): Promise<NonNullable<typeof seen>> {
    const kept = (await store.state.get('snapshots')) ?? [];
    return kept.map(({ at, counters }) => ({ after: clock.monotonic() - Math.max(0, clock.now() - at), counters }));
  }

  async function keep(list: NonNullable<typeof seen>): Promise<void> {
    const age = (after: number): number => clock.monotonic() - after;
    const snapshots = list.map(({ after, counters }) => ({ at: clock.now() - age(after), counters }));
    await orNone(() => store.state.note({}, { snapshots: JSON.stringify(snapshots) }));
  }

  return async function growth(counters: Counters): Promise<Counters> {
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
  };
}
