// Holds the running attempts, the claims whose attempts cannot begin yet, and the settlements that no turn has written.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Claim, Settlement } from '../store/work.ts';
import { logEnd, type AttemptLog } from './attempt-log.ts';
import { startAttempt, type Attempt } from './attempt.ts';
import { offsetOf, stepBetween } from './clock-steps.ts';
import type { Loaded } from './load-handlers.ts';
import type { AttemptOptions } from './runner-options.ts';
import { createRate } from './rate-limit.ts';
import { giveBack } from './settlement.ts';

/**
 * Maximum number of claims, running or waiting. At most `concurrency` attempts run at once. If handlers end at once,
 * more tasks than that are claimed, because a turn for a few tasks would cost more than the tasks. If handlers are
 * slow, no more are claimed than can run, so that no claim waits long.
 */
const AHEAD = 512;
/** At most one in this many of the `concurrency` attempts is of a rerun, so that tasks of new events need not wait. */
const RERUN_PART = 4;

export interface PoolOptions extends AttemptOptions, AttemptLog {
  handlers: Map<number, Loaded>;
  concurrency: number;
  /** Called when an attempt has ended, so that a turn writes its settlement and claims further tasks. */
  onEnd: () => void;
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
  /** Claims whose attempts begin when fewer than `concurrency` attempts run. */
  const queue: Claim[] = [];
  /** The number of claims that belong to reruns, running or queued. */
  let reruns = 0;
  /** The number of attempts that ended since the last turn. */
  let ended = 0;
  /** `offset`: wall clock minus monotonic clock when the attempt ended. `dueAt` is a time of that wall clock. */
  const settled: { settlement: Settlement; offset: number }[] = [];
  let draining = false;

  function fill(): void {
    while (active.length < concurrency) {
      const claim = queue.shift();
      if (!claim) return;
      start(claim);
    }
  }

  function start(claim: Claim): void {
    const handler = handlers.get(claim.handler);
    if (!handler) throw new Error(`claimed a task of handler ${claim.handler}, which is not loaded`);
    const attempt = startAttempt(claim, handler, options);
    rates.get(claim.handler)?.begin(clock.monotonic());
    active.push(attempt);
    void finish(claim, handler, attempt, clock.monotonic());
  }

  async function finish(claim: Claim, handler: Loaded, attempt: Attempt, startedAt: number): Promise<void> {
    const settlement = await attempt.settled;
    active.splice(active.indexOf(attempt), 1);
    ended++;
    if (claim.rerun > 0) reruns--;
    if (settlement) settle(settlement);
    logEnd(options, { claim, handler, settlement, attempt, ms: Math.round(clock.monotonic() - startedAt) });
    fill();
    options.onEnd();
  }

  function settle(settlement: Settlement): void {
    settled.push({ settlement, offset: offsetOf(clock) });
  }

  /** If the clock was set since the attempt ended, `dueAt` moves with it. */
  function asOfNow({ settlement, offset }: (typeof settled)[number]): Settlement {
    if (settlement.state !== 'ready') return settlement;
    return { ...settlement, dueAt: settlement.dueAt + stepBetween(offset, offsetOf(clock)) };
  }

  function giveQueueBack(): void {
    for (const claim of queue.splice(0)) settle(giveBack(claim, clock.now()));
  }

  return {
    /** How many tasks the next turn may claim. */
    room() {
      const places = Math.max(concurrency, Math.min(AHEAD, 2 * ended));
      ended = 0;
      return draining ? 0 : Math.max(0, places - active.length - queue.length);
    },
    /** How many of the tasks that `room` allows may belong to reruns. */
    roomForReruns: () => Math.max(0, Math.ceil(concurrency / RERUN_PART) - reruns),
    /** How many tasks each handler with a rate limit may claim. Claims in the queue count as begun. */
    limits() {
      const now = clock.monotonic();
      const waiting = (id: number): number => queue.filter(({ handler }) => handler === id).length;
      return new Map([...rates].map(([id, rate]) => [id, Math.max(0, rate.free(now) - waiting(id))]));
    },
    /** Milliseconds until a handler at its rate limit may begin another attempt. Infinity: none is at its limit. */
    untilRate() {
      const now = clock.monotonic();
      return Math.min(Infinity, ...[...rates.values()].map((rate) => rate.nextAt(now) ?? Infinity)) - now;
    },
    /** Begins attempts until `concurrency` of them run, and queues the other claims. */
    add(claims: Claim[]) {
      queue.push(...claims);
      reruns += claims.filter((claim) => claim.rerun > 0).length;
      if (reruns > 0) queue.sort((a, b) => Math.sign(a.rerun) - Math.sign(b.rerun));
      if (draining) giveQueueBack();
      else fill();
    },
    hasPlace: () => active.length < concurrency,
    /** Settlements that no turn has written yet. Their times are corrected if the clock was set meanwhile. */
    settlements: () => settled.map(asOfNow),
    /** Call after a turn has written this many settlements, the oldest first. */
    written: (count: number) => void settled.splice(0, count),
    /** Begins no more attempts, and lets running ones end within the limit. Tasks that are left become ready again. */
    async drain(limitMs: number) {
      draining = true;
      giveQueueBack();
      for (const attempt of active) attempt.drain();
      const end = Promise.all(active.map((attempt) => attempt.settled));
      await Promise.race([end, sleep(limitMs, undefined, { ref: false })]);
      for (const attempt of active) attempt.abandon();
      await Promise.all(active.map((attempt) => attempt.settled));
    },
  };
}
