// How the attempts of each handler ended within the last hour, from the samples of the store's counters.
import { ACK_LE_MS } from '../base/latency-buckets.ts';
import type { HandlerSample, ReadStore, Sample } from '../store/read.ts';

const HOUR_MS = 3_600_000;
const STEP_MS = 300_000;

export type RecentAttempts = ReturnType<typeof grown>;

export async function recentAttempts({ samples }: Pick<ReadStore, 'samples'>, now: number) {
  return attemptsBetween(await samples(now - HOUR_MS, now, STEP_MS));
}

/** By handler. A handler that the first sample does not know had no attempt before. */
export function attemptsBetween(samples: Sample[]): Map<string, RecentAttempts> {
  const [first, last] = [samples.find(({ handlers }) => handlers)?.handlers, samples.at(-1)?.handlers];
  return new Map(Object.entries(last ?? {}).map(([name, to]) => [name, grown(first?.[name], to)]));
}

function grown(from: HandlerSample | undefined, to: HandlerSample) {
  const took = to.took.map((n, i) => n - (from?.took[i] ?? 0));
  return {
    succeeded: to.succeeded - (from?.succeeded ?? 0),
    failed: to.failed - (from?.failed ?? 0),
    /** The upper bound, in ms, of the bucket in which 95 of 100 attempts had ended. Null: there was no attempt. */
    p95: quantile(took, 0.95),
  };
}

/** Milliseconds within which this share of the answers was given: a bucket's upper bound. Null: no answers. */
export function quantile(acks: number[], share: number): number | null {
  const all = acks.reduce((sum, n) => sum + n, 0);
  let seen = 0;
  for (const [i, n] of acks.entries())
    if ((seen += n) >= all * share && all > 0) return Math.min(ACK_LE_MS[i] ?? Infinity, 20_000);
  return null;
}
