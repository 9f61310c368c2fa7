// Attempts that fail, with a real store: retries, dead letters, time limits, stray errors, and a clock that is set.
import { AsyncLocalStorage } from 'node:async_hooks';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { KitEvent } from '../../src/kit.ts';
import type { Scope } from '../../src/run/stray-errors.ts';
import { RetryAfter, Skip } from '../../src/kit.ts';
import { createClock, createFolder, createStore, delivery, T0, until } from './fixture.ts';
import { noting, stage } from './stage.ts';
import { onPostgres, storeKind } from '../stores.ts';

test('a task that is retried after its body was purged is a dead letter that says so', async () => {
  const store = createStore();
  const skipping = {
    on: new Set(['Thing']),
    order: 'arrival' as const,
    handle: () => {
      throw new Skip('not mine');
    },
  };
  const { accept, rest, tasks, runner } = await stage([skipping], {}, store);
  await accept({ cursor: 1 });
  await until(async () => (await tasks()).skipped === 1, 'the skip');
  // `purge` never removes the body of the newest event, so the test first accepts an event newer than the skipped one.
  await accept({ cursor: 2, type: 'Other' });
  await store.keep.purge(T0 + 1_000, null, 100);
  const { tasks: skipped } = await store.read.tasks({ state: 'skipped', limit: 1 }, T0);
  await store.admin.retry(
    skipped.map(({ id }) => id),
    T0,
  );
  runner.wake();
  await rest();
  const { tasks: dead } = await store.read.tasks({ state: 'dead', limit: 1 }, T0);
  expect(dead[0]?.error).toContain('purged after PAYLOAD_RETENTION_DAYS');
});

