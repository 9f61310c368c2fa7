// Takes turns with the store: settles what ended, makes tasks of what arrived, claims what is due, and starts it. Knows
// nothing of processes, so that tests run it as it is.
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { createSeldom, type Logger } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { StoreError } from '../store/store.ts';
import type { StateKey, StateValue } from '../store/ingest.ts';
import type { Claim, HandlerFiles, Settlement, WorkStore } from '../store/work.ts';
import { logEnd } from './attempt-log.ts';
import { startAttempt, type Attempt, type ServiceFor } from './attempt.ts';
import { createFanOut } from './fan-out.ts';
import type { Loaded } from './load.ts';
import { createRate } from './rate-limit.ts';
import type { Course } from './trace.ts';
import { createWall, offsetOf, stepBetween } from './wall.ts';

/**
 * Claims ahead of the free places, while handlers end at once: a turn of the lock for each few tasks would cost more than
 * the tasks. Slow handlers are claimed for only as places get free, so that no claim waits long for its place.
 */
const AHEAD = 512;
/** Of the places, what reruns may take: so little that an event that comes meanwhile finds a place. */
const RERUN_PART = 4;
/** Between two turns: deliveries need the lock more often than tasks do, and a fuller turn costs less a task. */
const PACE_MS = 5;
const GRACE_MS = 3;
/** Below that many tasks a turn costs little, and the next task of a lane waits for it. */
const BUSY = 32;
/** Other processes may give tasks back or bring events without a word. */
const IDLE_MS = 500;
/** Of a handler's failures, in ten seconds; the metrics count all. */
const LINES = 10;

export interface RunnerOptions {
  store: WorkStore;
  handlers: Loaded[];
  files?: HandlerFiles;
  serviceFor: ServiceFor;
  clock: Clock;
  log: Logger;
  boot: number;
  concurrency: number;
  windowMs: number;
  onLaneFault?: (handler: Loaded) => void;
  /** Tasks were made that wait for proof: replay had better look. */
  onUnproven?: () => void;
  /** Logs why an attempt failed as well, which may quote what strangers wrote: for `npm run dev`. */
  tellsWhy?: boolean;
  /** Finds the attempt in whose course something went astray. */
  courses?: AsyncLocalStorage<Course>;
}

export interface Runner {
  wake(): void;
  /** Claims nothing more, lets handlers end for that long, gives the rest back. */
  drain(limitMs: number): Promise<void>;
  /** Tasks that wait for their release, and the time: to be noted with each sign of life. */
  facts(): Partial<Record<StateKey, StateValue>>;
}

