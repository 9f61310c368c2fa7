// Durations and filters, as people type them.
import { expect, test } from 'vitest';
import { duration, taskFilterOf } from '../../src/admin/filters.ts';

test.each([
  ['30m', 1_800_000],
  ['6h', 21_600_000],
  ['2d', 172_800_000],
])('%s is a duration of %i ms', (text, ms) => {
  expect(duration.parse(text)).toBe(ms);
});

test.each(['', '0m', '6', '6 h', '-1h', '1.5h', '6H', '1w', '123456d'])('%j is no duration', (text) => {
  expect(duration.safeParse(text).error?.issues[0]?.message).toBe('must be a duration like 30m, 6h or 2d');
});

test('an age selects tasks of events received before that time', () => {
  expect(taskFilterOf({ state: 'ready', 'older-than': '6h' }, 100_000_000)).toEqual({
    state: 'ready',
    receivedBefore: 78_400_000,
    limit: 50,
  });
});
