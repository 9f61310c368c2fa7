// Steps of a handler's `setup`: each is remembered in the transaction that runs it, so it runs once or not at all.
import { beforeEach, describe, expect, test } from 'vitest';
import { retryWhileBusy } from '../../src/store/retry-while-busy.ts';
import type { Store } from '../../src/store/store.ts';
import type { Work } from '../../src/store/work.ts';
import { range, rowsOf, T0, type Suite, type WorkingStore } from './harness.ts';

const CREATE: Work = (tx) => tx.run('create table mine (n bigint)');
const add =
  (n: number): Work =>
  (tx) =>
    tx.run('insert into mine values (?)', n);

const run = (store: WorkingStore, step: number, work: Work, digest = `d${step}`, handler = 'first'): Promise<void> =>
  store.work.setup(work, { handler, step, digest, now: T0 });

export function setups(suite: Suite): void {
  describe('a step of a setup', () => {
    beforeEach(() => run(suite.store, 1, CREATE));

    test('is remembered, and does not run a second time', async () => {
      await run(suite.store, 2, add(2));
      await run(suite.store, 2, add(3));
      await run(suite.store, 2, add(4), 'another digest');
      expect(await rowsOf(suite.store, 'mine')).toEqual([{ n: 2 }]);
      expect(await suite.store.work.steps()).toEqual([
        { handler: 'first', step: 1, digest: 'd1' },
        { handler: 'first', step: 2, digest: 'd2' },
      ]);
    });

    test('is neither done nor remembered if a statement of it fails, and may then run again', async () => {
      const half: Work = async (tx) => {
        await add(2)(tx);
        await tx.run('insert into nowhere values (1)');
      };
      await expect(run(suite.store, 2, half)).rejects.toThrow('nowhere');
      expect(await rowsOf(suite.store, 'mine')).toEqual([]);
      expect(await suite.store.work.steps()).toHaveLength(1);
      await run(suite.store, 2, add(2));
      expect(await rowsOf(suite.store, 'mine')).toEqual([{ n: 2 }]);
    });

    test('is of one handler, and a setup without steps is not remembered', async () => {
      await run(suite.store, 1, add(1), 'd1', 'second');
      await suite.store.work.setup(add(2));
      await suite.store.work.setup(add(2));
      expect(await rowsOf(suite.store, 'mine')).toEqual([{ n: 1 }, { n: 2 }, { n: 2 }]);
      expect((await suite.store.work.steps()).map(({ handler }) => handler)).toEqual(['first', 'second']);
    });
  });
}

export function sharedSetups(suite: Suite<Store>): void {
  describe('steps of a setup in a shared store', () => {
    test('run once, however many processes start at the same time, and are known to all of them', async () => {
      const stores = [suite.store, ...range(1, 3).map(() => suite.another())];
      await run(suite.store, 1, CREATE);
      await Promise.all(
        stores.flatMap((store) =>
          range(2, 6).map((step) => retryWhileBusy(() => run(store, step, add(step), `d${step}`))),
        ),
      );
      expect((await rowsOf(suite.store, 'mine')).map(({ n }) => Number(n)).toSorted((a, b) => a - b)).toEqual(
        range(2, 6),
      );
      for (const store of stores) expect(await store.work.steps()).toHaveLength(6);
    });

    test('go along with a renamed handler, but not to one that has steps of its own', async () => {
      await run(suite.store, 1, CREATE);
      await run(suite.store, 2, add(2));
      await run(suite.store, 1, add(1), 'other', 'second');
      expect(await suite.store.admin.giveSteps('first', 'second')).toBe(0);
      expect(await suite.store.admin.giveSteps('nobody', 'third')).toBe(0);
      expect(await suite.store.admin.giveSteps('first', 'third')).toBe(2);
      expect(await suite.store.work.steps()).toEqual([
        { handler: 'second', step: 1, digest: 'other' },
        { handler: 'third', step: 1, digest: 'd1' },
        { handler: 'third', step: 2, digest: 'd2' },
      ]);
    });
  });
}
