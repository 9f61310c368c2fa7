// Runs turns: each settles ended attempts, makes tasks of new events, and claims due tasks, which then start. The
// runner needs no process of its own, so that tests can run it directly.
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { createThrottle } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import { createRecovery, retryWhileBusy } from '../store/retry-while-busy.ts';
import { StoreError } from '../store/store.ts';
import type { TurnResult, WorkStore } from '../store/work.ts';
import { offsetOf, stepBetween, watchClock } from './clock-steps.ts';
import { createFanOut, NO_PLAN, type Plan } from './fan-out.ts';
import type { RunOptions } from './runner-options.ts';
import { createPool } from './pool.ts';
import type { Scope } from './stray-errors.ts';

/**
 * Minimum interval between busy turns. Deliveries need the store's lock more often than turns do, and fuller turns cost
 * less per task.
 */
const PACE_MS = 5;
const GRACE_MS = 3;
/** Deliveries are being accepted if `receive` told of one within this time. */
const ACCEPTING_MS = 50;
/** A turn with fewer tasks is not busy: it is cheap, and the next task of a lane should not wait for the interval. */
const BUSY = 32;
/** Maximum interval between turns, because other processes may make tasks ready or bring events without a wake-up. */
const IDLE_MS = 500;
/** Maximum log lines about a handler's failures in ten seconds. The metrics count all. */
const LINES = 10;

export type Runner = Awaited<ReturnType<typeof startRunner>>;

// oxlint-disable-next-line max-lines-per-function -- the parts of a turn share state that lasts from turn to turn
export async function startRunner(options: RunOptions) {
  const { store, clock, log, boot, scopes = new AsyncLocalStorage<Scope>() } = options;
  const names = options.handlers.map(({ name }) => name);
  const ids = await retryWhileBusy(() => store.register(names, options.files));
  const handlers = new Map(options.handlers.map((handler) => [ids.get(handler.name) ?? 0, handler]));
  await moveIfSetBack(store, clock);
  const steps = watchClock(clock);
  const throttle = createThrottle(clock, LINES);
  const behind = await retryWhileBusy(() => store.behind());
  const fanOut = createFanOut({ ...options, handlers, behind, throttle, received: steps.received });
  const pool = createPool({ ...options, handlers, throttle, scopes, onEnd });
  let turnedAt = 0;
  /** When `receive` last told of new events. */
  let toldAt = -Infinity;
  let busy = false;
  let draining = false;
  /** One entry per turn: how many tasks it left held, and when the last is released, in monotonic milliseconds. */
  let held: { until: number; tasks: number }[] = [];
  let unproven = 0;

  async function step(): Promise<number> {
    // A wake-up follows a commit, when the lock is likely free. So a busy turn that is due waits briefly for a wake-up.
    const since = performance.now() - turnedAt;
    if (busy && since < PACE_MS && !draining && !mayTurnNow()) return PACE_MS - since + GRACE_MS;
    await followClock();
    const plan = draining ? NO_PLAN : await fanOut.plan();
    const room = pool.room();
    const settle = pool.settlements();
    const { claims, nextAt, ...result } = await store.turn({
      now: clock.now(),
      boot,
      settle,
      fanOut: plan.fanOut,
      missed: plan.missed,
      rerun: plan.rerun,
      room,
      handlers: fanOut.ready(),
      limits: pool.limits(),
      chains: pool.chains(),
      reruns: pool.roomForReruns(),
    });
    turnedAt = performance.now();
    busy = settle.length + claims.length >= BUSY;
    pool.written(settle.length);
    note(plan, result);
    pool.add(claims);
    const mayBeMore = claims.length === room && room > 0 && pool.hasPlace();
    if (mayBeMore || plan.more) return 0;
    // Nothing can be claimed now. The end of an attempt or a new event wakes this loop before the interval is over.
    if (room === 0) return IDLE_MS;
    const untilDue = nextAt === null ? Infinity : nextAt - clock.now();
    return Math.max(1, Math.min(untilDue, pool.untilRate(), IDLE_MS));
  }

  /** Nothing is left to run and no deliveries arrive, so an interval would serve nobody. */
  function mayTurnNow(): boolean {
    return pool.isIdle() && performance.now() - toldAt > ACCEPTING_MS;
  }

  /** A turn for each attempt of a chain would cost more than the attempt. */
  function onEnd(last: boolean): void {
    if (last || performance.now() - turnedAt > PACE_MS) loop.wake();
  }

  async function followClock(): Promise<void> {
    const ms = steps.step();
    if (ms === 0) return;
    log.warn({ ms }, 'the clock was set: the times of waiting tasks move with it');
    await retryWhileBusy(() => store.clockStepped(ms, clock.now()));
  }

  function note(plan: Plan, result: Pick<TurnResult, 'fenced' | 'unproven' | 'behind'>): void {
    if (result.fenced > 0)
      log.warn({ fenced: result.fenced }, 'attempts ended after their claims were gone; nothing was written');
    if (plan.missed) fanOut.moved(plan.missed.handler, result.behind);
    if (plan.held) held.push({ ...plan.held, until: plan.held.until - offsetOf(clock) });
    unproven = result.unproven;
    if (plan.asks) options.onUnproven?.();
  }

  const loop: Loop = startLoop(step, createRecovery(log, clock, 5));

  return {
    /** Call it when events were accepted. */
    wake() {
      toldAt = performance.now();
      loop.wake();
    },
    /** Claims no more tasks, and lets running handlers end within the limit. Tasks that are left become ready again. */
    async drain(limitMs: number) {
      draining = true;
      await pool.drain(limitMs);
      await loop.stop();
      for (let tries = 0; tries < 20 && pool.settlements().length > 0; tries++) await step().catch(expectBusy);
    },
    /**
     * The number of held tasks, and the time. `run` stores both with each sign of life, so that the next start sees
     * whether the clock was set back.
     */
    state() {
      held = held.filter(({ until }) => until > clock.monotonic());
      return { held: held.reduce((sum, { tasks }) => sum + tasks, unproven), run_seen: clock.now() };
    },
  };
}

/** Moves due times if the clock was set back while no `run` was at work: the time stored last is then in the future. */
async function moveIfSetBack(store: WorkStore, clock: Clock): Promise<void> {
  const seenAt = (await retryWhileBusy(() => store.seenAt())) ?? clock.now();
  const ms = stepBetween(seenAt, clock.now());
  if (ms < 0) await retryWhileBusy(() => store.clockStepped(ms, clock.now()));
}

async function expectBusy(error: unknown): Promise<void> {
  if (!(error instanceof StoreError)) throw error;
  await sleep(20);
}
