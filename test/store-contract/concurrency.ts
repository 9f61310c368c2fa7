// Events may arrive in any order and number. Every task ends once, and each lane runs in order except for late tasks.
import { beforeEach, expect, test } from 'vitest';
import type { Claim, Settlement } from '../../src/store/work.ts';
import {
  done,
  ended,
  event,
  failed,
  present,
  range,
  T0,
  type Desk,
  type Suite,
  sums,
  type WorkingStore,
} from './harness.ts';

export function storms(suite: Suite): void {
  let store: WorkingStore;
  let desk: Desk;
  beforeEach(() => void ({ store, desk } = suite));

  test('with more lanes than memory keeps, no task is lost, each lane keeps its order, and a running task still holds its lane', async () => {
    const lanes = 20_500;
    await desk.arrive('busy', [lanes + 1]);
    expect(await desk.claim()).toHaveLength(1);
    for (let from = 1; from <= lanes; from += 4_100) {
      const readings = range(from, from + 4_099).map((cursor) => event(String(cursor), `lane ${cursor}`));
      await store.ingest.accept({ readings, now: desk.now });
      await desk.fanOut();
      await desk.workOff();
    }
    expect((await sums(store)).tasks).toMatchObject({ ready: 0, done: lanes });
    await desk.arrive('busy', [lanes + 2]);
    expect(await desk.claim()).toEqual([]);
  });

  test('twenty thousand tasks in two thousand lanes are done in full turns of 256, each lane in order', async () => {
    const random = seeded(1);
    const cursors = shuffle(range(1, 20_000), random);
    for (let i = 0; i < cursors.length; i += 1_000) {
      const readings = cursors.slice(i, i + 1_000).map((cursor) => event(String(cursor), `lane-${cursor % 2_000}`));
      await store.ingest.accept({ readings, now: T0 });
      await desk.fanOut();
    }
    const last = new Map<number | null, bigint>();
    let turns = 0;
    let worked = 0;
    for (let settle: Settlement[] = []; ; turns++) {
      const { claims } = await desk.turn({ settle, room: 256 });
      if (claims.length === 0) break;
      for (const {
        lane,
        late,
        event: { cursor },
      } of claims) {
        expect(late).toBe(false);
        expect(BigInt(cursor ?? 0)).toBeGreaterThan(last.get(lane) ?? 0n);
        last.set(lane, BigInt(cursor ?? 0));
      }
      worked += claims.length;
      settle = claims.map(done);
    }
    expect(worked).toBe(20_000);
    expect(last.size).toBe(2_000);
    expect(turns).toBeLessThan(100);
  });

  test.each([...range(1, 12), 19, 168, 195])(
    'with random arrivals, failures and crashes (seed %i), every task ends once, and each lane runs in order except for late tasks',
    async (seed) => {
      await storm(desk, seeded(seed));
    },
  );
}

