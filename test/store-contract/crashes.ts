// A crash loses no task. The running tasks are given back, and each task that may have crashed the process runs alone.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Claim, Settlement } from '../../src/store/work.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import {
  cursorOf,
  done,
  failed,
  present,
  ROOM,
  T0,
  tasksOf,
  type Desk,
  type Suite,
  type WorkingStore,
} from './harness.ts';

export function deaths(suite: Suite): void {
  const { another } = suite;
  let store: WorkingStore;
  let desk: Desk;
  beforeEach(() => void ({ store, desk } = suite));

  /** The process of an isolated task settles it. */
  async function endIsolated(claim: Claim, settlement: Settlement = done(claim)): Promise<void> {
    const { boot } = claim;
    const nothing = { fanOut: null, room: 0, handlers: [] };
    await another().work.turn({ now: desk.now, boot, settle: [settlement], ...nothing });
  }

  describe('when a process has died', () => {
    test('the attempts of its running tasks do not count, and the tasks run isolated', async () => {
      await desk.arrive('a', [1, 2]);
      await desk.arrive('b', [3]);
      await desk.claim();
      expect(await store.processes.giveBack([2], T0)).toMatchObject([
        { handler: 'first', key: 'c:1', attempt: 1, alone: false },
        { handler: 'first', key: 'c:3', attempt: 1, alone: false },
      ]);
      desk.boot = 2;
      expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: null });
      expect(await store.processes.isolatedDue(T0, ['first'])).toBe(true);
      const one = await store.work.claimIsolated(T0, 3, [desk.handler]);
      const two = await store.work.claimIsolated(T0, 3, [desk.handler]);
      expect([one, two].map((claim) => [claim && cursorOf(claim), claim?.attempt])).toEqual([
        ['1', 1],
        ['3', 1],
      ]);
      expect(await store.work.claimIsolated(T0, 3, [desk.handler])).toBeUndefined();
      expect(await store.processes.isolatedDue(T0, ['first'])).toBe(false);
      await desk.settle([done(one), done(two)]);
      expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
    });

    test('a task in no lane is isolated too, and the turn returns no time for it', async () => {
      await desk.arrive(null, [1, 2]);
      await desk.claim();
      await store.processes.giveBack([], T0);
      expect(await desk.turn({ room: ROOM })).toMatchObject({ claims: [], nextAt: null });
      expect(await store.work.claimIsolated(T0, 2, [desk.handler])).toMatchObject({ attempt: 1, alone: true });
    });

    test('a task that was alone in the process has spent its attempt, waits for its retry, and holds its lane', async () => {
      await desk.arrive('a', [1, 2]);
      await desk.claim();
      await store.processes.giveBack([], T0);
      expect(await store.processes.isolatedDue(T0, ['first'])).toBe(false);
      expect(await store.work.claimIsolated(T0, 2, [desk.handler])).toBeUndefined();
      desk.now = T0 + 1_000;
      expect(await desk.claim()).toEqual([]);
      const again = await store.work.claimIsolated(desk.now, 2, [desk.handler]);
      expect(again).toMatchObject({ event: { cursor: '1' }, attempt: 2 });
      expect(again?.error).toContain('died');
    });

    describe('E42: with one task alone in it', () => {
      const after = (handler: string, attempt: number, crashes: number) =>
        crashes >= 3 ? ('dead' as const) : { delayMs: 10 * attempt, holdMs: 60_000 };
      const crash = { how: 'exit code 7 at bad.ts:3', after };

      test('the policy decides the pause; at the last crash the task becomes a dead letter that says how often and how its process died', async () => {
        await desk.arrive('a', [1, 2]);
        await desk.claim();
        expect(await store.processes.giveBack([], desk.now, crash)).toEqual([
          { handler: 'first', key: 'c:1', attempt: 1, alone: true, dead: false },
        ]);
        for (const attempt of [2, 3]) {
          desk.now += 10 * (attempt - 1) - 1;
          expect(await store.processes.isolatedDue(desk.now, ['first'])).toBe(false);
          desk.now += 1;
          const claim = present(await store.work.claimIsolated(desk.now, attempt + 10, [desk.handler]));
          expect(claim.attempt).toBe(attempt);
          const [given] = await store.processes.giveBack([], desk.now, crash);
          expect(given).toMatchObject({ attempt, alone: true, dead: attempt === 3 });
        }
        const { tasks } = await store.read.tasks({ state: 'dead', limit: 10 }, desk.now);
        expect(tasks).toMatchObject([
          { key: 'c:1', attempts: 3, error: 'its process died 3 times: exit code 7 at bad.ts:3' },
        ]);
        // The dead letter no longer holds its lane.
        desk.boot = 50;
        expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
      });

      test('a task that was not alone has spent no attempt, however often its process dies', async () => {
        await desk.arrive('a', [1]);
        await desk.arrive('b', [2]);
        for (let boot = 1; boot < 6; boot++) {
          const claims = [1, 2].map(() => store.work.claimIsolated(desk.now, boot * 10, [desk.handler]));
          if (boot === 1) await desk.claim();
          else await Promise.all(claims);
          const given = await store.processes.giveBack([], desk.now, crash);
          expect(given).toMatchObject([
            { attempt: 1, alone: false, dead: false },
            { attempt: 1, alone: false, dead: false },
          ]);
        }
      });

      test('no crash is counted if the whole kit died, because the task did not cause it', async () => {
        await desk.arrive('a', [1]);
        await desk.claim();
        for (let boot = 2; boot < 8; boot++) {
          expect(await store.processes.giveBack([], desk.now)).toMatchObject([{ dead: false }]);
          desk.now += 3_600_000;
          await store.work.claimIsolated(desk.now, boot, [desk.handler]);
        }
        expect(await store.processes.giveBack([], desk.now, crash)).toMatchObject([{ dead: false }]);
      });
    });

    test.each([false, true])(
      'the tasks of a chain run isolated in cursor order, and one that fails holds its lane (strict: %s)',
      async (strict) => {
        await desk.accept('a', [30, 10, 20]);
        await store.ingest.accept({ readings: [], now: desk.now, watermark: '100' as Cursor });
        const { from, events } = await store.work.pending(10);
        const tasks = tasksOf(events, desk.handler, desk.now).map((task) => ({ ...task, strict }));
        await desk.turn({ fanOut: { from, upTo: from + 3, tasks } });
        const chain = await desk.turn({ room: ROOM, chains: new Map([[desk.handler, 8]]) });
        expect(chain.claims.map(cursorOf)).toEqual(['10', '20', '30']);
        await store.processes.giveBack([], desk.now);
        desk.boot = 5;
        const ran: string[] = [];
        const isolated = async (): Promise<Claim | undefined> =>
          (await store.processes.isolatedDue(desk.now, ['first']))
            ? store.work.claimIsolated(desk.now, 2, [desk.handler])
            : undefined;
        for (let claim = await isolated(); claim; claim = await isolated()) {
          ran.push(`${cursorOf(claim)} ${claim.late}`);
          const fails = ran.length === 1;
          await endIsolated(claim, fails ? failed(claim, { dueAt: desk.now + 1_000, holdMs: 120_000 }) : done(claim));
        }
        expect(ran).toEqual(['10 false']);
        desk.now += 2_000;
        const [again] = await desk.claim();
        expect([cursorOf(present(again)), again?.late]).toEqual(['10', false]);
        await desk.settle([done(again)]);
        for (let claim = await isolated(); claim; claim = await isolated()) {
          ran.push(`${cursorOf(claim)} ${claim.late}`);
          await endIsolated(claim);
        }
        expect(ran).toEqual(['10 false', '20 false', '30 false']);
      },
    );

    test('a lane does not wait for ever for an isolated task that keeps crashing its process', async () => {
      await desk.arrive('a', [1, 2]);
      await desk.claim();
      await store.processes.giveBack([], T0);
      desk.now = T0 + 3_600_000;
      expect((await desk.claim()).map(cursorOf)).toEqual(['2']);
      expect(await store.work.claimIsolated(desk.now, 2, [desk.handler])).toMatchObject({
        event: { cursor: '1' },
        alone: true,
      });
    });

    test('while an isolated task runs, no other task of its lane runs, however low its cursor', async () => {
      await desk.arrive('a', [5]);
      await desk.arrive('b', [6]);
      await desk.claim();
      await store.processes.giveBack([], desk.now);
      desk.boot = 2;
      await desk.claim();
      const isolated = present(await another().work.claimIsolated(desk.now, 3, [desk.handler]));
      expect(cursorOf(isolated)).toBe('5');
      await desk.arrive('a', [3], desk.now + 250);
      desk.now += 300;
      expect(await desk.claim()).toEqual([]);
      await endIsolated(isolated);
      expect((await desk.claim()).map(cursorOf)).toEqual(['3']);
    });

    test('while an isolated task runs, its lane waits, even after the time for holding the lane is over', async () => {
      await desk.arrive('a', [5, 6]);
      await desk.claim();
      await store.processes.giveBack([], desk.now);
      desk.boot = 2;
      await desk.claim();
      desk.now += 119_000;
      present(await another().work.claimIsolated(desk.now, 3, [desk.handler]));
      await desk.claim();
      desk.now += 2_000;
      expect(await desk.claim()).toEqual([]);
    });

    test('after an isolated task has ended, lower tasks of its lane are late, even if it had stepped aside', async () => {
      await desk.arrive('a', [9]);
      await desk.claim();
      await store.processes.giveBack([], desk.now);
      desk.boot = 2;
      await desk.claim();
      desk.now += 121_000;
      await desk.claim();
      const isolated = present(await another().work.claimIsolated(desk.now, 3, [desk.handler]));
      expect(isolated.alone).toBe(true);
      await desk.claim();
      await endIsolated(isolated);
      await desk.arrive('a', [4], desk.now + 250);
      expect((await desk.claim()).map(({ late }) => late)).toEqual([true]);
    });

    test('processes that still run keep their tasks, and other lanes go on', async () => {
      await desk.arrive('a', [1]);
      await desk.claim();
      desk.boot = 2;
      await desk.arrive('b', [2]);
      const mine = await desk.claim();
      expect(await store.processes.giveBack([2], T0)).toMatchObject([
        { handler: 'first', key: 'c:1', alone: true, dead: false },
      ]);
      await desk.arrive('c', [3]);
      expect((await desk.claim()).map(cursorOf)).toEqual(['3']);
      expect((await desk.settle(mine.map(done))).fenced).toBe(0);
    });

    test('isolated tasks of handlers that were not named are not claimed', async () => {
      await desk.arrive('a', [1]);
      await desk.arrive('b', [2]);
      await desk.claim();
      await store.processes.giveBack([], T0);
      expect(await store.work.claimIsolated(T0, 2, [])).toBeUndefined();
    });

    test('boots are numbers that no process had before', async () => {
      const boots = [
        await store.processes.nextBoot(),
        await another().processes.nextBoot(),
        await store.processes.nextBoot(),
      ];
      expect(new Set(boots).size).toBe(3);
    });
  });
}
