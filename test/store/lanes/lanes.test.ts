// The lane core beside a naive model of lanes: the same random steps, and after each the promises about order. No store
// takes part: the test answers what the core asks for from a list of tasks.
import { array, assert, bigInt, constantFrom, integer, oneof, property, record, type Arbitrary } from 'fast-check';
import { expect, test } from 'vitest';
import type { Chain, Heads, Want } from '../../../src/store/lanes/lane.ts';
import { createLaneCore } from '../../../src/store/lanes/lanes.ts';
import { chainLengths, shareOut } from '../../../src/store/lanes/shares.ts';
import type { Waiting } from '../../../src/store/lanes/waiting.ts';
import { tries } from '../../cases.ts';

const LANES = [1, 2, 3];
const HANDLER = 1;

type State = 'waiting' | 'claimed' | 'ended';
interface Task extends Waiting {
  state: State;
}

type Step =
  | { kind: 'add'; lane: number; cursor: bigint; heldFor: number }
  | { kind: 'turn'; room: number; length: number }
  | { kind: 'end'; how: 'done' | 'failed' }
  | { kind: 'pass'; ms: number }
  | { kind: 'changed'; lane: number }
  | { kind: 'watermark'; cursor: bigint };

const STEPS: Arbitrary<Step[]> = array(
  oneof(
    {
      weight: 6,
      arbitrary: record({
        kind: constantFrom('add' as const),
        lane: constantFrom(...LANES),
        cursor: bigInt({ min: 0n, max: 60n }),
        heldFor: constantFrom(0, 0, 5, 50),
      }),
    },
    {
      weight: 4,
      arbitrary: record({
        kind: constantFrom('turn' as const),
        room: integer({ min: 1, max: 12 }),
        length: integer({ min: 1, max: 8 }),
      }),
    },
    {
      weight: 6,
      arbitrary: record({
        kind: constantFrom('end' as const),
        how: constantFrom('done' as const, 'done' as const, 'failed' as const),
      }),
    },
    { weight: 2, arbitrary: record({ kind: constantFrom('pass' as const), ms: integer({ min: 1, max: 60 }) }) },
    { weight: 1, arbitrary: record({ kind: constantFrom('changed' as const), lane: constantFrom(...LANES) }) },
    {
      weight: 1,
      arbitrary: record({ kind: constantFrom('watermark' as const), cursor: bigInt({ min: 0n, max: 60n }) }),
    },
  ),
  { minLength: 5, maxLength: 120 },
);