describe('failure', () => {
  test('a failed attempt is retried after its back-off, until one succeeds', async () => {
    let tries = 0;
    const handle = (): void => {
      if (++tries < 3) throw new Error(`no ${tries}`);
    };
    const { accept, pass, rest, store } = await stage([{ order: 'arrival', handle }]);
    await accept({ cursor: 1 });
    for (const expected of [1, 2]) {
      await until(() => tries === expected);
      await rest();
      pass(60_000);
    }
    await until(() => tries === 3);
    await rest();
    expect((await store.read.tasks({}, T0)).tasks).toMatchObject([{ state: 'done', attempts: 3 }]);
  });

  test('an event that always fails becomes a dead letter and does not affect other events', async () => {
    const handled: string[] = [];
    const handle = (event: KitEvent): void => {
      if (event.key === 'c:2') throw new Error('poison');
      handled.push(event.key);
    };
    const { accept, pass, rest, tasks, lines } = await stage([
      { order: 'arrival', handle, retry: { attempts: 2, firstMs: 10, maxMs: 10 } },
    ]);
    await accept({ cursor: 1 }, { cursor: 2 }, { cursor: 3 }, { cursor: 4, session: 'b' });
    await until(() => handled.length === 2);
    await until(() => lines.some(({ verdict }) => verdict === 'retry'), 'the first failure');
    pass(1_000);
    await until(() => handled.length === 3);
    await rest();
    expect(await tasks()).toMatchObject({ done: 3, dead: 1 });
    expect(handled).toEqual(expect.arrayContaining(['c:1', 'c:3', 'c:4']));
    expect(lines.filter(({ verdict }) => verdict === 'dead')).toMatchObject([{ key: 'c:2', level: 50 }]);
  });

  test('the log has the failure, but no text of strangers', async () => {
    const secret = 'a message from +49 170 1234567';
    const { accept, rest, lines } = await stage([
      { order: 'arrival', handle: () => Promise.reject(new Error(secret)) },
    ]);
    await accept({ cursor: 1, data: { body: secret } });
    await until(() => lines.some(({ verdict }) => verdict === 'retry'));
    await rest();
    expect(JSON.stringify(lines)).not.toContain('1234567');
  });

  test('RetryAfter with a fraction of a millisecond does not end the process', async () => {
    let tries = 0;
    const handle = (): void => {
      if (++tries === 1) throw new RetryAfter(1.5, 'busy');
    };
    const rejections: unknown[] = [];
    const note = (error: unknown): void => void rejections.push(error);
    const others = process.listeners('unhandledRejection');
    process.removeAllListeners('unhandledRejection').on('unhandledRejection', note);
    onTestFinished(() => {
      process.removeAllListeners('unhandledRejection');
      for (const other of others) process.on('unhandledRejection', other);
    });
    const { accept, pass } = await stage([{ order: 'arrival', handle }]);
    await accept({ cursor: 1 });
    await until(() => {
      pass(10);
      return tries === 2 || rejections.length > 0;
    });
    expect(rejections).toEqual([]);
    expect(tries).toBe(2);
  });

  test('F16: a clock that is set back by an hour does not delay tasks for that hour', async () => {
    let tries = 0;
    const failing = { retry: { attempts: 5, firstMs: 1_000, maxMs: 1_000 }, on: new Set(['Failing']) };
    const handled: string[] = [];
    const { accept, pass, rest, clock } = await stage([
      {
        ...failing,
        name: 'failing',
        handle() {
          if (++tries === 1) throw new Error('the first time');
        },
      },
      { name: 'waiting', on: new Set(['Thing']), handle: (event) => void handled.push(event.key) },
    ]);
    await accept({ cursor: 1, type: 'Failing' });
    pass(250);
    await until(() => tries === 1, 'the first attempt');
    await rest();
    await accept({ cursor: 2 });
    await rest();
    expect(handled).toEqual([]);
    clock.stepped = -3_600_000;
    await until(() => {
      pass(10);
      return tries === 2 && handled.length === 1;
    }, 'the second attempt, and the window');
    expect(clock.now()).toBeLessThan(T0);
  });

  test.each([-3_600_000, 3_600_000, 60 * 86_400_000])(
    'F16: an attempt that ended just before the clock was set by %i ms is retried after its usual wait',
    async (stepped) => {
      const gate = Promise.withResolvers<void>();
      let tries = 0;
      const handle = (): Promise<void> | void => (++tries === 1 ? gate.promise : undefined);
      const retry = { attempts: 5, firstMs: 1_000, maxMs: 1_000 };
      const { accept, pass, clock, rest } = await stage([{ order: 'arrival', retry, handle }]);
      await accept({ cursor: 1 });
      await until(() => tries === 1, 'the first attempt');
      gate.reject(new Error('the first time'));
      // Waits until the attempt has ended, before the runner takes its next turn.
      for (let ticks = 0; ticks < 50; ticks++) await Promise.resolve();
      clock.stepped = stepped;
      pass(1);
      await rest();
      pass(400);
      await rest();
      expect(tries).toBe(1);
      await until(() => {
        pass(10);
        return tries === 2;
      }, 'the second attempt');
      expect(clock.at - T0).toBeLessThan(2_000);
    },
  );

  test.each([60 * 86_400_000, -60 * 86_400_000, 3_600_000])(
    'F16: order within the window is perfect, even if the clock is set by %i ms',
    async (stepped) => {
      const { handler, handled } = noting();
      const { accept, pass, rest, clock, store } = await stage([handler]);
      // The first event is fanned out, and the second is only received.
      await accept({ cursor: 5 });
      await rest();
      await store.ingest.accept({ readings: [delivery({ cursor: 4 })], now: clock.now() });
      clock.stepped = stepped;
      pass(200);
      await rest();
      expect(handled).toEqual([]);
      await accept({ cursor: 3 });
      await rest();
      expect(handled).toEqual([]);
      await until(() => {
        pass(10);
        return handled.length === 3;
      }, 'the end of the window');
      expect(handled).toEqual(['c:3', 'c:4', 'c:5']);
      expect(clock.at - T0).toBeLessThan(1_000);
    },
  );

  test('F16: tasks do not wait longer if the clock is set back while run is not running', async () => {
    const store = createStore();
    const first = await stage([noting().handler], {}, store);
    await first.accept({ cursor: 1 });
    await first.rest();
    await store.state.note({}, first.runner.state());
    await first.runner.drain(0);
    const clock = createClock(T0 - 60 * 86_400_000);
    const { handler, handled } = noting();
    const second = await stage([handler], { clock }, store);
    clock.at += 250;
    second.runner.wake();
    await until(() => handled.length === 1, 'the end of the window');
  });

  test('E9: the logged length of an attempt and the rate limit are right, even if the clock is set meanwhile', async () => {
    const gate = Promise.withResolvers<void>();
    const begun: number[] = [];
    const time: { at: number } = { at: 0 };
    const handle = (event: KitEvent): Promise<void> | void => {
      begun.push(time.at);
      if (event.key === 'c:1') return gate.promise;
    };
    const rate = { perMinute: 60 };
    const { accept, pass, clock, lines } = await stage([{ order: 'arrival', lane: 'none', rate, handle }]);
    const go = (ms: number): void => {
      pass(ms);
      time.at = clock.at - T0;
    };
    go(1_000);
    await accept({ cursor: 1 }, { cursor: 2 });
    await until(() => begun.length === 1, 'the first');
    clock.stepped = 3_600_000;
    go(100);
    gate.resolve();
    await until(() => lines.some(({ verdict }) => verdict === 'done'), 'its end');
    expect(lines.find(({ verdict }) => verdict === 'done')).toMatchObject({ ms: 100 });
    await until(() => {
      go(10);
      return begun.length === 2;
    }, 'the second');
    expect(begun[0]).toBe(1_000);
    expect(begun[1]).toBeGreaterThanOrEqual(2_000);
  });

  test('F22: after the time limit of a handler that hangs, another attempt can begin', async () => {
    const handled: string[] = [];
    const handle = (event: KitEvent): Promise<void> | void => {
      if (event.key === 'c:1') return new Promise(() => {});
      handled.push(event.key);
    };
    const { accept, store } = await stage([{ order: 'arrival', timeoutMs: 5, laneHoldMs: 0, handle }], {
      concurrency: 1,
    });
    await accept({ cursor: 1 }, { cursor: 2 });
    await until(() => handled.length === 1, 'the next of the lane');
    expect((await store.read.event('1', T0))?.tasks).toMatchObject([
      { state: 'ready', attempts: 1, error: 'Timeout: no result within 5 ms' },
    ]);
  });

  test('F26: an unhandled rejection fails the attempt that caused it, and no other', async () => {
    const failed: boolean[] = [];
    const scopes = new AsyncLocalStorage<Scope>();
    const handle = async (event: KitEvent): Promise<void> => {
      await new Promise(setImmediate);
      if (event.key !== 'c:1') return;
      failed.push(scopes.getStore()?.fail(new Error('stray')) ?? false);
      await new Promise(() => {});
    };
    const { accept, store, rest } = await stage([{ order: 'arrival', lane: 'none', handle }], { scopes });
    await accept({ cursor: 1 }, { cursor: 2 });
    await until(() => failed.length === 1);
    await rest();
    expect(failed).toEqual([true]);
    expect((await store.read.event('1', T0))?.tasks).toMatchObject([
      { state: 'ready', attempts: 1, error: expect.stringMatching(/^Error: stray \(test/) },
    ]);
    expect((await store.read.event('2', T0))?.tasks).toMatchObject([{ state: 'done' }]);
  });

  // PostgreSQL has no lock of the whole store.
  test.skipIf(onPostgres)('a store that is locked for a while only delays tasks', async () => {
    const path = join(createFolder(), 'events.db');
    storeKind.open(path, { owner: true }).close();
    const store = storeKind.open(path, { busyMs: 1 });
    onTestFinished(() => store.close());
    const { handler, handled } = noting({ order: 'arrival' });
    const { accept, runner, rest, tasks } = await stage([handler], {}, store);
    await accept({ cursor: 1 });
    await until(() => handled.length === 1);
    const lock = storeKind.queries(path);
    lock.exec('begin immediate');
    runner.wake();
    await new Promise(setImmediate);
    lock.exec('commit');
    lock.close();
    await rest();
    expect(await tasks()).toMatchObject({ done: 1 });
    expect(handled).toEqual(['c:1']);
  });
});
