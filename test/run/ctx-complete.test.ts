// ctx.complete: its writes and the end of the task are one transaction, whatever the handler does.
import { describe, expect, test } from 'vitest';
import type { Context, KitEvent } from '../../src/kit.ts';
import { logEnd } from '../../src/run/attempt-log.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import { RetryAfter } from '../../src/kit.ts';
import { StoreError, type Store } from '../../src/store/store.ts';
import type { Claim, Settlement, WorkStore } from '../../src/store/work.ts';
import { start } from './attempts.ts';
import { claimOf, createLines, createStore, handlerOf, T0 } from './fixture.ts';

describe('ctx.complete', () => {
  const tables = (store: Store): Promise<void> =>
    store.work.setup((tx) => void tx.run('create table mine (n integer)'));

  async function complete(
    handle: Loaded['handle'],
    handler: Partial<Loaded> = {},
  ): Promise<{ store: Store; claim: Claim; settlement: Settlement | null }> {
    const store = createStore();
    await tables(store);
    const claim = await claimOf(store);
    const settlement = await start({ ...handler, handle }, claim, store.work).settled;
    return { store, claim, settlement };
  }

  async function countOf(store: Store): Promise<unknown> {
    let n: unknown;
    await store.work.setup(async (tx) => void (n = (await tx.get('select count(*) as n from mine'))?.['n']));
    return n;
  }

  test('commits its writes and ends the task, and nothing is left to settle', async () => {
    const { store, settlement } = await complete((_, ctx) =>
      ctx.complete((tx) => void tx.run('insert into mine values (1)')),
    );
    expect(settlement).toBeNull();
    expect(await countOf(store)).toBe(1);
    expect((await store.read.status(T0)).tasks).toMatchObject({ done: 1, running: 0 });
  });

  test('makes the task done even if the handler throws afterwards', async () => {
    const { store, settlement } = await complete(async (_, ctx) => {
      await ctx.complete(() => {});
      throw new Error('too late');
    });
    expect(settlement).toBeNull();
    expect((await store.read.status(T0)).tasks.done).toBe(1);
  });

  test('with work that throws fails the attempt and writes nothing', async () => {
    const { store, settlement } = await complete((_, ctx) =>
      ctx.complete((tx) => {
        void tx.run('insert into mine values (1)');
        throw new Error('no');
      }),
    );
    expect(settlement).toMatchObject({ state: 'ready', error: expect.stringMatching(/^Error: no \(test/) });
    expect(await countOf(store)).toBe(0);
  });

  test.each(['its time is over', 'the handler has returned', 'the handler has thrown'])(
    'committed, but not yet synced when %s: the task is done, once',
    async (how) => {
      const store = createStore();
      await tables(store);
      const claim = await claimOf(store);
      const disk = Promise.withResolvers<void>();
      const slow: WorkStore = {
        ...store.work,
        complete: async (...given) => {
          const held = await store.work.complete(...given);
          await disk.promise;
          return held;
        },
      };
      const handle = async (_: KitEvent, ctx: Context): Promise<void> => {
        ctx.signal.addEventListener('abort', () => disk.resolve());
        const completing = ctx.complete((tx) => void tx.run('insert into mine values (1)'));
        if (how === 'its time is over') await completing;
        completing.catch(() => {});
        if (how === 'the handler has thrown') throw new Error('after the commit');
      };
      const attempt = start({ handle, timeoutMs: 1, retry: { attempts: 1, firstMs: 1, maxMs: 1 } }, claim, slow);
      expect(await attempt.settled).toBeNull();
      expect(await countOf(store)).toBe(1);
      expect((await store.read.status(T0)).tasks).toMatchObject({ done: 1, running: 0, dead: 0 });
    },
  );

  test.each(['busy', 'unwritable'] as const)('waits while the store is %s, and the handler runs once', async (code) => {
    const store = createStore();
    await tables(store);
    const claim = await claimOf(store);
    let [tries, runs] = [0, 0];
    const away: WorkStore = {
      ...store.work,
      complete: async (...given) => {
        if (++tries < 3) throw new StoreError(code, 'the store is away');
        return store.work.complete(...given);
      },
    };
    const handle = (_: KitEvent, ctx: Context): Promise<void> => {
      runs++;
      return ctx.complete((tx) => void tx.run('insert into mine values (1)'));
    };
    expect(await start({ handle }, claim, away).settled).toBeNull();
    expect({ tries, runs, rows: await countOf(store) }).toEqual({ tries: 3, runs: 1, rows: 1 });
  });

  test('that waits for the store until its time is over fails with the error of the store', async () => {
    const store = createStore();
    const away = { ...store.work, complete: () => Promise.reject(new StoreError('unwritable', 'the store is away')) };
    const handle = (_: KitEvent, ctx: Context): Promise<void> => ctx.complete(() => {});
    const attempt = start({ handle, timeoutMs: 5 }, await claimOf(store), away);
    expect(await attempt.settled).toMatchObject({
      state: 'ready',
      error: expect.stringContaining('the store is away'),
    });
  });

  test('with work that throws counts as done if the handler catches the error', async () => {
    const { store, settlement } = await complete((_, ctx) => {
      ctx
        .complete(() => {
          throw new Error('no');
        })
        .catch(() => {});
    });
    expect(settlement).toMatchObject({ state: 'done' });
    expect(await countOf(store)).toBe(0);
  });

  test('throws if it is called a second time, and the first completion stays', async () => {
    const { store, settlement } = await complete(async (_, ctx) => {
      await ctx.complete(() => {});
      await ctx.complete((tx) => void tx.run('insert into mine values (2)'));
    });
    expect(settlement).toBeNull();
    expect(await countOf(store)).toBe(0);
  });

  test.each([
    ['a second completion', (ctx: Context) => ctx.complete(() => {})],
    ['a note', (ctx: Context) => ctx.note('name', 1)],
  ])('%s after it throws an error that says why, and the handler is logged as failed', async (_, call) => {
    const store = createStore();
    const claim = await claimOf(store);
    const errors: string[] = [];
    const handle = async (event: KitEvent, ctx: Context): Promise<void> => {
      await ctx.complete(() => {});
      await call(ctx).catch((error: Error) => {
        errors.push(error.message);
        throw error;
      });
    };
    const attempt = start({ handle }, claim, store.work);
    const settlement = await attempt.settled;
    expect(errors).toEqual(['ctx.complete has ended this task: call it once, and ctx.note before it']);
    const { log, lines } = createLines();
    logEnd({ log, tellsWhy: false }, { claim, handler: handlerOf({ handle }), settlement, attempt, ms: 1 });
    expect(lines).toMatchObject([
      { level: 40, verdict: 'done', error: 'Error', msg: expect.stringContaining('stays') },
    ]);
    expect(JSON.stringify(lines)).not.toContain('has ended this task');
  });

  test('after the time limit, when the failure was written, throws and writes nothing (F22)', async () => {
    const gate = Promise.withResolvers<void>();
    const came = Promise.withResolvers<unknown>();
    const handle = async (_: KitEvent, ctx: Context): Promise<void> => {
      await gate.promise;
      await ctx.complete((tx) => void tx.run('insert into mine values (1)')).then(came.resolve, came.resolve);
    };
    const { store, settlement } = await complete(handle, { timeoutMs: 5 });
    if (!settlement) throw new Error('expected a timeout');
    await store.work.turn({ now: T0, boot: 1, settle: [settlement], fanOut: null, room: 0, handlers: [] });
    gate.resolve();
    expect(String(await came.promise)).toContain('the claim is gone');
    expect(await countOf(store)).toBe(0);
    expect((await store.read.status(T0)).tasks).toMatchObject({ done: 0, ready: 1 });
  });

  test('is refused after the end of its attempt, even if the task was claimed again with the same attempt number', async () => {
    const gate = Promise.withResolvers<void>();
    const came = Promise.withResolvers<unknown>();
    const { store, claim, settlement } = await complete((_, ctx) => {
      void gate.promise.then(() => ctx.complete(() => {})).then(came.resolve, came.resolve);
      throw new RetryAfter(1, 'busy');
    });
    if (!settlement) throw new Error('expected to be put off');
    const turn = { now: T0 + 1, boot: 1, fanOut: null, room: 1, handlers: [claim.handler] };
    await store.work.turn({ ...turn, settle: [settlement] });
    gate.resolve();
    expect(await came.promise).toBeInstanceOf(Error);
    expect((await store.read.status(T0)).tasks).toMatchObject({ done: 0, running: 1 });
  });
});
