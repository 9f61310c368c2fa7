// Notes: small facts that a handler commits about its task while it runs. They outlive the attempt and its process.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Claim } from '../../src/store/work.ts';
import { done, failed, present, range, T0, type Desk, type Suite, rowsOf } from './harness.ts';

const LIMIT = 32;

export function notes(suite: Suite): void {
  let desk: Desk;
  let claim: Claim;

  const setUp = async (): Promise<void> => {
    desk = suite.desk;
    await desk.arrive('a', [10]);
    claim = present((await desk.claim())[0]);
  };

  const note = (name: string, value: string, by = claim): Promise<boolean> =>
    suite.store.work.noteTask(by, name, value, T0);

  async function failAndClaim(): Promise<Claim> {
    await desk.settle([failed(claim, { dueAt: desk.now, holdMs: 0 })]);
    return present((await desk.claim())[0]);
  }

  describe('a note', () => {
    beforeEach(setUp);

    test('is there at the next attempt, with its last value', async () => {
      expect(claim.notes).toEqual({});
      expect(await note('begun', 'true')).toBe(true);
      expect(await note('step', '1')).toBe(true);
      expect(await note('step', '{"n":2}')).toBe(true);
      expect((await failAndClaim()).notes).toEqual({ begun: 'true', step: '{"n":2}' });
    });

    test('is of one task only', async () => {
      await note('begun', 'true');
      await desk.arrive('b', [11]);
      expect((await desk.claim()).map((other) => other.notes)).toEqual([{}]);
    });

    test('outlives the process that made it', async () => {
      await note('begun', 'true');
      await suite.store.processes.giveBack([], T0);
      const next = suite.another();
      const again = await next.work.claimIsolated(T0 + 3_600_000, 2, [desk.handler]);
      expect(again?.notes).toEqual({ begun: 'true' });
    });

    test('is refused if the claim is gone: by another boot, after a settlement, after the next attempt', async () => {
      const stale = claim;
      expect(await note('begun', 'true', { ...claim, boot: 99 })).toBe(false);
      const next = await failAndClaim();
      expect(await note('begun', 'true', stale)).toBe(false);
      await desk.settle([done(next)]);
      expect(await note('begun', 'true', next)).toBe(false);
    });

    test('is refused beyond the limit of a task, and a known one can still be changed', async () => {
      for (const n of range(1, LIMIT)) await note(`note ${n}`, '1');
      await expect(note('one more', '1')).rejects.toThrow('at most 32 notes');
      expect(await note('note 1', '2')).toBe(true);
    });
  });

  describe('a read of a handler', () => {
    beforeEach(setUp);

    const read = (sql: string, ...values: string[]) => suite.store.work.read(sql, values);

    test('returns the rows of one select, with its values', async () => {
      await suite.store.work.setup((tx) => tx.run('create table mine (name text, n integer)'));
      await suite.store.work.complete(claim, T0, (tx) => tx.run(`insert into mine values ('a', 1), ('b', 2)`));
      expect(await read('select n from mine where name = ?', 'b')).toEqual([{ n: 2 }]);
    });

    test.each([
      'insert into mine values (1) returning *',
      'delete from mine',
      'create table other (n integer)',
      'begin',
      'pragma journal_mode = delete',
      'select 1; delete from mine',
    ])('refuses %s, and names the remedy', async (sql) => {
      await suite.store.work.setup((tx) => tx.run('create table mine (n integer)'));
      await expect(read(sql)).rejects.toThrow(/write in ctx.complete|more than one statement|multiple commands/);
      expect(await rowsOf(suite.store, 'mine')).toEqual([]);
    });
  });
}
