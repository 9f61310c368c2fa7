import { describe, expect, test } from 'vitest';
import { createRate } from '../../src/run/rate-limit.ts';
import { T0 } from './fixture.ts';

/** When attempts begin, in milliseconds, if every `lookMs` as many attempts begin as the limit allows. */
function starts(perMinute: number, lookMs: number, forMs: number): number[] {
  const rate = createRate({ perMinute }, T0);
  const begun: number[] = [];
  for (let now = T0; now < T0 + forMs; now += lookMs)
    for (let free = rate.free(now); free > 0; free--) {
      rate.begin(now);
      begun.push(now - T0);
    }
  return begun;
}

describe('a rate limit', () => {
  test.each([
    [1, 100],
    [7, 13],
    [60, 5],
    [600, 7],
    [6_000, 8],
    [60_000, 9],
  ])('of %i a minute is not exceeded in any minute, with a look every %i ms', (perMinute, lookMs) => {
    const begun = starts(perMinute, lookMs, 180_000);
    let first = 0;
    let most = 0;
    for (const [i, at] of begun.entries()) {
      while ((begun[first] ?? at) <= at - 60_000) first++;
      most = Math.max(most, i - first + 1);
    }
    expect(most).toBeLessThanOrEqual(perMinute);
    expect(begun.length).toBeGreaterThan(perMinute * 3 * 0.88 - 1);
  });

  test('lets attempts begin one by one, and saves up none while there are no tasks', () => {
    expect(starts(60, 1_000, 5_000)).toEqual([1_000, 2_000, 3_000, 4_000]);
    const rate = createRate({ perMinute: 60 }, T0);
    expect(rate.free(T0 + 3_600_000)).toBe(1);
  });

  test('tells when the next attempt may begin', () => {
    const rate = createRate({ perMinute: 60 }, T0);
    expect(rate.nextAt(T0)).toBe(T0 + 1_000);
    expect(rate.nextAt(T0 + 1_000)).toBeNull();
    rate.begin(T0 + 1_500);
    expect(rate.nextAt(T0 + 1_500)).toBe(T0 + 2_500);
  });
});

test('F16: a clock that is set back by an hour does not stop the attempts for that hour', () => {
  const rate = createRate({ perMinute: 60 }, T0);
  rate.begin(T0 + 1_000);
  expect(rate.free(T0 - 3_600_000 + 2_000)).toBeGreaterThanOrEqual(0);
  expect(rate.free(T0 - 3_600_000 + 4_000)).toBe(1);
});
