// How the attempts of each handler ended, and how long they took, from the samples of the store's counters.
import { ACK_LE_MS } from '../base/latency-buckets.ts';
import type { HandlerSample, Sample } from '../store/read.ts';

export interface RecentAttempts extends HandlerSample {
  /** The upper bound, in ms, of the bucket in which 95 of 100 attempts had ended. Null: there was no attempt. */
  p95: number | null;
}

/** By handler. A handler that the first sample does not know had no attempt before. */
export function attemptsBetween(samples: Sample[]): Map<string, RecentAttempts> {
  const first = new Map(Object.entries(samples.find(({ handlers }) => handlers)?.handlers ?? {}));
  const last = Object.entries(samples.at(-1)?.handlers ?? {});
  return new Map(last.map(([name, to]) => [name, grown(first.get(name), to)]));
}

function grown(from: HandlerSample | undefined, to: HandlerSample): RecentAttempts {
  const took = to.took.map((n, i) => n - (from?.took[i] ?? 0));
  const [succeeded, failed] = [to.succeeded - (from?.succeeded ?? 0), to.failed - (from?.failed ?? 0)];
  return { succeeded, failed, took, p95: quantile(took, 0.95) };
}

export const NO_ATTEMPTS: RecentAttempts = { succeeded: 0, failed: 0, took: [], p95: null };

/** Milliseconds within which this share of the answers was given: a bucket's upper bound. Null: no answers. */
export function quantile(counts: number[], share: number): number | null {
  const all = counts.reduce((sum, n) => sum + n, 0);
  let seen = 0;
  for (const [i, n] of counts.entries())
    if ((seen += n) >= all * share && all > 0) return Math.min(ACK_LE_MS[i] ?? Infinity, 20_000);
  return null;
}
