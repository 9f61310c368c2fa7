// A handler with a rate limit, run with a real store.
import { describe, expect, test } from 'vitest';
import { until } from './fixture.ts';
import { noting, stage } from './stage.ts';

describe('a rate limit', () => {
  test('lets attempts begin one by one, leaves the other tasks ready, and delays no other handler', async () => {
    const slow = noting({ name: 'slow', lane: 'none', order: 'arrival', rate: { perMinute: 60 } });
    const quick = noting({ name: 'quick', lane: 'none', order: 'arrival' });
    const { accept, pass, tasks } = await stage([slow.handler, quick.handler]);
    await accept(...Array.from({ length: 20 }, (_, n) => ({ cursor: n + 1 })));
    await until(async () => quick.handled.length === 20 && (await tasks()).done === 20);
    expect(slow.handled).toEqual([]);
    expect(await tasks()).toMatchObject({ ready: 20, running: 0, done: 20 });
    for (let begun = 1; begun <= 5; begun++) {
      pass(1_000);
      await until(async () => (await tasks()).done === 20 + begun);
      expect(slow.handled).toHaveLength(begun);
    }
    pass(3_600_000);
    await until(async () => (await tasks()).done === 26);
    await until(async () => (await tasks()).running === 0);
    expect(slow.handled).toHaveLength(6);
    expect((await tasks()).ready).toBe(14);
  });
});
