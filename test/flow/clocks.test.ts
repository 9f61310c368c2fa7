// The clock matrix, a part of it: whatever the wall clock is set to, while the kit is up or between two starts, beside a
// service that is right, ahead or behind, each event is stored once, handled once by each handler, and in order. The whole
// matrix belongs to `npm run prove -- faults`.
import { describe, expect, test } from 'vitest';
import { HOUR, liveThrough, STEPS } from './clocks.ts';

describe.each([true, false])('stepping while up: %s', (up) => {
  test.each(STEPS)('by %i ms and back, with a key and without', async (step) => {
    expect(await liveThrough({ step, up, service: 0, key: true, seed: 7 })).toEqual([]);
    expect(await liveThrough({ step, up, service: 0, key: false, seed: 8 })).toEqual([]);
  });

  test.each([HOUR, -HOUR, 240_000])('beside a service that is %i ms ahead', async (service) => {
    expect(await liveThrough({ step: -service, up, service, key: true, seed: 9 })).toEqual([]);
  });
});