/** Random arrivals, failures and crashes, until every task has ended. */
async function storm(desk: Desk, random: () => number): Promise<void> {
  const { store } = desk;
  const EVENTS = 80;
  const HOLD_MS = 3_000;
  /** How long a task that crashed its process holds its lane. The store sets this time. */
  const CRASH_HOLD_MS = 120_000;
  const pick = <Value>(values: readonly Value[]): Value => present(values[Math.floor(random() * values.length)]);
  const arrivals = shuffle(range(1, EVENTS), random);
  let boots = 1;
  let running: Claim[] = [];
  let isolated: Claim | undefined;
  let lost: Claim[] = [];
  /** Tasks that have not ended, by cursor, each with the earliest time at which it may have stepped aside. */
  const waiting = new Map<bigint, { lane: string; asideAt: number }>();
  const ends = new Map<number, number>();
  /** The highest finished cursor of each lane, and the highest of tasks that had not stepped aside. */
  const finished = new Map<string, bigint>();
  const inOrder = new Map<string, bigint>();

  const atWork = (): Claim[] => (isolated ? [...running, isolated] : running);

  async function arrive(): Promise<void> {
    const lane = pick(['a', 'b', 'c', 'd', null]);
    const cursors = arrivals.splice(0, 1 + Math.floor(random() * 6));
    await desk.arrive(lane, cursors, desk.now + pick([0, 250]));
    if (lane !== null) for (const cursor of cursors) waiting.set(BigInt(cursor), { lane, asideAt: Infinity });
  }

  function take(claim: Claim, inTurn: boolean): void {
    expect(ends.has(claim.task)).toBe(false);
    expect(atWork().some(({ task }) => task === claim.task)).toBe(false);
    const { sessionId: lane, cursor } = claim.event;
    if (claim.alone || lane === null) return;
    const beside = atWork().filter((one) => !one.alone && one.event.sessionId === lane);
    expect(beside).toEqual([]);
    expect(claim.late).toBe(BigInt(cursor ?? 0) < (finished.get(lane) ?? -1n));
    if (!inTurn) return;
    const others = [...waiting].filter(([, known]) => known.lane === lane && known.asideAt > desk.now);
    const lower = others.filter(([other]) => other < BigInt(cursor ?? 0));
    expect(lower.map(([other]) => other)).toEqual([]);
  }

  function holdsUntil({ event: { cursor } }: Claim, time: number): void {
    const known = waiting.get(BigInt(cursor ?? -1));
    if (known) known.asideAt = Math.min(known.asideAt, time);
  }

  function settlementOf(claim: Claim): Settlement {
    const chance = random();
    if (chance < 0.65) return done(claim);
    if (chance < 0.7) return ended(claim, 'skipped');
    if (chance < 0.75 || claim.attempt > 4) return ended(claim, 'dead');
    const dueAt = desk.now + Math.floor(random() * 2 * HOLD_MS);
    if (chance < 0.8) return { claim, state: 'ready', error: null, dueAt, holdMs: null, spent: false };
    holdsUntil(claim, desk.now + HOLD_MS);
    return failed(claim, { dueAt, holdMs: HOLD_MS });
  }

  function note({ claim, state }: Settlement): void {
    if (state === 'ready') return;
    ends.set(claim.task, (ends.get(claim.task) ?? 0) + 1);
    const cursor = BigInt(claim.event.cursor ?? -1);
    const known = waiting.get(cursor);
    if (!known) return;
    waiting.delete(cursor);
    if (cursor > (finished.get(known.lane) ?? -1n)) finished.set(known.lane, cursor);
    // A task that stepped aside runs beside its lane, so either may overtake the other.
    if (claim.alone) return;
    const top = inOrder.get(known.lane) ?? -1n;
    if (cursor < top) expect(claim.late).toBe(true);
    else inOrder.set(known.lane, cursor);
  }

  async function turn(room: number): Promise<void> {
    const settling = running.filter(() => random() < 0.6);
    const settle = settling.map(settlementOf);
    running = running.filter((claim) => !settling.includes(claim));
    const { claims, fenced } = await desk.turn({ settle: [...settle, ...lost.map(done)], room });
    expect(fenced).toBe(lost.length);
    lost = [];
    for (const settlement of settle) note(settlement);
    for (const claim of claims) {
      take(claim, true);
      running.push(claim);
    }
  }

  async function crash(): Promise<void> {
    const given = await store.processes.giveBack(isolated ? [isolated.boot] : [], desk.now);
    expect(given).toHaveLength(running.length);
    const [only, ...others] = running;
    if (only && others.length === 0) holdsUntil(only, desk.now + CRASH_HOLD_MS);
    lost = running;
    running = [];
    desk.boot = ++boots;
  }

  async function runSuspect(): Promise<void> {
    if (!isolated) {
      const claim = await store.work.claimIsolated(desk.now, ++boots, [desk.handler]);
      if (claim) take(claim, false);
      isolated = claim;
      return;
    }
    const claim = isolated;
    isolated = undefined;
    if (random() < 0.2 && claim.attempt < 4) {
      expect(await store.processes.giveBack([desk.boot], desk.now)).toHaveLength(1);
      holdsUntil(claim, desk.now + CRASH_HOLD_MS);
      return;
    }
    const settlement = settlementOf(claim);
    expect((await desk.turn({ settle: [settlement] })).fenced).toBe(0);
    note(settlement);
  }

  for (let step = 0; ends.size < EVENTS; step++) {
    if (step > 5_000) throw new Error(`${EVENTS - ends.size} tasks have not ended`);
    const chance = random();
    if (chance < 0.25) await arrive();
    else if (chance < 0.75) await turn(1 + Math.floor(random() * 6));
    else if (chance < 0.8) await crash();
    else if (chance < 0.9) await runSuspect();
    else desk.now += Math.floor(random() * 2_000);
  }
  expect([...ends.values()].every((times) => times === 1)).toBe(true);
  const { ready, running: left } = (await sums(store)).tasks;
  expect([ready, left]).toEqual([0, 0]);
}

/** Random numbers from 0 to 1. The same seed gives the same numbers. */
function seeded(seed: number): () => number {
  let state = seed * 0x9e3779b9;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffle<Value>(values: Value[], random: () => number): Value[] {
  return values
    .map((value) => ({ value, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
