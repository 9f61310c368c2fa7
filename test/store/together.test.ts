// Parts of a transaction that are sent together: all of them end before it does, and the cause of a failure is told.
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { together } from '../../src/store/sql/session.ts';

test('returns the results in order', async () => {
  expect(await together(turn(1), false, Promise.resolve('b'))).toEqual([1, false, 'b']);
});

test('if one part fails, the others end first, and the failure that came first is thrown', async () => {
  let ended = false;
  const follows = async (): Promise<void> => {
    await turn();
    await turn();
    ended = true;
    // As PostgreSQL says for each statement after the one that failed.
    throw new Error('current transaction is aborted');
  };
  const cause = async (): Promise<void> => {
    await turn();
    throw new Error('the cause');
  };
  await expect(together(follows(), cause())).rejects.toThrow('the cause');
  expect(ended).toBe(true);
});
