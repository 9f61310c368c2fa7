// Tells how the counters of attempts have grown: since the last start of `run`, and in each third of the last half hour.
// Both are in memory, so a restart of `keep` begins again.
import type { Clock } from '../base/clock.ts';
import type { Store } from '../store/store.ts';

type Counters = Record<string, number>;

export interface AttemptGrowth {
  /** Since the last start of `run`, while it is younger than BOOT_MS; then empty. */
  sinceBoot: Counters;
  /** The last three thirds. Empty until half an hour has passed. */
  thirds: Counters[];
}

const BOOT_MS = 300_000;
const THIRD_MS = 600_000;
const POINTS = 4;

export function createAttemptCounters(store: Pick<Store, 'state'>, clock: Clock) {
  let boot: { number: number | null; after: number; counters: Counters } | undefined;
  let points: { after: number; counters: Counters }[] = [];

  return async (all: Counters): Promise<AttemptGrowth> => {
    const counters = Object.fromEntries(Object.entries(all).filter(([name]) => name.startsWith('attempts.')));
    const [number, after] = [await store.state.get('boot'), clock.monotonic()];
    if (boot?.number !== number) boot = { number, after, counters };
    if (after - (points.at(-1)?.after ?? -Infinity) >= THIRD_MS)
      points = [...points, { after, counters }].slice(-POINTS);
    const thirds = points.slice(1).map((point, n) => growth(points[n]?.counters ?? {}, point.counters));
    return {
      sinceBoot: after - (boot?.after ?? after) < BOOT_MS ? growth(boot?.counters ?? {}, counters) : {},
      thirds: points.length < POINTS ? [] : thirds,
    };
  };
}

function growth(from: Counters, to: Counters): Counters {
  return Object.fromEntries(Object.entries(to).map(([name, value]) => [name, value - (from[name] ?? 0)]));
}
