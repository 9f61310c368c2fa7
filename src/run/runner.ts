// Takes turns with the store: settles what ended, makes tasks of what arrived, claims what is due, and starts it. Knows
// nothing of processes, so that tests run it as it is.
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../clock.ts';
import { EXIT, loggable } from '../errors.ts';
import { createSeldom, type Logger, type Seldom } from '../log.ts';
import { startLoop, type Loop } from '../loop.ts';
import type { Service } from '../service/service.ts';
import { patiently } from '../store/patiently.ts';
import { placeOf } from '../store/birth.ts';
import { StoreError } from '../store/store.ts';
import type { Claim, Settlement, TaskStore, Turn } from '../store/tasks-store.ts';
import { isUnproven, tasksOf } from './assign.ts';
import { startAttempt, type Attempt, type Blame } from './attempt.ts';
import type { Loaded } from './load.ts';
import { createRate } from './rate.ts';

/** Events that one turn makes tasks of: few enough that a delivery never waits long for the store's lock. */
const ASSIGN = 256;
/**
 * Claims ahead of the free places, while handlers end at once: a turn of the lock for each few tasks would cost more than
 * the tasks. Slow handlers are claimed for only as places get free, so that no claim waits long for its place.
 */
const AHEAD = 512;
/**
 * Of the places, what reruns may take, and the events that one turn makes tasks of for them: so little that an event that
 * comes meanwhile finds a place, and waits for few of their commits.
 */
const RERUN_PART = 4;
const RERUN = 64;
/** Between two turns: deliveries need the lock more often than tasks do, and a fuller turn costs less a task. */
const PACE_MS = 5;
const GRACE_MS = 3;
/** Below that many tasks a turn costs little, and the next task of a lane waits for it. */
const BUSY = 32;
/** Other processes may give tasks back or bring events without a word. */
const IDLE_MS = 500;
/** A clock that was set back by less costs less than looking for what waits by it. */
const SET_BACK_MS = 1_000;
/** Of a handler's failures, in ten seconds; the metrics count all. */
const LINES = 10;

export interface RunnerOptions {
  store: TaskStore;
  handlers: Loaded[];
  service: Service;
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
}

export interface Runner {
  wake(): void;
  /** Claims nothing more, lets handlers end for that long, gives the rest back. */
  drain(limitMs: number): Promise<void>;
  /** Fails the attempt in whose course this is called. False where there is none, or it has ended. */
  blame(error: unknown): boolean;
  /** Tasks that wait for their release. */
  held(): number;
}

