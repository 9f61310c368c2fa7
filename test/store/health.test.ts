// Delivery health is counted over all instances of the kit, as the service counts it.
import { expect, test } from 'vitest';
import { mergeHealth, mergeRefusals } from '../../src/store/health.ts';
import type { Failures, Signer } from '../../src/store/keep.ts';

const iso = (second: number): string => new Date(second * 1_000).toISOString();
const failing = (seconds: number[], lastGood: number | null = null, more: Partial<Failures> = {}) => ({
  failureRun: seconds.length,
  failures: {
    causes: { store: seconds.length },
    badSignatures: 0,
    badSince: null,
    lastBadAt: null,
    lastGoodAt: lastGood === null ? null : iso(lastGood),
    at: seconds.map((second) => second * 1_000),
    ...more,
  },
});

test('without a record, nothing has happened', () => {
  expect(mergeHealth([])).toMatchObject({ failureRun: 0, signers: [], failures: { causes: {}, lastGoodAt: null } });
});

test('the failures of all instances in a row are one run', () => {
  const merged = mergeHealth([failing([1, 2]), failing([3]), failing([], null)]);
  expect(merged.failureRun).toBe(3);
  expect(merged.failures.causes).toEqual({ store: 3 });
});

test('a 2xx answer of one instance ends the run of all: only later failures count', () => {
  expect(mergeHealth([failing([1, 2, 7]), failing([], 5)]).failureRun).toBe(1);
  expect(mergeHealth([failing([1, 2]), failing([], 5)]).failureRun).toBe(0);
  expect(mergeHealth([failing([1, 2], 0), failing([3], 2)]).failureRun).toBe(1);
});

test('a run that is longer than the times that are kept counts whole, unless a 2xx answer came within these times', () => {
  const long = { ...failing([20, 21, 22]), failureRun: 30 };
  expect(mergeHealth([long, failing([23], 1)]).failureRun).toBe(31);
  expect(mergeHealth([long, failing([], 20)]).failureRun).toBe(2);
});

test('wrong signatures count since the last 2xx answer of any instance', () => {
  const bad = { badSignatures: 4, badSince: iso(6), lastBadAt: iso(8) };
  expect(mergeHealth([failing([], 5), failing([], null, bad)]).failures).toMatchObject(bad);
  expect(mergeHealth([failing([], 7), failing([], null, bad)]).failures).toMatchObject({
    badSignatures: 0,
    badSince: null,
  });
});

test('a secret signs for all instances: hits are added, and it may go only if no instance needs it', () => {
  const signer = (fingerprint: string, number: number, times: number[], alone: number | null): Signer => ({
    fingerprint,
    number,
    hits: times.length,
    firstAt: times[0] ?? null,
    lastAt: times.at(-1) ?? null,
    aloneAt: alone,
    mayGo: false,
    goneAt: null,
  });
  const one = { signers: [signer('old', 1, [1, 2], 2), signer('new', 2, [3], 3)] };
  expect(mergeHealth([one, { signers: [] }]).signers).toMatchObject([{ mayGo: true }, { mayGo: false }]);
  const other = { signers: [signer('old', 1, [9], 9), signer('new', 2, [4], 4)] };
  expect(mergeHealth([one, other]).signers).toMatchObject([
    { fingerprint: 'old', hits: 3, firstAt: 1, lastAt: 9, aloneAt: 9, mayGo: false },
    { fingerprint: 'new', hits: 2, firstAt: 3, lastAt: 4, aloneAt: 4, mayGo: false },
  ]);
});

test('of the refusals of all instances, the newest of each cause are shown', () => {
  const refusal = (second: number) => ({ at: iso(second), headers: 5, skewSeconds: 0, agent: null, bytes: null });
  const merged = mergeRefusals([{ window: [refusal(3), refusal(1)] }, { window: [refusal(4), refusal(2)], path: [] }]);
  expect(merged['window']?.map(({ at }) => at)).toEqual([4, 3, 2].map(iso));
});
