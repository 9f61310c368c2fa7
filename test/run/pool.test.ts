// The pool: a chain of claims runs one after another in one place. After a failure, a recall or a drain, what has not
// begun goes back, and spends no attempt.
import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, test, vi } from 'vitest';
import { RetryAfter, Skip } from '../../src/kit.ts';
import type { Loaded } from '../../src/run/load-handlers.ts';
import { createPool } from '../../src/run/pool.ts';
import type { Claim } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { createClock, createLines, handlerOf, noService, storedEvent, T0, until } from './fixture.ts';

type Handle = (cursor: string) => unknown;

const none = (): Promise<never> => Promise.reject(new Error('no store in this test'));

function stage(handle: Handle, concurrency = 4, fields: Partial<Loaded> = {}) {
  const clock = createClock();
  const begun: string[] = [];
  const own: Loaded['handle'] = (event) => {
    begun.push(String(event.cursor));
    return handle(String(event.cursor)) as void;
  };
  let ends = 0;
  const pool = createPool({
    handlers: new Map([[1, handlerOf({ ...fields, handle: own })]]),
    store: { complete: none, noteTask: none, read: none },
    clock,
    log: createLines().log,
    concurrency,
    scopes: new AsyncLocalStorage(),
    serviceFor: noService,
    onEnd: () => void ends++,
  });
  /** The state of each settled task, by cursor. A task that went back without an attempt is `back`. */
  const settled = (): string[] =>
    pool.settlements().map(({ claim, state, spent = true }) => `${claim.event.cursor} ${spent ? state : 'back'}`);
  return { pool, begun, settled, clock, ends: () => ends };
}

function chainOf(...cursors: number[]): Claim[] {
  const chain = { recalled: false };
  const same = { handler: 1, lane: 1, alone: false, rerun: 0, attempt: 1, boot: 1, late: false, unproven: false };
  const own = { startedAt: T0, deferredMs: 0, error: null, chain, notes: {} };
  return cursors.map((cursor) => ({
    ...same,
    ...own,
    task: cursor,
    event: storedEvent({ cursor: String(cursor) as Cursor, key: `c:${cursor}` }),
  }));
}

test('a chain runs its tasks one after another, also after a skip, and other chains beside it', async () => {
  let running = 0;
  const { pool, begun, settled } = stage(async (cursor) => {
    expect(++running).toBeLessThanOrEqual(2);
    await Promise.resolve();
    running--;
    if (cursor === '2') throw new Skip('for a test');
  });
  pool.add([...chainOf(1, 2, 3), ...chainOf(11, 12)]);
  await until(() => pool.isIdle(), 'the chains to end');
  expect(begun.filter((cursor) => cursor.length === 1)).toEqual(['1', '2', '3']);
  expect(settled().toSorted()).toEqual(['1 done', '11 done', '12 done', '2 skipped', '3 done']);
});

test('if an attempt takes long, the rest of its chain goes back, and the chain ends with it', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { pool, begun, settled } = stage(() => promise);
  pool.add(chainOf(1, 2, 3));
  await until(() => settled().length === 2, 'the rest to go back');
  expect(settled()).toEqual(['2 back', '3 back']);
  resolve();
  await until(() => pool.isIdle(), 'the chain to end');
  expect([begun, settled().at(-1)]).toEqual([['1'], '1 done']);
});

test('claims that get no place soon go back and spend no attempt, so that people can discard or erase them', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { pool, begun, settled } = stage(() => promise, 1);
  pool.add([...chainOf(1, 2), ...chainOf(11, 12), ...chainOf(21)]);
  await until(() => settled().length === 4, 'what waits to go back');
  expect(settled().toSorted()).toEqual(['11 back', '12 back', '2 back', '21 back']);
  pool.add(chainOf(31));
  resolve();
  await until(() => pool.isIdle(), 'the chains to end');
  expect(begun).toEqual(['1', '31']);
});

test('what a drain gives back goes back once', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  const { promise, resolve } = Promise.withResolvers<void>();
  const { pool, settled } = stage(() => promise, 1);
  pool.add([...chainOf(1, 2), ...chainOf(11, 12)]);
  resolve();
  await pool.drain(1_000);
  vi.runAllTimers();
  vi.useRealTimers();
  expect(settled().toSorted()).toEqual(['1 done', '11 back', '12 back', '2 back']);
});

test.each([
  ['a failure', () => new Error('no'), '2 ready'],
  ['RetryAfter', () => new RetryAfter(1_000, 'later'), '2 back'],
])('after %s, the rest of the chain goes back and spends no attempt', async (_, error, expected) => {
  const { pool, begun, settled } = stage((cursor) => {
    if (cursor === '2') throw error();
  });
  pool.add(chainOf(1, 2, 3, 4));
  await until(() => pool.isIdle(), 'the chain to end');
  expect(begun).toEqual(['1', '2']);
  expect(settled().toSorted()).toEqual(['1 done', expected, '3 back', '4 back']);
});

test('a recall lets the running task end, and gives the rest back before it begins', async () => {
  const first = Promise.withResolvers<void>();
  const { pool, begun, settled } = stage(() => first.promise);
  const claims = chainOf(1, 2, 3);
  pool.add(claims);
  if (claims[0]) claims[0].chain.recalled = true;
  first.resolve();
  await until(() => pool.isIdle(), 'the chain to end');
  expect(begun).toEqual(['1']);
  expect(settled()).toEqual(['1 done', '2 back', '3 back']);
});

test('a drain lets the running task of a chain end, and gives the rest and the queue back', async () => {
  const first = Promise.withResolvers<void>();
  const { pool, begun, settled } = stage(() => first.promise, 1);
  pool.add([...chainOf(1, 2), ...chainOf(11, 12)]);
  const drained = pool.drain(60_000);
  first.resolve();
  await drained;
  await until(() => pool.isIdle(), 'the chains to end');
  expect(begun).toEqual(['1']);
  expect(settled().toSorted()).toEqual(['1 done', '11 back', '12 back', '2 back']);
});

test('chains are long for fast handlers, and single for slow ones', async () => {
  const { pool, clock } = stage((cursor) => void (clock.at += cursor === '1' ? 0 : 1_000));
  expect(pool.chains().get(1)).toBeUndefined();
  pool.add(chainOf(1));
  await until(() => pool.isIdle(), 'the first attempt');
  expect(pool.chains().get(1)).toBe(64);
  pool.add(chainOf(2));
  await until(() => pool.isIdle(), 'the slow attempt');
  expect(pool.chains().get(1)).toBe(1);
});

test('claims of a chain that have not begun count for the rate of their handler', async () => {
  const first = Promise.withResolvers<void>();
  const { pool, clock } = stage(() => first.promise, 4, { rate: { perMinute: 60_000 } });
  // The limit of a handler starts used up.
  clock.at += 1_000;
  const free = pool.limits().get(1) ?? 0;
  expect(free).toBeGreaterThan(3);
  pool.add(chainOf(1, 2, 3));
  expect(pool.limits().get(1)).toBeLessThanOrEqual(free - 3);
  first.resolve();
  await until(() => pool.isIdle(), 'the chain to end');
});
