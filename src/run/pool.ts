// Holds the running attempts, the claims whose attempts cannot begin yet, and the settlements that no turn has written.
import { setTimeout as sleep } from 'node:timers/promises';
import { UNBEGUN_MS, type Claim, type Settlement } from '../store/work.ts';
import { logEnd, type AttemptLog } from './attempt-log.ts';
import { startAttempt, type Attempt } from './attempt.ts';
import { offsetOf, stepBetween } from './clock-steps.ts';
import type { Loaded } from './load-handlers.ts';
import type { AttemptOptions } from './runner-options.ts';
import { createRate } from './rate-limit.ts';
import { giveBack } from './settlement.ts';

/**
 * Maximum number of claims, running or waiting. At most `concurrency` chains have a place. If handlers end at once,
 * more tasks than that are claimed, because a turn for a few tasks would cost more than the tasks. If handlers are
 * slow, no more are claimed than can run, so that no claim waits long.
 */
const AHEAD = 512;
/**
 * How long the tasks of one lane may keep a place, and how many they are at most. The speed of the handler's last
 * attempts decides the number. A chain of slow attempts would only make other lanes wait.
 */
const CHAIN = { ms: 5, tasks: 64 };
/** The weight of an attempt in the mean time of its handler's attempts. */
const WEIGHT = 1 / 8;
/** At most one in this many of the `concurrency` attempts is of a rerun, so that tasks of new events need not wait. */
const RERUN_PART = 4;

export interface PoolOptions extends AttemptOptions, AttemptLog {
  handlers: Map<number, Loaded>;
  concurrency: number;
  /**
   * Called when an attempt has ended, so that a turn writes its settlement and claims further tasks. `last`: no other
   * attempt of its chain follows.
   */
  onEnd: (last: boolean) => void;
}

