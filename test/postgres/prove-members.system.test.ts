import { expect, test } from 'vitest';
import { campaign } from '../prove/members.ts';
import { hasServer } from './server.ts';

test.runIf(hasServer())('the short form of prove -- members finds no violation', { timeout: 300_000 }, async () => {
  const { rows } = await campaign({ seed: 7, short: true, progress: () => {} });
  expect(rows.filter(({ violations }) => violations.length > 0)).toEqual([]);
  expect(rows.length).toBeGreaterThan(5);
});
