// A drain of the runner, with a real store: what ends, and what becomes ready again without spending an attempt.
import { describe, expect, test } from 'vitest';
import type { Context, KitEvent } from '../../src/kit.ts';
import type { Store } from '../../src/store/store.ts';
import { createStore, T0, until } from './fixture.ts';
import { noting, stage } from './stage.ts';

test('E51: a drain spends no attempt of tasks that are claimed and have not begun', async () => {
  const gate = Promise.withResolvers<void>();
  const handle = (event: KitEvent): Promise<void> | void => (event.key === 'c:150' ? gate.promise : undefined);
  const store = createStore();
  const { accept, runner, tasks } = await stage(
    [{ order: 'arrival', lane: 'none', handle }],
    { concurrency: 1 },
    store,
  );
  await accept(...Array.from({ length: 400 }, (_, n) => ({ cursor: n + 1 })));
  await until(async () => (await tasks()).running > 10, 'claims ahead');
  await runner.drain(0);
  const { tasks: waiting } = await store.read.tasks({ state: 'ready', limit: 1_000 }, T0);
  expect(waiting.length).toBeGreaterThan(10);
  expect(waiting.every(({ attempts, error }) => attempts === 0 && error === null)).toBe(true);
});

describe('a drain', () => {
  test('lets handlers finish if they can, and makes the other tasks ready again without spending an attempt', async () => {
    let started = 0;
    const handle = (event: KitEvent, ctx: Context): Promise<void> => {
      started++;
      if (event.key === 'c:1') return new Promise(() => {});
      if (event.key === 'c:2') return new Promise((resolve) => ctx.signal.addEventListener('abort', () => resolve()));
      return new Promise((_resolve, reject) =>
        ctx.signal.addEventListener('abort', () => reject(new Error('stopped'))),
      );
    };
    const { accept, runner, store, tasks } = await stage([{ order: 'arrival', lane: 'none', handle }]);
    await accept({ cursor: 1 }, { cursor: 2 }, { cursor: 3 });
    await until(() => started === 3);
    await runner.drain(50);
    expect(await tasks()).toMatchObject({ done: 1, ready: 2, running: 0 });
    const waiting = (await store.read.tasks({ state: 'ready' }, T0)).tasks;
    expect(waiting.map(({ attempts, error }) => [attempts, error])).toEqual([
      [0, null],
      [0, null],
    ]);
  });

  test('makes tasks ready again that were claimed and had not begun', async () => {
    const gate = Promise.withResolvers<void>();
    let started = 0;
    const handle = async (): Promise<void> => {
      started++;
      await gate.promise;
    };
    const { accept, runner, tasks } = await stage([{ order: 'arrival', lane: 'none', handle }], { concurrency: 2 });
    await accept(...Array.from({ length: 20 }, (_, i) => ({ cursor: i + 1 })));
    await until(() => started === 2);
    const drained = runner.drain(1_000);
    gate.resolve();
    await drained;
    expect(started).toBe(2);
    expect(await tasks()).toMatchObject({ done: 2, ready: 18, running: 0 });
  });

  test('makes tasks ready again that a turn was claiming', async () => {
    const store = createStore();
    const reached = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    /** A store whose turn answers only when the test lets it. */
    const distant: Store = {
      ...store,
      work: {
        ...store.work,
        async turn(turn) {
          const result = await store.work.turn(turn);
          if (result.claims.length > 0) {
            reached.resolve();
            await gate.promise;
          }
          return result;
        },
      },
    };
    const { handler, handled } = noting({ order: 'arrival' });
    const { accept, runner, tasks } = await stage([handler], {}, distant);
    await accept({ cursor: 1 });
    await reached.promise;
    const drained = runner.drain(50);
    gate.resolve();
    await drained;
    expect(handled).toEqual([]);
    expect(await tasks()).toMatchObject({ ready: 1, running: 0 });
  });

  test('claims no more tasks', async () => {
    const { handler, handled } = noting({ order: 'arrival' });
    const { accept, runner, store } = await stage([handler]);
    await runner.drain(0);
    await accept({ cursor: 1 });
    runner.wake();
    await new Promise(setImmediate);
    expect(handled).toEqual([]);
    expect((await store.read.status(T0)).unassigned).toBe(1);
  });
});
