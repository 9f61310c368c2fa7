// How long a failed task waits for its retry, tested by tables.
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { afterCrash, backoff, DEFAULT_RETRY } from '../../src/base/retry-policy.ts';

const policy = { attempts: 20, firstMs: 1_000, maxMs: 60_000 };

test.each([
  [1, 1, 1_000],
  [2, 1, 2_000],
  [3, 1, 4_000],
  [6, 1, 32_000],
  [7, 1, 60_000],
  [1_000, 1, 60_000],
  [7, 0.5, 30_000],
  [3, 0.25, 1_000],
  [7, 0, 500],
])('after attempt %i, with a random number of %d, the task waits %i ms', (attempt, random, ms) => {
  expect(backoff(attempt, policy, random)).toBe(ms);
});

test('a first wait of 0 stays 0, and a first wait above the maximum becomes the maximum', () => {
  expect(backoff(5, { attempts: 9, firstMs: 0, maxMs: 1_000 }, 1)).toBe(0);
  expect(backoff(1, { attempts: 9, firstMs: 5_000, maxMs: 1_000 }, 1)).toBe(1_000);
});

test('the wait is a whole number of milliseconds within its bounds, for every policy', () => {
  const ms = fc.integer({ min: 0, max: 365 * 86_400_000 });
  const policies = fc.record({ attempts: fc.constant(20), firstMs: ms, maxMs: ms });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1_000 }),
      policies,
      fc.double({ min: 0, max: 1, noNaN: true }),
      (attempt, any, random) => {
        const wait = backoff(attempt, any, random);
        return Number.isInteger(wait) && wait >= 0 && wait <= any.maxMs;
      },
    ),
    { seed: 1 },
  );
});

test('twenty attempts take up to about eight hours, as long as the service itself retries', () => {
  let total = 0;
  for (let attempt = 1; attempt < DEFAULT_RETRY.attempts; attempt++) total += backoff(attempt, DEFAULT_RETRY, 1);
  const hours = total / 3_600_000;
  expect(hours).toBeGreaterThan(7);
  expect(hours).toBeLessThan(9);
});

test.each<[string, number, number, number, boolean]>([
  ['three crashes, by default', 20, 3, 3, true],
  ['two crashes', 20, 2, 2, false],
  ['as many crashes as there are attempts', 2, 2, 2, true],
  ['one attempt alone', 1, 1, 1, true],
  ['a crash in the last attempt, after failures of other kinds', 5, 5, 1, true],
])('E42: after %s', (_, attempts, attempt, crashes, dead) => {
  const policies = new Map([['one', { retry: { attempts, firstMs: 8, maxMs: 8 }, laneHoldMs: 7 }]]);
  const next = afterCrash(policies)('one', attempt, crashes);
  if (dead) expect(next).toBe('dead');
  else expect(next).toMatchObject({ holdMs: 7 });
  if (next !== 'dead') expect(next.delayMs).toBeLessThanOrEqual(8);
});

test('E42: an unknown handler has the default policy', () => {
  expect(afterCrash(new Map())('gone', 1, 1)).toMatchObject({ holdMs: 120_000 });
  expect(afterCrash(new Map())('gone', 3, 3)).toBe('dead');
});