export async function startRunner(options: RunnerOptions): Promise<Runner> {
  const { store, service, clock, log, boot, concurrency, windowMs } = options;
  const ids = await patiently(() => store.register(options.handlers.map(({ name }) => name)));
  const handlers = new Map(options.handlers.map((handler) => [ids.get(handler.name) ?? 0, handler]));
  const handlerIds = [...handlers.keys()];
  const rates = new Map(
    [...handlers].flatMap(([id, { rate }]) => (rate ? [[id, createRate(rate, clock.now())] as const] : [])),
  );
  const seldom = createSeldom(clock, LINES);
  /** No Map: its outgrown tables, one behind the other, would keep every event alive until the old generation is collected. */
  const active: Attempt[] = [];
  /** Claimed, and waiting for a place. */
  let queue: Claim[] = [];
  /** How many of those at work or in the queue are of reruns. */
  let again = 0;
  let ended = 0;
  let turnedAt = 0;
  /** By the clock, when it was last looked at. */
  let seenAt = clock.now();
  let busy = false;
  const blame = new AsyncLocalStorage<Blame>();
  let settled: Settlement[] = [];
  /** When the tasks of each turn are released: at the most one entry a turn of the last ORDER_WINDOW_MS. */
  let held: { until: number; tasks: number }[] = [];
  /** Strict tasks that wait for proof, and whether new ones are among them that nobody was told of. */
  let unproven = 0;
  let asks = false;
  let draining = false;

  async function step(): Promise<number> {
    // A wake-up comes right after a commit, when the lock is free for a while: a turn that is due waits a little for one.
    const since = performance.now() - turnedAt;
    if (busy && since < PACE_MS && !draining) return PACE_MS - since + GRACE_MS;
    await followClock();
    const assign = draining ? null : await plan();
    const rerun = draining || isFull(assign) ? null : await planRerun();
    const places = Math.max(concurrency, Math.min(AHEAD, 2 * ended));
    const room = draining ? 0 : Math.max(0, places - active.length - queue.length);
    ended = 0;
    const settle = settled;
    settled = [];
    try {
      const { claims, fenced, nextAt, ...figures } = await store.turn({
        now: clock.now(),
        boot,
        settle,
        assign,
        rerun,
        room,
        handlers: handlerIds,
        limits: limits(),
        reruns: Math.max(0, Math.ceil(concurrency / RERUN_PART) - again),
      });
      if (fenced > 0) log.warn({ fenced }, 'came back after the claim was gone; nothing was written');
      unproven = figures.unproven;
      if (asks) options.onUnproven?.();
      asks = false;
      turnedAt = performance.now();
      busy = settle.length + claims.length >= BUSY;
      queue.push(...claims);
      again += claims.filter((claim) => claim.rerun > 0).length;
      if (again > 0) queue.sort((a, b) => Math.sign(a.rerun) - Math.sign(b.rerun));
      fill();
      if (claims.length === room && room > 0 && active.length < concurrency) return 0;
      if (isFull(assign) || rerun) return 0;
      // All places are taken: a handler that ends, or an event that comes, wakes this.
      if (room === 0) return IDLE_MS;
      const now = clock.now();
      const times = [nextAt, ...[...rates.values()].map((rate) => rate.nextAt(now))].filter((at) => at !== null);
      return Math.max(1, Math.min(...times.map((at) => at - now), IDLE_MS));
    } catch (error) {
      settled = [...settle, ...settled];
      throw error;
    }
  }

  /** What waits by a clock that was set back would wait for as much longer. */
  async function followClock(): Promise<void> {
    const ms = seenAt - clock.now();
    if (ms > SET_BACK_MS) {
      await store.setBack(ms, clock.now());
      for (const one of settled) if (one.state === 'ready' && one.dueAt > seenAt) one.dueAt -= ms;
    }
    seenAt = clock.now();
  }

  const assigning = {
    windowMs,
    onLaneFault(handler: Loaded, error: unknown): void {
      const more = seldom(`lane ${handler.name}`);
      if (more) log.error({ handler: handler.name, ...loggable(error), ...more }, 'lane threw; the session stands in');
      options.onLaneFault?.(handler);
    },
  };

  async function plan(): Promise<Turn['assign']> {
    const found = await store.unassigned(ASSIGN);
    const upTo = found.events.at(-1)?.seq ?? found.from;
    if (upTo === found.from && found.decided.length === 0) return null;
    const now = clock.now();
    const late = found.decided.flatMap((event) =>
      tasksOf(event, found, { handlers, now, decided: true, ...assigning }),
    );
    const made = found.events.flatMap((event) => {
      const its = tasksOf(event, found, { handlers, now, ...assigning });
      if (its.length === 0)
        log.debug({ key: event.key, type: event.type, verdict: 'unhandled' }, 'no handler wants it');
      return its;
    });
    const tasks = [...made, ...late];
    const undecided = found.events.flatMap(({ seq: event, cursor, ...rest }) =>
      cursor !== null && placeOf({ cursor, ...rest }, found.birth) === 'undecided' ? [{ event, cursor }] : [],
    );
    asks ||= tasks.some((task) => isUnproven(task, found));
    const waiting = tasks.filter(({ strict, releaseAt }) => !strict && releaseAt > now);
    if (waiting.length > 0)
      held.push({ until: Math.max(...waiting.map((task) => task.releaseAt)), tasks: waiting.length });
    return { from: found.from, upTo, tasks, undecided, decided: found.decided.map(({ seq }) => seq) };
  }

  async function planRerun(): Promise<NonNullable<Turn['rerun']> | null> {
    const page = await store.rerun(handlerIds, RERUN);
    const handler = page && handlers.get(page.handler);
    if (!handler) return null;
    const its = { ...assigning, handlers: new Map([[page.handler, handler]]), now: clock.now(), rerun: page.id };
    // All of it came long ago: no window to wait for, and its proof is the store's to find.
    const birth = { at: 0, reading: 'none', end: null, older: null, younger: null } as const;
    const from = { watermark: null, birth };
    return { page, tasks: page.events.flatMap((event) => tasksOf(event, from, its)) };
  }

  /** What waits for a place has not begun: it is counted as if it had. */
  function limits(): Map<number, number> {
    const now = clock.now();
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
    const attempt = startAttempt(claim, handler, { store, service, clock, log, blame });
    rates.get(claim.handler)?.begin(clock.now());
    active.push(attempt);
    void finish(claim, handler, attempt, clock.now());
  }

  async function finish(claim: Claim, handler: Loaded, attempt: Attempt, startedAt: number): Promise<void> {
    const settlement = await attempt.settled;
    active.splice(active.indexOf(attempt), 1);
    ended++;
    if (claim.rerun > 0) again--;
    if (settlement) settled.push(settlement);
    logEnd({ ...options, seldom }, { claim, handler, settlement, attempt, ms: clock.now() - startedAt });
    fill();
    loop.wake();
  }

  function giveQueueBack(): void {
    for (const claim of queue) {
      settled.push({ claim, state: 'ready', error: claim.error, dueAt: clock.now(), holdMs: null, spent: false });
    }
    queue = [];
  }

  const loop: Loop = startLoop(step, (error) => {
    if (!(error instanceof StoreError)) throw error;
    if (error.code === 'busy') return 5;
    const more = seldom('store');
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
    blame: (error) => blame.getStore()?.(error) ?? false,
    held() {
      const now = clock.now();
      held = held.filter(({ until }) => until > now);
      return held.reduce((sum, { tasks }) => sum + tasks, unproven);
    },
  };
}

/** There may be more to make tasks of. */
function isFull(assign: Turn['assign']): boolean {
  return assign !== null && (assign.upTo - assign.from >= ASSIGN || (assign.decided ?? []).length >= ASSIGN);
}

async function expectBusy(error: unknown): Promise<void> {
  if (!(error instanceof StoreError)) throw error;
  await sleep(20);
}

/** How the end of an attempt is said; `ready` is a task that waits for its next. */
const VERDICTS = {
  done: { verdict: 'done', level: 'debug', words: 'handled' },
  skipped: { verdict: 'skipped', level: 'debug', words: 'skipped' },
  dead: { verdict: 'dead', level: 'error', words: 'dead letter: see npx kit explain' },
  ready: { verdict: 'retry', level: 'warn', words: 'failed, and will be tried again: see npx kit explain' },
} as const;

/** What a handler left unawaited fails its attempt, where it can be traced to one; otherwise it is only said. */
export function traceStray(blame: (error: unknown) => boolean, log: Logger, clock: Clock): void {
  const seldom = createSeldom(clock, LINES);
  process.on('unhandledRejection', (error) => {
    const more = blame(error) ? undefined : seldom('stray');
    if (more) log.error({ ...loggable(error), ...more }, 'a handler left a rejection unhandled, after it had ended');
  });
  process.on('uncaughtException', (error) => {
    if (blame(error)) return;
    log.fatal(loggable(error), 'an exception that no attempt can be blamed for; this process ends');
    process.exit(EXIT.failed);
  });
}

export interface Ended {
  claim: Claim;
  handler: Loaded;
  /** Null where `ctx.complete` has settled it. */
  settlement: Settlement | null;
  attempt: Attempt;
  ms: number;
}

/** One line an attempt, but in a flood. A lane is told by its number: its name may hold a phone number. */
export function logEnd(
  { log, tellsWhy, seldom }: Pick<RunnerOptions, 'log' | 'tellsWhy'> & { seldom?: Seldom },
  ended: Ended,
  how = '',
): void {
  const { claim, handler, settlement, attempt, ms } = ended;
  const { verdict, level, words } = VERDICTS[settlement?.state ?? 'done'];
  if (!log.isLevelEnabled(level)) return;
  const more = level === 'debug' || !seldom ? {} : seldom(`${verdict} ${handler.name}`);
  if (!more) return;
  const { key, type, origin } = claim.event;
  const why = tellsWhy && settlement?.error ? { why: settlement.error } : {};
  const task = { handler: handler.name, lane: claim.lane, attempt: claim.attempt, late: claim.late };
  const unproven = claim.unproven ? { unproven: true } : {};
  log[level](
    { key, type, origin, ...task, ...unproven, verdict, ms, ...attempt.thrown(), ...why, ...more },
    `${how}${words}`,
  );
}
