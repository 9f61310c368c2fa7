import { expect, test } from 'vitest';
import { campaign } from '../prove/faults.ts';

test('the short form finds no violation and has a row for every fault of the catalogue', async () => {
  const { rows } = await campaign({ seed: 7, short: true, progress: () => {} });
  expect(rows.filter(({ violations }) => violations.length > 0)).toEqual([]);
  const numbers = new Set(rows.flatMap(({ what }) => what.match(/\bF\d+/g) ?? []));
  expect(numbers.size).toBe(50);
});