/** The list of tasks stands for the store, and `running` for the chains at work. */
function createModel() {
  const core = createLaneCore();
  const tasks: Task[] = [];
  const finished = new Map<number, bigint>();
  let running: { task: Task; chain: Chain }[] = [];
  let now = 1_000;
  let watermark = -1n;
  let nextId = 1;
  for (const lane of LANES) core.entered(rowOf(lane));

  function rowOf(id: number) {
    return { id, handler: HANDLER, name: `lane ${id}`, rerun: 0, finished: finished.get(id) ?? -1n, unproven: -1n };
  }

  function waitingIn(lane: number): Task[] {
    const its = tasks.filter((task) => task.lane === lane && task.state === 'waiting');
    return its.toSorted((a, b) => Number((a.cursor ?? 0n) - (b.cursor ?? 0n)));
  }

  function read({ lane, most }: Want): Heads {
    const all = waitingIn(lane);
    const released = all.filter(({ releaseAt }) => releaseAt <= now);
    return {
      lane,
      tasks: all.slice(0, most),
      more: all.length >= most,
      top: released.at(-1)?.cursor ?? null,
      earliest: all.length > 0 ? Math.min(...all.map(({ releaseAt }) => releaseAt)) : null,
    };
  }

  function add({ lane, cursor, heldFor }: Extract<Step, { kind: 'add' }>): void {
    if (tasks.some((task) => task.lane === lane && task.cursor === cursor)) return;
    const times = { releaseAt: now + heldFor, dueAt: now, holdUntil: null };
    const none = { alone: false, strict: false, rerun: 0, isolated: false, attempts: 0, deferred: 0, error: null };
    const id = nextId++;
    const task: Task = { id, event: id, handler: HANDLER, lane, cursor, ...times, ...none, state: 'waiting' };
    tasks.push(task);
    core.add({ ...task });
    const claimed = running.filter((one) => one.task.lane === lane);
    // A task that belongs before a claimed one recalls the chain.
    if (claimed.some((one) => (one.task.cursor ?? 0n) > cursor)) expect(claimed[0]?.chain.recalled).toBe(true);
  }

  function turn(room: number, length: number): void {
    core.follow({ watermark, searched: 0, newest: 0, fannedOut: 0 }, now);
    const wants = core.wants({
      now,
      room,
      looks: 100,
      handlers: [HANDLER],
      chains: new Map([[HANDLER, length]]),
      singles: () => [],
    });
    const { claims } = core.take(wants.map(read), now);
    expect(claims.length).toBeLessThanOrEqual(room);
    for (const [lane, its] of Map.groupBy(claims, ({ task }) => task.lane)) {
      expect(running.filter(({ task }) => task.lane === lane)).toEqual([]);
      expect(its.length).toBeLessThanOrEqual(length);
      const next = waitingIn(lane ?? 0);
      // The claims are the lane's next tasks, without a hole.
      expect(its.map(({ task }) => task.id)).toEqual(next.slice(0, its.length).map(({ id }) => id));
      for (const { task } of its) {
        const isReleased = next.some((other) => (other.cursor ?? 0n) >= (task.cursor ?? 0n) && other.releaseAt <= now);
        expect(
          isReleased ||
            (task.cursor ?? 0n) <= watermark ||
            (task.cursor ?? 0n) <= (finished.get(lane ?? 0) ?? -1n) ||
            wasReleased.has(task.id),
        ).toBe(true);
      }
    }
    for (const {
      task: { id },
      chain,
    } of claims) {
      const task = tasks.find((one) => one.id === id);
      if (!task) throw new Error('a claim of no task');
      task.state = 'claimed';
      running.push({ task, chain });
    }
    remember();
  }

  /** Tasks below a released one of their lane stay released. */
  const wasReleased = new Set<number>();
  function remember(): void {
    for (const lane of LANES) {
      const its = tasks.filter((task) => task.lane === lane);
      const top = its
        .filter(({ releaseAt }) => releaseAt <= now)
        .map(({ cursor }) => cursor ?? 0n)
        .reduce((a, b) => (a > b ? a : b), -1n);
      for (const { id, cursor } of its) if ((cursor ?? 0n) <= top) wasReleased.add(id);
    }
  }

  /** The first task of a chain ends. After a failure or a recall, the rest go back. */
  function end(how: 'done' | 'failed'): void {
    const [first] = running;
    if (!first) return;
    const { lane } = first.task;
    const rest = running.filter((one) => one !== first && one.task.lane === lane);
    settle(first.task, how === 'done' ? 'ended' : 'waiting');
    if (how === 'done' && !first.chain.recalled) return;
    for (const { task } of rest) settle(task, 'waiting');
  }

  function settle(task: Task, state: 'ended' | 'waiting'): void {
    running = running.filter((one) => one.task !== task);
    task.state = state;
    const cursor = state === 'ended' ? task.cursor : null;
    if (cursor !== null && cursor > (finished.get(task.lane ?? 0) ?? -1n)) finished.set(task.lane ?? 0, cursor);
    core.ended(task.lane ?? 0, cursor, false, now);
  }

  return {
    step(step: Step): void {
      if (step.kind === 'add') add(step);
      else if (step.kind === 'turn') turn(step.room, step.length);
      else if (step.kind === 'end') end(step.how);
      else if (step.kind === 'pass') now += step.ms;
      else if (step.kind === 'watermark') watermark = step.cursor > watermark ? step.cursor : watermark;
      else {
        core.learn(rowOf(step.lane), running.filter(({ task }) => task.lane === step.lane).length, now);
        for (const { task, chain } of running) if (task.lane === step.lane) expect(chain.recalled).toBe(true);
      }
      remember();
    },
    /** Works off everything. Nothing that waits may be forgotten. */
    finish(): number {
      now += 1_000;
      for (let turns = 0; turns < 1_000 && tasks.some(({ state }) => state !== 'ended'); turns++) {
        turn(12, 4);
        while (running.length > 0) end('done');
      }
      return tasks.filter(({ state }) => state !== 'ended').length;
    },
  };
}

test('lanes run their released tasks in cursor order, one chain at a time, and forget none', () => {
  assert(
    property(STEPS, (steps) => {
      const model = createModel();
      for (const step of steps) model.step(step);
      expect(model.finish()).toBe(0);
    }),
    { numRuns: tries(300) },
  );
});

test.each([
  ['one handler gets every place', 8, [{ lanes: 20, singles: 0 }], [[8, 0]]],
  [
    'two handlers get half each',
    8,
    [
      { lanes: 20, singles: 0 },
      { lanes: 20, singles: 0 },
    ],
    [
      [4, 0],
      [4, 0],
    ],
  ],
  [
    'a handler uses what another leaves',
    8,
    [
      { lanes: 1, singles: 0 },
      { lanes: 20, singles: 0 },
    ],
    [
      [1, 0],
      [7, 0],
    ],
  ],
  ['tasks in lanes and in none get half each', 8, [{ lanes: 20, singles: 20 }], [[4, 4]]],
  ['lanes use what tasks in none leave', 8, [{ lanes: 20, singles: 1 }], [[7, 1]]],
])('shares: %s', (_, room, waiting, expected) => {
  const { picks } = shareOut<number, number>({ room, handlers: waiting.map((__, i) => i) }, 0, {
    lanes: (handler, rerun, most) =>
      rerun ? [] : Array.from({ length: Math.min(most, waiting[handler]?.lanes ?? 0) }, (__, i) => i),
    singles: (handler, rerun, most) =>
      rerun ? [] : Array.from({ length: Math.min(most, waiting[handler]?.singles ?? 0) }, (__, i) => i),
  });
  expect(picks.map(({ lanes, singles }) => [lanes.length, singles.length])).toEqual(expected);
});

test.each([
  ['places that are left make chains', 64, 1, 64, 64],
  ['lanes share them', 64, 4, 64, 16],
  ['no chain is longer than its handler allows', 64, 4, 3, 3],
  ['there are none without places', 4, 4, 64, 1],
])('chains: %s', (_, room, lanes, length, expected) => {
  const picks = [{ handler: 1, rerun: false, lanes: Array.from({ length: lanes }, (__, i) => i), singles: [] }];
  const lengths = chainLengths({ picks, left: new Map(), reruns: 0 }, room, new Map([[1, length]]));
  expect([...lengths.values()]).toEqual(Array.from({ length: lanes }, () => expected));
});
