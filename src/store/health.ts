// Delivery health over all instances. The service counts failures in a row over all deliveries, and each instance sees a
// part of them. So each keeps a record of its own, and the records are merged when they are read. It is pure.
import type { Failures, KeptHealth, Refusal, Signer } from './keep.ts';

/** The state that each instance keeps for itself. */
export const OWN_STATE = new Set<string>(['failure_run', 'failures', 'signers', 'refusals']);

/** The last refusals that are kept of each cause. */
const REFUSALS_KEPT = 3;

/** Whether a refused delivery carried all headers of the service, and its user agent (contract 6.3). */
export function looksLikeService({ headers, agent }: Refusal): boolean {
  return headers === 5 && /-webhooks\//i.test(agent ?? '');
}

/** The newest refusals of one cause. The newest that looks like the service's stays, so that noise cannot hide it. */
export function lastRefusals(all: Refusal[]): Refusal[] {
  const newest = all.toSorted((a, b) => b.at.localeCompare(a.at));
  const kept = newest.slice(0, REFUSALS_KEPT);
  const like = newest.find(looksLikeService);
  return like === undefined || kept.includes(like) ? kept : [...kept.slice(0, -1), like];
}

const NONE: Failures = { causes: {}, badSignatures: 0, badSince: null, lastBadAt: null, lastGoodAt: null, at: [] };

export function mergeHealth(records: Partial<KeptHealth>[]): KeptHealth {
  const [only] = records;
  if (only && records.length === 1)
    return { failureRun: 0, signers: [], ...only, failures: { ...NONE, ...only.failures } };
  const failures = records.map((record) => ({ ...NONE, ...record.failures }));
  const lastGoodAt = latest(failures.map((one) => one.lastGoodAt));
  // Failures before the last 2xx answer of any instance are no longer part of the run.
  const since = lastGoodAt === null ? -Infinity : Date.parse(lastGoodAt);
  const runs = records.map(({ failureRun = 0 }, n) => {
    const at = failures[n]?.at ?? [];
    // A run longer than the times that are kept began earlier, so only its kept part counts.
    return at.some((time) => time <= since) ? at.filter((time) => time > since).length : at.length && failureRun;
  });
  const inRun = failures.filter((_, n) => (runs[n] ?? 0) > 0);
  const causes: Record<string, number> = {};
  for (const one of inRun)
    for (const [cause, count] of Object.entries(one.causes)) causes[cause] = (causes[cause] ?? 0) + count;
  const bad = failures.filter((one) => one.badSince !== null && Date.parse(one.badSince) > since);
  return {
    failureRun: runs.reduce((sum, run) => sum + run, 0),
    failures: {
      causes,
      badSignatures: bad.reduce((sum, one) => sum + one.badSignatures, 0),
      badSince: earliest(bad.map(({ badSince }) => badSince)),
      lastBadAt: latest(failures.map((one) => one.lastBadAt)),
      lastGoodAt,
      at: inRun.flatMap(({ at }) => at).filter((time) => time > since),
    },
    signers: mergeSigners(records.flatMap(({ signers = [] }) => signers)),
  };
}

function mergeSigners(all: Signer[]): Signer[] {
  const groups = [...Map.groupBy(all, ({ fingerprint }) => fingerprint).values()];
  const merged = groups.flatMap((group): Signer[] => {
    const [first] = group;
    if (!first) return [];
    const numbers = group.flatMap(({ number }) => number ?? []);
    return [
      {
        ...first,
        number: numbers[0] ?? null,
        hits: group.reduce((sum, { hits }) => sum + hits, 0),
        firstAt: earliest(group.map(({ firstAt }) => firstAt)),
        lastAt: latest(group.map(({ lastAt }) => lastAt)),
        aloneAt: latest(group.map(({ aloneAt }) => aloneAt)),
        goneAt: numbers.length > 0 ? null : latest(group.map(({ goneAt }) => goneAt)),
      },
    ];
  });
  const configured = merged.filter(({ number }) => number !== null);
  return merged.map((one) => ({ ...one, mayGo: one.number !== null && mayGo(one, configured) }));
}

/** By cause, the newest first. */
export function mergeRefusals(records: Record<string, Refusal[]>[]): Record<string, Refusal[]> {
  const causes = [...new Set(records.flatMap((record) => Object.keys(record)))];
  return Object.fromEntries(
    causes.map((cause) => [cause, lastRefusals(records.flatMap((record) => record[cause] ?? []))]),
  );
}

type Use = Pick<Signer, 'firstAt' | 'lastAt' | 'aloneAt'>;

/**
 * Whether secret `one` is safe to remove: it has signed, and another secret has taken its place. If `one` has ever
 * signed alone, the other must have signed after `aloneAt` and never before. If `one` has never signed alone, the other
 * must have signed alone after the last signature of `one`. A secret that has not signed yet stays, because the service
 * may still begin to use it. The secrets of two webhooks both stay, because each signs alone.
 */
export function mayGo(one: Use, all: Use[]): boolean {
  const { aloneAt, lastAt } = one;
  if (lastAt === null) return false;
  return all.some((other) => {
    if (other === one || other.firstAt === null || other.lastAt === null) return false;
    if (aloneAt === null) return other.aloneAt !== null && other.aloneAt > lastAt;
    return other.firstAt >= aloneAt && other.lastAt > aloneAt;
  });
}

/** The latest of these times, numbers or ISO 8601. */
function latest<Time extends number | string>(times: (Time | null)[]): Time | null {
  return times.reduce((a, b) => (a === null || (b !== null && b > a) ? b : a), null);
}

function earliest<Time extends number | string>(times: (Time | null)[]): Time | null {
  return times.reduce((a, b) => (a === null || (b !== null && b < a) ? b : a), null);
}