// oxlint-disable-next-line max-lines-per-function -- a claim that begins or ends changes every count here
export function createPool(options: PoolOptions) {
  const { handlers, clock, concurrency } = options;
  const rates = new Map(
    [...handlers].flatMap(([id, { rate }]) => (rate ? [[id, createRate(rate, clock.monotonic())] as const] : [])),
  );
  /**
   * An array, because a Map that grows leaves old tables behind, which keep every event alive until a full garbage
   * collection.
   */
  const active: Attempt[] = [];
  /** Chains of claims whose attempts begin when fewer than `concurrency` chains have a place. */
  const queue: Claim[][] = [];
  /** By handler: the mean time of its last attempts, in ms. */
  const means = new Map<number, number>();
  /** The number of claims, running or queued, and how many of them belong to reruns. */
  let claimed = 0;
  let reruns = 0;
  /** By handler: the number of claims that have not begun, in the queue or in a chain. */
  const unbegun = new Map<number, number>();
  /** The number of chains that have a place. */
  let places = 0;
  /** The number of attempts that ended since the last turn. */
  let ended = 0;
  /** `offset`: wall clock minus monotonic clock when the attempt ended. `dueAt` is a time of that wall clock. */
  const settled: { settlement: Settlement; offset: number }[] = [];
  let draining = false;

  function fill(): void {
    while (places < concurrency) {
      const chain = queue.shift();
      if (!chain) return;
      if (chain.length === 0) continue;
      places++;
      void runChain(chain);
    }
  }

  /** Runs the claims of a lane one after another. If one fails, or the lane has other tasks by now, the rest go back. */
  async function runChain(rest: Claim[]): Promise<void> {
    for (let claim = rest.shift(); claim; claim = rest.shift()) {
      // A process that was stopped for a while may have lost its claims.
      if (draining || claim.chain.recalled || clock.monotonic() > (claim.chain.until ?? Infinity)) {
        leave([claim, ...rest.splice(0)]);
        break;
      }
      const settlement = await run(claim);
      if (settlement?.state === 'ready') leave(rest.splice(0));
      if (rest.length > 0) options.onEnd(false);
    }
    places--;
    fill();
    options.onEnd(true);
  }

  /** Gives back the claims of these chains that have not begun. */
  function giveUp(chains: Claim[][]): void {
    const claims = chains.flatMap((chain) => chain.splice(0));
    if (claims.length === 0) return;
    leave(claims);
    options.onEnd(false);
  }

  async function run(claim: Claim): Promise<Settlement | null> {
    const handler = handlers.get(claim.handler);
    if (!handler) throw new Error(`claimed a task of handler ${claim.handler}, which is not loaded`);
    const startedAt = clock.monotonic();
    addUnbegun(claim, -1);
    const attempt = startAttempt(claim, handler, options);
    rates.get(claim.handler)?.begin(startedAt);
    active.push(attempt);
    const settlement = await attempt.settled;
    active.splice(active.indexOf(attempt), 1);
    const ms = clock.monotonic() - startedAt;
    const mean = means.get(claim.handler) ?? ms;
    means.set(claim.handler, mean + WEIGHT * (ms - mean));
    ended++;
    over(claim);
    if (settlement) settle(settlement);
    logEnd(options, { claim, handler, settlement, attempt, ms: Math.round(ms) });
    return settlement;
  }

  function over(claim: Claim): void {
    claimed--;
    if (claim.rerun > 0) reruns--;
  }

  function addUnbegun({ handler }: Claim, by: number): void {
    unbegun.set(handler, (unbegun.get(handler) ?? 0) + by);
  }

  /** Gives back claims that have not begun. They spend no attempt. */
  function leave(claims: Claim[]): void {
    for (const claim of claims) {
      over(claim);
      addUnbegun(claim, -1);
      settle(giveBack(claim, clock.now()));
    }
  }

  function settle(settlement: Settlement): void {
    settled.push({ settlement, offset: offsetOf(clock) });
  }

  /** If the clock was set since the attempt ended, `dueAt` moves with it. */
  function asOfNow({ settlement, offset }: (typeof settled)[number]): Settlement {
    if (settlement.state !== 'ready') return settlement;
    return { ...settlement, dueAt: settlement.dueAt + stepBetween(offset, offsetOf(clock)) };
  }

  return {
    /** How many tasks the next turn may claim. */
    room() {
      const most = Math.max(concurrency, Math.min(AHEAD, 2 * ended));
      ended = 0;
      return draining ? 0 : Math.max(0, most - claimed);
    },
    /** How many of the tasks that `room` allows may belong to reruns. */
    roomForReruns: () => Math.max(0, Math.ceil(concurrency / RERUN_PART) - reruns),
    /** How many tasks each handler with a rate limit may claim. Claims that have not begun count as begun. */
    limits() {
      const now = clock.monotonic();
      return new Map([...rates].map(([id, rate]) => [id, Math.max(0, rate.free(now) - (unbegun.get(id) ?? 0))]));
    },
    /** Milliseconds until a handler at its rate limit may begin another attempt. Infinity: none is at its limit. */
    untilRate() {
      const now = clock.monotonic();
      return Math.min(Infinity, ...[...rates.values()].map((rate) => rate.nextAt(now) ?? Infinity)) - now;
    },
    /** How many tasks of one lane the next turn may claim, by handler. Fast handlers run several in a row. */
    chains() {
      const length = (ms: number): number => Math.max(1, Math.min(CHAIN.tasks, Math.floor(CHAIN.ms / ms)));
      return new Map([...means].map(([id, ms]) => [id, length(ms)]));
    },
    /** Begins attempts while there are places, and queues the other claims. */
    add(claims: Claim[]) {
      const chains = [...Map.groupBy(claims, ({ chain }) => chain).values()];
      queue.push(...chains);
      claimed += claims.length;
      for (const claim of claims) addUnbegun(claim, 1);
      for (const { chain } of claims) chain.until = clock.monotonic() + 2 * UNBEGUN_MS;
      reruns += claims.filter((claim) => claim.rerun > 0).length;
      if (reruns > 0) queue.sort(([a], [b]) => Math.sign(a?.rerun ?? 0) - Math.sign(b?.rerun ?? 0));
      if (draining) giveUp(queue.splice(0));
      else fill();
      if (chains.some(({ length }) => length > 0)) setTimeout(() => giveUp(chains), UNBEGUN_MS);
    },
    hasPlace: () => places < concurrency,
    isIdle: () => claimed === 0,
    /** Settlements that no turn has written yet. Their times are corrected if the clock was set meanwhile. */
    settlements: () => settled.map(asOfNow),
    /** Call after a turn has written this many settlements, the oldest first. */
    written: (count: number) => void settled.splice(0, count),
    async drain(limitMs: number) {
      draining = true;
      giveUp(queue.splice(0));
      for (const attempt of active) attempt.drain();
      const end = Promise.all(active.map((attempt) => attempt.settled));
      await Promise.race([end, sleep(limitMs, undefined, { ref: false })]);
      for (const attempt of active) attempt.abandon();
      await Promise.all(active.map((attempt) => attempt.settled));
    },
  };
}
