import { expect, test } from 'vitest';
import { campaign } from '../prove/crash.ts';
import { MissingTool } from '../prove/report.ts';

test(
  'K1 to K10, F13: kills at system calls and random moments, and loss of power, break no promise (needs strace)',
  { timeout: 600_000 },
  async (context) => {
    const seed = Date.now() % 1_000_000;
    const report = await campaign({ seed, short: true, progress: () => {} }).catch((error: unknown) => {
      if (error instanceof MissingTool) return context.skip(error.message);
      throw error;
    });
    const found = report.rows.flatMap(({ what, violations }) => violations.map((one) => `${what}: ${one}`));
    expect(found, `seed ${seed}`).toEqual([]);
  },
);
