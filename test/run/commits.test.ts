// What the runner commits with ctx.complete, with a real store.
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Context, KitEvent } from '../../src/kit.ts';
import { createFolder, until } from './fixture.ts';
import { stage } from './stage.ts';
import { storeKind } from '../stores.ts';

test('the event loop is not blocked while many handlers commit', async () => {
  let commits = 0;
  let most = 0;
  const handle = async (_: KitEvent, ctx: Context): Promise<void> =>
    ctx.complete(() => {
      most = Math.max(most, ++commits);
    });
  const path = join(createFolder(), 'events.db');
  const store = storeKind.open(path, { owner: true, synchronous: 'NORMAL' });
  const handler = { lane: 'none', order: 'arrival', handle } as const;
  const { accept, tasks } = await stage([handler], { concurrency: 4 }, store);
  let tick = setImmediate(function next() {
    commits = 0;
    tick = setImmediate(next);
  });
  onTestFinished(() => clearImmediate(tick));
  await accept(...Array.from({ length: 200 }, (_, index) => ({ cursor: index + 1 })));
  await until(async () => (await tasks()).done === 200);
  expect(most).toBeLessThan(20);
});

test('ctx.complete also commits if the handler does not await it', async () => {
  const path = join(createFolder(), 'events.db');
  const store = storeKind.open(path, { owner: true, synchronous: 'NORMAL' });
  let commits = 0;
  const handle = (_: KitEvent, ctx: Context): void => void ctx.complete(() => void commits++);
  const { accept, tasks } = await stage([{ order: 'arrival', handle }], {}, store);
  await accept({ cursor: 1 }, { cursor: 2 });
  await until(async () => (await tasks()).done === 2);
  expect(commits).toBe(2);
});

describe('completion', () => {
  test("commits the handler's writes with its task", async () => {
    const handle = (_: KitEvent, ctx: Context): Promise<void> =>
      ctx.complete((tx) => void tx.run('insert into mine values (1)'));
    const { accept, rest, store, tasks } = await stage([{ order: 'arrival', handle }]);
    await store.work.setup((tx) => void tx.run('create table mine (n integer)'));
    await accept({ cursor: 1 }, { cursor: 2 });
    await until(async () => (await tasks()).done === 2);
    await rest();
    let rows: unknown;
    await store.work.setup(async (tx) => void (rows = await tx.all('select n from mine')));
    expect(rows).toEqual([{ n: 1 }, { n: 1 }]);
    expect((await store.read.counters())['fenced'] ?? 0).toBe(0);
  });
});
