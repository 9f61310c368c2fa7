// Chains: several tasks of a lane are claimed in a turn and run one after another in one place.
import { beforeEach, describe, expect, test } from 'vitest';
import type { Claim } from '../../src/store/work.ts';
import {
  createDesk,
  cursorOf,
  incoming,
  tasksOf,
  done,
  event,
  failed,
  present,
  range,
  ROOM,
  T0,
  type Desk,
  type Suite,
} from './harness.ts';

const MINUTE_MS = 60_000;

export function chains(suite: Suite): void {
  let desk: Desk;

  beforeEach(() => {
    desk = suite.desk;
  });

  async function claim(length: number, room = ROOM): Promise<Claim[]> {
    return (await desk.turn({ room, chains: new Map([[desk.handler, length]]) })).claims;
  }

  function givenBack(one: Claim | undefined) {
    return { claim: present(one), state: 'ready', error: null, dueAt: desk.now, holdMs: null, spent: false } as const;
  }

  describe('a chain', () => {
    test('has the next tasks of the lane in cursor order, and no other of the lane is claimed until all have ended', async () => {
      await desk.arrive('a', [30, 10, 50, 20, 40]);
      const first = await claim(3);
      expect(first.map(cursorOf)).toEqual(['10', '20', '30']);
      expect(new Set(first.map(({ chain }) => chain)).size).toBe(1);
      for (const ended of first) {
        expect(await claim(3)).toEqual([]);
        await desk.settle([done(ended)]);
      }
      expect((await claim(3)).map(cursorOf)).toEqual(['40', '50']);
    });

    test('shares the room with other lanes', async () => {
      for (const lane of ['a', 'b', 'c', 'd'])
        await desk.arrive(
          lane,
          range(1, 40).map((i) => i * 10 + lane.charCodeAt(0) - 97),
        );
      const claims = await claim(64, 16);
      const lanes = Map.groupBy(claims, ({ lane }) => lane);
      expect([...lanes.values()].map((its) => its.length)).toEqual([4, 4, 4, 4]);
    });

    test('is longer than the tasks that the lane keeps in memory, and misses none', async () => {
      await desk.arrive('a', range(1, 300));
      const worked: string[] = [];
      for (;;) {
        const claims = await claim(64);
        if (claims.length === 0) break;
        worked.push(...claims.map(cursorOf));
        await desk.settle(claims.map(done));
      }
      expect(worked).toEqual(range(1, 300).map(String));
    });

    test('stops before a task that is held, or was tried before', async () => {
      await desk.arrive('a', [10, 20]);
      await desk.arrive('a', [30], desk.now + MINUTE_MS);
      expect((await claim(8)).map(cursorOf)).toEqual(['10', '20']);

      await desk.arrive('b', [41]);
      const tried = await claim(8);
      await desk.settle([failed(tried[0], { dueAt: desk.now, holdMs: MINUTE_MS })]);
      await desk.accept('b', [39, 42]);
      await desk.fanOut();
      expect((await claim(8)).map(cursorOf)).toEqual(['39']);
    });

    test('is recalled by a task with a lower cursor, which then runs in its place', async () => {
      await desk.arrive('a', [10, 20, 40]);
      const [first, ...rest] = await claim(8);
      await desk.arrive('a', [30]);
      expect(first?.chain.recalled).toBe(true);
      await desk.settle([done(first), ...rest.map(givenBack)]);
      const again = await claim(8);
      expect(again.map(cursorOf)).toEqual(['20', '30', '40']);
      expect(again.map(({ attempt, late }) => ({ attempt, late }))).toEqual(
        again.map(() => ({ attempt: 1, late: false })),
      );
    });

    test('is not recalled by a task behind it, nor by one of another lane', async () => {
      await desk.arrive('a', [10, 20]);
      const claims = await claim(8);
      await desk.arrive('a', [30]);
      await desk.arrive('b', [5]);
      expect(claims.map(({ chain }) => chain.recalled)).toEqual([false, false]);
    });

    test('that goes on after a failure cannot spend an attempt of a task that had not begun', async () => {
      await desk.arrive('a', [10, 20, 30]);
      const [first, second, third] = await claim(8);
      await desk.settle([failed(first, { dueAt: desk.now, holdMs: MINUTE_MS }), givenBack(second), givenBack(third)]);
      const [again] = await claim(1);
      expect([present(again).attempt, cursorOf(present(again))]).toEqual([2, '10']);
      await desk.settle([done(again)]);
      expect((await claim(8)).map(({ attempt }) => attempt)).toEqual([1, 1]);
    });

    test('counts for the limit of its handler', async () => {
      await desk.arrive('a', range(1, 20));
      const limits = new Map([[desk.handler, 3]]);
      const { claims } = await desk.turn({ room: ROOM, limits, chains: new Map([[desk.handler, 64]]) });
      expect(claims.map(cursorOf)).toEqual(['1', '2', '3']);
    });

    test('that ended in one turn has brought its lane as far as its last task, for a later process as well', async () => {
      await desk.arrive('a', [10, 20, 30]);
      await desk.settle((await claim(64)).map(done));
      const later = await createDesk(suite.another());
      await later.arrive('a', [25, 35]);
      const late: [string, boolean][] = [];
      for (let claims = await later.claim(); claims.length > 0; claims = await later.claim()) {
        late.push(...claims.map((one): [string, boolean] => [cursorOf(one), one.late]));
        await later.settle(claims.map(done));
      }
      expect(late).toEqual([
        ['25', true],
        ['35', false],
      ]);
    });

    test('is recalled when a task that had stepped aside ends, so that the rest can be late', async () => {
      await desk.arrive('a', [50]);
      await desk.settle((await claim(1)).map((one) => failed(one, { dueAt: T0 + 5_000, holdMs: 1_000 })));
      desk.now += 2_000;
      expect(await claim(8)).toEqual([]);
      await desk.arrive('a', [10, 20]);
      desk.now += 3_000;
      const [first, second, aside] = await claim(8);
      expect([first, second, aside].map((one) => cursorOf(present(one)))).toEqual(['10', '20', '50']);
      await desk.settle([done(aside)]);
      expect(second?.chain.recalled).toBe(true);
      await desk.settle([done(first), givenBack(second)]);
      expect((await claim(8)).map((one) => [cursorOf(one), one.late])).toEqual([['20', true]]);
    });

    test('has one task in a lane of events without a session, because any lane may make the next one late', async () => {
      await suite.store.ingest.accept({ readings: [10, 20].map((n) => event(String(n), null)), now: T0 });
      const { from, events } = await suite.store.work.pending(10);
      const tasks = tasksOf(events, desk.handler, T0).map((task) => ({ ...task, lane: '' }));
      await desk.turn({ fanOut: { from, upTo: from + 2, tasks } });
      expect((await claim(8)).map(cursorOf)).toEqual(['10']);
    });

    test('has events of one cursor in order of arrival', async () => {
      await desk.arrive('a', [10, 20]);
      const other = { ...incoming('10'), id: 'another', body: Buffer.from('{"data":{"Thing":{"other":true}}}') };
      await suite.store.ingest.accept({ readings: [{ event: other }], now: T0 });
      await desk.fanOut();
      expect((await claim(8)).map((one) => one.event.key)).toEqual(['c:10', 'i:another', 'c:20']);
    });

    test('of two boots never share a lane', async () => {
      await suite.store.ingest.accept({ readings: range(1, 9).map((i) => event(String(i))), now: T0 });
      await desk.fanOut();
      const first = await claim(4);
      const other = suite.another();
      const { claims } = await other.work.turn({
        now: T0,
        boot: 2,
        settle: [],
        fanOut: null,
        room: ROOM,
        handlers: [desk.handler],
        chains: new Map([[desk.handler, 64]]),
      });
      expect(first).toHaveLength(4);
      expect(claims).toEqual([]);
    });
  });
}
