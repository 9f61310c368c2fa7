// Figures over time, from the samples of the counters: ranges, and what grew.
import type { ReadStore, Sample } from '../../store/read.ts';

export const RANGES = {
  '1h': { ms: 3_600_000, stepMs: 30_000 },
  '6h': { ms: 21_600_000, stepMs: 180_000 },
  '24h': { ms: 86_400_000, stepMs: 720_000 },
  '7d': { ms: 604_800_000, stepMs: 5_400_000 },
};
export type Range = keyof typeof RANGES;
/** The number of points of a chart. */
const POINTS = 120;
const DAY_MS = 86_400_000;

export function rangeOf(asked: unknown): Range {
  return typeof asked === 'string' && Object.hasOwn(RANGES, asked) ? (asked as Range) : '1h';
}

/** As people read it: `24 h`. */
export function nameOf(range: Range): string {
  return range.replace(/(\d+)/, '$1 ');
}

/** The samples of a range. If the first figures are younger than the range, their steps are shorter. */
export async function samplesOf(store: Pick<ReadStore, 'samples'>, range: Range, now: number): Promise<Sample[]> {
  const { ms, stepMs } = RANGES[range];
  const samples = await store.samples(now - ms, now, stepMs);
  const from = (samples[0]?.at ?? now) - stepMs;
  return from <= now - ms ? samples : store.samples(from, now, Math.ceil((now - from) / POINTS));
}

/** The last ten minutes, which say whether a handler fails, and the last week, which says how many events come. */
export async function besides({ samples }: Pick<ReadStore, 'samples'>, now: number) {
  const [recent, week] = [await samples(now - 600_000, now, 300_000), await samples(now - 7 * DAY_MS, now, DAY_MS / 4)];
  return { recent, week };
}

/** How many deliveries each latency bucket has counted between the first sample and the last. */
export function answersIn(samples: Sample[]): number[] {
  return (samples.at(-1)?.acks ?? []).map((n, i) => grown(samples[0]?.acks[i], n));
}

export function grown(before = 0, after = 0): number {
  return Math.max(0, after - before);
}

export function shownMs(ms: number | null): string {
  if (ms === null) return '–';
  return ms > 10_000 ? 'over 10 s' : ms < 1_000 ? `${ms} ms` : `${ms / 1000} s`;
}
