// A part of the clock matrix: the wall clock is set while the kit is up or between two starts, and the service's clock
// is right, ahead or behind. Each event must be stored once and handled once by each handler, in order. `npm run prove
// -- faults` runs the whole matrix.
import { describe, expect, test } from 'vitest';
import { HOUR, liveThrough, STEPS } from './clocks.ts';

describe.each([true, false])('the wall clock is set; the kit is up: %s', (up) => {
  test.each(STEPS)('by %i ms and back, with an API key and without', async (step) => {
    expect(await liveThrough({ step, up, service: 0, key: true, seed: 7 })).toEqual([]);
    expect(await liveThrough({ step, up, service: 0, key: false, seed: 8 })).toEqual([]);
  });

  test.each([HOUR, -HOUR, 240_000])('while the clock of the service is %i ms ahead', async (service) => {
    expect(await liveThrough({ step: -service, up, service, key: true, seed: 9 })).toEqual([]);
  });
});
