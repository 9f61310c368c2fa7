import { expect, test } from 'vitest';
import { timeOf } from '../../src/base/clock.ts';

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
