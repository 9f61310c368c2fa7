// `ctx` on a real store: what it knows, and that it commits while its claim holds, and not after.
import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import type { Context } from '../../src/kit.ts';
import type { AttemptOptions } from '../../src/run/attempt.ts';
import { readEvent } from '../../src/run/event.ts';
import type { Loaded } from '../../src/run/load.ts';
import { createService } from '../../src/service/service.ts';
import type { Store } from '../../src/store/store.ts';
import type { Outcome } from '../../src/store/work.ts';
import { claimIn, createLines, createStore, run, start, stored, T0, taskOf } from './fixture.ts';

/** Runs the handler on a claimed task, with a table of its own. */
async function stage(handle: Loaded['handle'], options: Partial<AttemptOptions> = {}) {
  const store = createStore();
  const claim = await claimIn(store);
  await store.work.setup('one', (tx) => tx.run('create table mine (n integer)'));
  const outcome = await run(handle, { store: store.work, claim, ...options });
  return { store, claim, outcome, rows: () => store.work.read('select n from mine', []) };
}

const stateOf = async (store: Store): Promise<unknown> =>
  (await store.work.read('select state from tasks', []))[0]?.['state'];
const failed = (words: string): Partial<Outcome> => ({
  as: 'again',
  error: expect.stringContaining(words) as string,
});

test('it knows its attempt, its age and its key, and its log lines name handler and event', async () => {
  const { log, lines } = createLines();
  let seen: object = {};
  const handle: Loaded['handle'] = (_, { attempt, late, lagMs, idempotencyKey, notes, log: own }) => {
    seen = { attempt, late, lagMs, idempotencyKey, notes };
    own.info({ n: 1 }, 'hello');
  };
  const event = readEvent(stored({ createdAt: T0 - 5 }));
  await run(handle, { log, event, task: taskOf({ attempts: 1, crashes: 4, late: true, notes: { begun: true } }) });
  expect(seen).toEqual({ attempt: 3, late: true, lagMs: 5, idempotencyKey: 'one/c:1', notes: { begun: true } });
  expect(lines).toMatchObject([{ handler: 'one', key: 'c:1', n: 1, msg: 'hello' }]);
});

test('a call to the service after the time limit is aborted', async () => {
  let signal: AbortSignal | undefined;
  const serviceFor: AttemptOptions['serviceFor'] = (given) => {
    signal = given;
    return createService({ baseUrl: '', apiKey: '', paid: false, callsPerMinute: 1, clock: systemClock })(given);
  };
  const handle: Loaded['handle'] = (_, ctx) => (void ctx.service, new Promise(() => {}));
  await start({ handle, timeoutMs: 5 }, { serviceFor }).done;
  expect(signal?.aborted).toBe(true);
});

describe('ctx.complete', () => {
  test('commits the writes and the end of the task together', async () => {
    const { store, outcome, rows } = await stage((_, ctx) =>
      ctx.complete(async (tx) => void (await tx.run('insert into mine values (1)'))),
    );
    expect(outcome).toEqual({ event: 1, as: 'completed', error: null });
    expect([await stateOf(store), await rows()]).toEqual([1, [{ n: 1 }]]);
  });

  test('stays if the handler throws afterwards, and the log says so', async () => {
    const { log, lines } = createLines();
    const { outcome } = await stage((_, ctx) => ctx.complete(() => {}).then(() => ctx.note('more', 1)), { log });
    expect(outcome?.as).toBe('completed');
    expect(lines).toMatchObject([{ level: 40, error: 'Error', msg: expect.stringContaining('stays done') }]);
  });

  test('with work that throws fails the attempt, and writes nothing', async () => {
    const { store, outcome, rows } = await stage((_, ctx) =>
      ctx.complete(async (tx) => {
        await tx.run('insert into mine values (1)');
        throw new Error('not so');
      }),
    );
    expect(outcome).toMatchObject(failed('Error: not so (test/run/context.test.ts:'));
    expect([await stateOf(store), await rows()]).toEqual([0, []]);
  });

  test.each(['the handler has returned', 'the handler has thrown', 'its time is over'])(
    'that is not yet on disk when %s is waited for: the task is done, once',
    async (how) => {
      const store = createStore();
      const claim = await claimIn(store);
      const disk = Promise.withResolvers<void>();
      const complete: Store['work']['complete'] = async (...given) => {
        await disk.promise;
        for (let turns = 0; turns < 5; turns++) await setImmediate();
        return store.work.complete(...given);
      };
      const handle: Loaded['handle'] = async (_, ctx) => {
        ctx.signal.addEventListener('abort', () => disk.resolve());
        const completing = ctx.complete(() => {});
        if (how === 'its time is over') await completing;
        completing.catch(() => {});
        if (how === 'the handler has thrown') throw new Error('after all');
      };
      const { done } = start({ handle, timeoutMs: 5 }, { store: { ...store.work, complete }, claim });
      expect(await done).toMatchObject({ as: 'completed' });
      expect(await stateOf(store)).toBe(1);
    },
  );

  test('after the end of the attempt throws, and writes nothing', async () => {
    const late = Promise.withResolvers<Context>();
    const { store } = await stage((_, ctx) => late.resolve(ctx));
    const ctx = await late.promise;
    await expect(ctx.complete(() => {})).rejects.toThrow('the claim is gone');
    await expect(ctx.note('begun', true)).rejects.toThrow('the claim is gone');
    expect(await stateOf(store)).toBe(0);
  });
});

describe('ctx.note', () => {
  test('shows what was noted, before and in this attempt, and the store has it', async () => {
    const seen: unknown[] = [];
    const handle: Loaded['handle'] = async (_, ctx) => {
      await ctx.note('sent', { id: 7 });
      seen.push(ctx.notes);
    };
    const { store } = await stage(handle, { task: taskOf({ notes: { begun: true } }) });
    expect(seen).toEqual([{ begun: true, sent: { id: 7 } }]);
    expect(await store.work.read('select notes from tasks', [])).toEqual([{ notes: '{"sent":{"id":7}}' }]);
  });

  test.each([
    ['no name', '', 1, '1 to 100 characters'],
    ['no JSON', 'a', undefined, 'cannot be written as JSON'],
    ['more than 1 KiB', 'a', 'é'.repeat(512), 'exceeds 1024 bytes'],
  ])('refuses %s', async (_, name, value, error) => {
    const { outcome } = await stage((__, ctx) => ctx.note(name, value));
    expect(outcome).toMatchObject(failed(error));
  });

  test('has at most 32 names', async () => {
    const { outcome } = await stage(async (_, ctx) => {
      for (let n = 0; n < 33; n++) await ctx.note(`n${n}`, n);
    });
    expect(outcome?.error).toMatch(/at most 32 names of notes/);
  });

  test('throws if another attempt holds the claim', async () => {
    const store = createStore();
    const claim = { ...(await claimIn(store)), claim: 99 };
    const options = { store: store.work, claim };
    expect(await run((_, ctx) => ctx.note('begun', true), options)).toMatchObject(failed('the claim is gone'));
    expect(await run((_, ctx) => ctx.complete(() => {}), options)).toMatchObject(failed('the claim is gone'));
  });
});

test('ctx.read returns rows', async () => {
  const got: unknown[] = [];
  await stage(async (_, ctx) => void got.push(await ctx.read('select ? as n', 5)));
  expect(got).toEqual([[{ n: 5 }]]);
});
