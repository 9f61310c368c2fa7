// Figures over time, from the samples of the counters: ranges, growth, and how long answers and attempts took.
import { ACK_LE_MS } from '../../base/latency-buckets.ts';
import type { HandlerSample, ReadStore, Sample } from '../../store/read.ts';

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
const RECENT_MS = 600_000;

/** As people read it: `24 h`. */
export function nameOf(range: Range): string {
  return range.replace(/(\d+)/, '$1 ');
}

export function rangeOf(asked: unknown): Range {
  return typeof asked === 'string' && Object.hasOwn(RANGES, asked) ? (asked as Range) : '1h';
}

/** The samples of a range. If the first figures are younger than the range, their steps are shorter. */
export async function samplesOf(store: Pick<ReadStore, 'samples'>, range: Range, now: number): Promise<Sample[]> {
  const { ms, stepMs } = RANGES[range];
  const samples = await store.samples(now - ms, now, stepMs);
  const from = (samples[0]?.at ?? now) - stepMs;
  return from <= now - ms ? samples : store.samples(from, now, Math.ceil((now - from) / POINTS));
}

/** The samples of the last ten minutes. They say whether a handler is failing. */
export function recentSamples(store: Pick<ReadStore, 'samples'>, now: number): Promise<Sample[]> {
  return store.samples(now - RECENT_MS, now, RECENT_MS / 2);
}

/** The samples of the last week. They say how many events come in a day. */
export function weekSamples(store: Pick<ReadStore, 'samples'>, now: number): Promise<Sample[]> {
  return store.samples(now - 7 * DAY_MS, now, DAY_MS / 4);
}

/** New events a day. Null: the samples span less than a day. */
export function eventsPerDay(samples: Sample[]): number | null {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last || last.at - first.at < DAY_MS) return null;
  return (grown(first.accepted, last.accepted) * DAY_MS) / (last.at - first.at);
}

/** The attempts of a handler between the first sample and the last. Samples of an older kit are left out. */
export function attemptsOf(samples: Sample[], name: string): HandlerSample {
  const known = samples.flatMap(({ handlers }) => (handlers ? [handlers] : []));
  const [first, last] = [known[0]?.[name], known.at(-1)?.[name]];
  return {
    succeeded: grown(first?.succeeded, last?.succeeded),
    failed: grown(first?.failed, last?.failed),
    took: (last?.took ?? []).map((n, i) => grown(first?.took[i], n)),
  };
}

/** How many deliveries each latency bucket has counted between the first sample and the last. */
export function answersIn(samples: Sample[]): number[] {
  const [first, last] = [samples[0], samples.at(-1)];
  return (last?.acks ?? []).map((n, i) => grown(first?.acks[i], n));
}

export function grown(before = 0, after = 0): number {
  return Math.max(0, after - before);
}

/** Milliseconds within which this share of the answers was given: a bucket's upper bound. Null: no answers. */
export function quantile(counts: number[], share: number): number | null {
  const all = counts.reduce((sum, n) => sum + n, 0);
  let seen = 0;
  for (const [i, n] of counts.entries())
    if ((seen += n) >= all * share && all > 0) return Math.min(ACK_LE_MS[i] ?? Infinity, 20_000);
  return null;
}

export function shownMs(ms: number | null): string {
  if (ms === null) return '–';
  return ms > 10_000 ? 'over 10 s' : ms < 1_000 ? `${ms} ms` : `${ms / 1000} s`;
}
