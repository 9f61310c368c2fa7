// The counted duration of an attempt, with a real store.
import { expect, test } from 'vitest';
import type { Context, KitEvent } from '../../src/kit.ts';
import { until } from './fixture.ts';
import { stage } from './stage.ts';

test.each([
  ['returns', async () => {}, 'done'],
  ['calls ctx.complete', (ctx: Context) => ctx.complete(() => {}), 'done'],
  ['throws', () => Promise.reject(new Error('no')), 'retry'],
] as const)('the duration of an attempt is counted if its handler %s', async (_, end, verdict) => {
  const gate = Promise.withResolvers<void>();
  const handle = async (_event: KitEvent, ctx: Context): Promise<void> => {
    await gate.promise;
    await end(ctx);
  };
  const { accept, pass, store, tasks } = await stage([{ name: 'timed', order: 'arrival', handle }]);
  await accept({ cursor: 1 });
  await until(async () => (await tasks()).running === 1);
  pass(150);
  gate.resolve();
  const counted = async (): Promise<Record<string, number>> => store.read.counters();
  await until(async () => (await counted())[`attempts.${verdict}.timed`] === 1);
  expect(await counted()).toMatchObject({ 'took.200.timed': 1, 'took.sum_us.timed': 150_000 });
});
