// The clock matrix: whatever the wall clock is set to, while the kit is up or between two starts, beside a service that is
// right, ahead or behind, each event is stored once, handled once by each handler, and in order.
import { describe, expect, test } from 'vitest';
import { DAY, HOUR, liveThrough, type Cell } from './clocks.ts';

const STEPS = [HOUR, -HOUR, DAY, -DAY, 60 * DAY, -60 * DAY];

describe.each([true, false])('stepping while up: %s', (up) => {
  describe.each([0, 240_000, -240_000, HOUR, -60 * DAY])('the service is %i ms ahead', (service) => {
    test.each(STEPS)('by %i ms, and back', async (step) => {
      const cell: Cell = { step, up, service, seed: 7 };
      expect(await liveThrough(cell)).toEqual([]);
    });
  });
});
