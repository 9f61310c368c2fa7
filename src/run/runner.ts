// Takes turns with the store: it settles ended attempts, makes tasks of new events, claims due tasks and starts them.
// It needs no process of its own, so that tests can run it directly.
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { createThrottle } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import { StoreError } from '../store/store.ts';
import type { TurnResult, WorkStore } from '../store/work.ts';
import { offsetOf, stepBetween, watchClock } from './clock-steps.ts';
import { createFanOut, NO_PLAN, type Plan } from './fan-out.ts';
import type { RunOptions } from './runner-options.ts';
import { createPool } from './pool.ts';
import type { Scope } from './stray-errors.ts';

/**
 * Minimum interval between busy turns. Deliveries need the lock more often than tasks do, and fuller turns cost less
 * per task.
 */
const PACE_MS = 5;
const GRACE_MS = 3;
/** Below this many tasks a turn is cheap, and the next task of a lane should not wait for it. */
const BUSY = 32;
/** Maximum interval between turns, because other processes may give tasks back or bring events without a wake-up. */
const IDLE_MS = 500;
/** Maximum log lines about a handler's failures in ten seconds. The metrics count all. */
const LINES = 10;

export type Runner = Awaited<ReturnType<typeof startRunner>>;

// oxlint-disable-next-line max-lines-per-function -- the parts of a turn share what one turn leaves to the next
export async function startRunner(options: RunOptions) {
  const { store, clock, log, boot, scopes = new AsyncLocalStorage<Scope>() } = options;
  const names = options.handlers.map(({ name }) => name);
  const ids = await retryWhileBusy(() => store.register(names, options.files));
  const handlers = new Map(options.handlers.map((handler) => [ids.get(handler.name) ?? 0, handler]));
  await moveIfSetBack(store, clock);
  const steps = watchClock(clock);
  const throttle = createThrottle(clock, LINES);
  const storeThrottle = createThrottle(clock);
  const behind = await retryWhileBusy(() => store.behind());
  const fanOut = createFanOut({ ...options, handlers, behind, throttle, received: steps.received });
  const pool = createPool({ ...options, handlers, throttle, scopes, onEnd: () => loop.wake() });
  let turnedAt = 0;
  let busy = false;
  let draining = false;
  /** When each turn's held tasks are released, by the monotonic clock. One entry per turn. */
  let held: { until: number; tasks: number }[] = [];
  /** Strict tasks that wait for the watermark. */
  let unproven = 0;

  async function step(): Promise<number> {
    // A wake-up follows a commit, when the lock is likely free. So a turn that is due waits briefly for a wake-up.
    const since = performance.now() - turnedAt;
    if (busy && since < PACE_MS && !draining) return PACE_MS - since + GRACE_MS;
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
      reruns: pool.roomForReruns(),
    });
    turnedAt = performance.now();
    busy = settle.length + claims.length >= BUSY;
    pool.written(settle.length);
    note(plan, result);
    pool.add(claims);
    const mayBeMore = claims.length === room && room > 0 && pool.hasPlace();
    if (mayBeMore || plan.more) return 0;
    // All places are taken. The end of a handler, or a new event, wakes this loop.
    if (room === 0) return IDLE_MS;
    const untilDue = nextAt === null ? Infinity : nextAt - clock.now();
    return Math.max(1, Math.min(untilDue, pool.untilRate(), IDLE_MS));
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

  const loop: Loop = startLoop(step, (error) => {
    if (!(error instanceof StoreError)) throw error;
    if (error.code === 'busy') return 5;
    const more = storeThrottle('store');
    if (more) log.error({ code: error.code, ...more }, 'the store cannot be written; retrying');
    return 1_000;
  });

  return {
    wake: () => loop.wake(),
    /** Claims no more tasks, lets running handlers end within the limit, and gives the rest back. */
    async drain(limitMs: number) {
      draining = true;
      await pool.drain(limitMs);
      await loop.stop();
      for (let tries = 0; tries < 20 && pool.settlements().length > 0; tries++) await step().catch(expectBusy);
    },
    /**
     * How many tasks wait for their release, and the time. Noted with each sign of life, so that the next start sees
     * whether the clock was set back.
     */
    state() {
      held = held.filter(({ until }) => until > clock.monotonic());
      return { held: held.reduce((sum, { tasks }) => sum + tasks, unproven), run_seen: clock.now() };
    },
  };
}

/** If the time is earlier than the last `run` noted, the clock was set back meanwhile. */
async function moveIfSetBack(store: WorkStore, clock: Clock): Promise<void> {
  const seenAt = (await retryWhileBusy(() => store.seenAt())) ?? clock.now();
  const ms = stepBetween(seenAt, clock.now());
  if (ms < 0) await retryWhileBusy(() => store.clockStepped(ms, clock.now()));
}

async function expectBusy(error: unknown): Promise<void> {
  if (!(error instanceof StoreError)) throw error;
  await sleep(20);
}