export async function startRunner(options: RunnerOptions): Promise<Runner> {
  const { store, serviceFor, clock, log, boot, concurrency, courses = new AsyncLocalStorage<Course>() } = options;
  const names = options.handlers.map(({ name }) => name);
  const ids = await retryWhileBusy(() => store.register(names, options.files));
  const handlers = new Map(options.handlers.map((handler) => [ids.get(handler.name) ?? 0, handler]));
  const rates = new Map(
    [...handlers].flatMap(([id, { rate }]) => (rate ? [[id, createRate(rate, clock.monotonic())] as const] : [])),
  );
  const seldom = createSeldom(clock, LINES);
  const storeSeldom = createSeldom(clock);
  /** No Map: its outgrown tables, one behind the other, would keep every event alive until the old generation is collected. */
  const active: Attempt[] = [];
  /** Claimed, and waiting for a place. */
  let queue: Claim[] = [];
  /** How many of those at work or in the queue are of reruns. */
  let again = 0;
  let ended = 0;
  let turnedAt = 0;
  let busy = false;
  /** With the wall clock at its end, by which it says when it is due. */
  let settled: { settlement: Settlement; offset: number }[] = [];
  /** When the tasks of each turn are released, monotonic: at the most one entry a turn of the last ORDER_WINDOW_MS. */
  let held: { until: number; tasks: number }[] = [];
  /** Strict tasks that wait for proof, and whether new ones are among them that nobody was told of. */
  let unproven = 0;
  let asks = false;
  let draining = false;

  // Where time has gone backwards since the last `run`, the clock was set meanwhile.
  const seenAt = (await retryWhileBusy(() => store.seenAt())) ?? clock.now();
  const back = Math.min(0, stepBetween(seenAt, clock.now()));
  if (back < 0) await retryWhileBusy(() => store.clockStepped(back, clock.now()));
  const wall = createWall(clock);
  const fanOut = createFanOut({
    ...options,
    handlers,
    behind: await retryWhileBusy(() => store.behind()),
    seldom,
    received: wall.received,
    onLaneFault: options.onLaneFault,
  });

  async function step(): Promise<number> {
    // A wake-up comes right after a commit, when the lock is free for a while: a turn that is due waits a little for one.
    const since = performance.now() - turnedAt;
    if (busy && since < PACE_MS && !draining) return PACE_MS - since + GRACE_MS;
    await followClock();
    const plan = draining ? null : await fanOut.plan();
    const places = Math.max(concurrency, Math.min(AHEAD, 2 * ended));
    const room = draining ? 0 : Math.max(0, places - active.length - queue.length);
    ended = 0;
    const settle = settled;
    settled = [];
    try {
      const { claims, fenced, nextAt, ...figures } = await store.turn({
        now: clock.now(),
        boot,
        settle: settle.map(asOfNow),
        assign: plan?.assign ?? null,
        missed: plan?.missed ?? null,
        rerun: plan?.rerun ?? null,
        room,
        handlers: fanOut.ready(),
        limits: limits(),
        reruns: Math.max(0, Math.ceil(concurrency / RERUN_PART) - again),
      });
      if (fenced > 0) log.warn({ fenced }, 'came back after the claim was gone; nothing was written');
      unproven = figures.unproven;
      if (plan?.missed) fanOut.moved(plan.missed.handler, figures.behind);
      if (plan?.held) held.push({ ...plan.held, until: plan.held.until - offsetOf(clock) });
      asks ||= plan?.asks ?? false;
      if (asks) options.onUnproven?.();
      asks = false;
      turnedAt = performance.now();
      busy = settle.length + claims.length >= BUSY;
      queue.push(...claims);
      again += claims.filter((claim) => claim.rerun > 0).length;
      if (again > 0) queue.sort((a, b) => Math.sign(a.rerun) - Math.sign(b.rerun));
      fill();
      if (claims.length === room && room > 0 && active.length < concurrency) return 0;
      if (plan?.more) return 0;
      // All places are taken: a handler that ends, or an event that comes, wakes this.
      if (room === 0) return IDLE_MS;
      const [now, monotonic] = [clock.now(), clock.monotonic()];
      const begins = [...rates.values()].flatMap((rate) => rate.nextAt(monotonic) ?? []);
      const delays = [...(nextAt === null ? [] : [nextAt - now]), ...begins.map((at) => at - monotonic)];
      return Math.max(1, Math.min(...delays, IDLE_MS));
    } catch (error) {
      settled = [...settle, ...settled];
      throw error;
    }
  }

  async function followClock(): Promise<void> {
    const ms = wall.step();
    if (ms === 0) return;
    log.warn({ ms }, 'the clock was set: what waits is moved with it');
    await retryWhileBusy(() => store.clockStepped(ms, clock.now()));
  }

  /** The clock may have been set since. */
  function asOfNow({ settlement, offset }: (typeof settled)[number]): Settlement {
    if (settlement.state !== 'ready') return settlement;
    return { ...settlement, dueAt: settlement.dueAt + stepBetween(offset, offsetOf(clock)) };
  }

  function settleLater(settlement: Settlement): void {
    settled.push({ settlement, offset: offsetOf(clock) });
  }

  /** What waits for a place has not begun: it is counted as if it had. */
  function limits(): Map<number, number> {
    const now = clock.monotonic();
    const waiting = (id: number): number => queue.filter(({ handler }) => handler === id).length;
    return new Map([...rates].map(([id, rate]) => [id, Math.max(0, rate.free(now) - waiting(id))]));
  }

  function fill(): void {
    for (let claim = next(); claim; claim = next()) start(claim);
  }

  function next(): Claim | undefined {
    return draining || active.length >= concurrency ? undefined : queue.shift();
  }

  function start(claim: Claim): void {
    const handler = handlers.get(claim.handler);
    if (!handler) throw new Error(`claimed a task of handler ${claim.handler}, which is not loaded`);
    const attempt = startAttempt(claim, handler, { store, serviceFor, clock, log, courses });
    rates.get(claim.handler)?.begin(clock.monotonic());
    active.push(attempt);
    void finish(claim, handler, attempt, clock.monotonic());
  }

  async function finish(claim: Claim, handler: Loaded, attempt: Attempt, startedAt: number): Promise<void> {
    const settlement = await attempt.settled;
    active.splice(active.indexOf(attempt), 1);
    ended++;
    if (claim.rerun > 0) again--;
    if (settlement) settleLater(settlement);
    logEnd(
      { ...options, seldom },
      { claim, handler, settlement, attempt, ms: Math.round(clock.monotonic() - startedAt) },
    );
    fill();
    loop.wake();
  }

  function giveQueueBack(): void {
    for (const claim of queue) {
      settleLater({ claim, state: 'ready', error: claim.error, dueAt: clock.now(), holdMs: null, spent: false });
    }
    queue = [];
  }

  const loop: Loop = startLoop(step, (error) => {
    if (!(error instanceof StoreError)) throw error;
    if (error.code === 'busy') return 5;
    const more = storeSeldom('store');
    if (more) log.error({ code: error.code, ...more }, 'the store cannot be written; tried again');
    return 1_000;
  });

  return {
    wake: () => loop.wake(),
    async drain(limitMs) {
      draining = true;
      giveQueueBack();
      for (const attempt of active) attempt.drain();
      const end = Promise.all(active.map((attempt) => attempt.settled));
      await Promise.race([end, sleep(limitMs, undefined, { ref: false })]);
      for (const attempt of active) attempt.abandon();
      await Promise.all(active.map((attempt) => attempt.settled));
      await loop.stop();
      // A turn that was under way may have claimed more.
      giveQueueBack();
      for (let tries = 0; tries < 20 && settled.length > 0; tries++) await step().catch(expectBusy);
    },
    facts() {
      const now = clock.monotonic();
      held = held.filter(({ until }) => until > now);
      return { held: held.reduce((sum, { tasks }) => sum + tasks, unproven), run_seen: clock.now() };
    },
  };
}

async function expectBusy(error: unknown): Promise<void> {
  if (!(error instanceof StoreError)) throw error;
  await sleep(20);
}
