import { array, assert, integer, oneof, property } from 'fast-check';
import { expect, test } from 'vitest';
import { iso, timeOf } from '../../src/base/clock.ts';

test.each([
  ['2026-01-31', Date.UTC(2026, 0, 31)],
  ['2026-01-31T12:00', Date.UTC(2026, 0, 31, 12)],
  ['2026-01-31T12:00:00+02:00', Date.UTC(2026, 0, 31, 10)],
  ['2028-02-29', Date.UTC(2028, 1, 29)],
  ['2026-02-29', undefined],
  ['2026-02-31T10:00:00Z', undefined],
  ['2026-13-01', undefined],
  ['2026-11-23T25:00', undefined],
  ['yesterday', undefined],
])('%s', (text, time) => {
  expect(timeOf(text)).toBe(time);
});

test('a time is written as a Date writes it, whatever times were written before', () => {
  const near = integer({ min: -200_000, max: 200_000 });
  const far = integer({ min: -8.64e15, max: 8.64e15 });
  assert(
    property(array(oneof(near, far), { minLength: 1, maxLength: 50 }), (times) => {
      expect(times.map(iso)).toEqual(times.map((ms) => new Date(ms).toISOString()));
    }),
  );
  expect([8.64e15, null, NaN, Infinity, 8.64e15 + 2].map(iso)).toEqual([
    '+275760-09-13T00:00:00.000Z',
    null,
    null,
    null,
    null,
  ]);
});
