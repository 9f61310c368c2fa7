// The short form of the campaign `inputs`. The long form is `npm run prove -- inputs`.
import { expect, test } from 'vitest';
import { campaign } from '../prove/inputs.ts';

test('no bad input does harm: the catalogue, and 2,000 random cases', async () => {
  const { rows } = await campaign({ seed: 1, short: true, progress: () => {} });
  expect(rows.length).toBeGreaterThan(80);
  expect(rows.flatMap(({ violations }) => violations)).toEqual([]);
});
