// The places: which claimed chains run, and how their attempts ended. A chain ends at the first task that must run
// again, or after CHAIN_MS. Its other tasks wait again.
import { setTimeout as sleep } from 'node:timers/promises';
import { throwUncaught } from '../base/errors.ts';
import { StoreError } from '../store/store.ts';
import type { Claim, Claimed, Ended, Outcome, WorkStore } from '../store/work.ts';
import { startAttempt, type Attempt, type AttemptOptions } from './attempt.ts';
import { readEvent, type EventCache } from './event.ts';
import type { Loaded } from './load.ts';
import { attemptOf } from './outcome.ts';
import { CHAIN_MS, chainOf, freeFor, roomFor, type Load } from './places.ts';

/** A claimed chain that has not begun after this time is given back. */
const UNBEGUN_MS = 1_000;
/** The weight of the newest attempt in `meanMs`. */
const WEIGHT = 1 / 8;
const MINUTE_MS = 60_000;

export interface PoolOptions extends Omit<AttemptOptions, 'claim' | 'task' | 'event' | 'handler'> {
  store: WorkStore;
  /** By their ids in the store. */
  handlers: Map<number, Loaded>;
  /** How many chains run at the same time. */
  places: number;
  /** True: runs only tasks whose process died, one at a time. */
  suspects: boolean;
  cache: EventCache;
  /** Called when a chain of this handler begins. */
  onBegin?: (handler: Loaded) => void;
  /** Called when a chain has ended. */
  onFree: () => void;
}

/** One handler at work. */
interface Worker extends Load {
  handler: Loaded;
  queue: { claim: Claim; since: number }[];
  /** When the handler's rate allows the next attempt, in monotonic milliseconds. */
  nextAt: number;
}

export class Pool {
  readonly #options: PoolOptions;
  readonly #places: number;
  readonly #workers: Map<number, Worker>;
  readonly #loads: Worker[];
  readonly #active = new Set<Attempt>();
  #ended = new Map<Claim, Ended>();
  #draining = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#places = options.suspects ? 1 : options.places;
    const idle = { running: 0, claimed: 0, meanMs: null, nextAt: -Infinity };
    this.#workers = new Map([...options.handlers].map(([id, handler]) => [id, { handler, queue: [], ...idle }]));
    this.#loads = [...this.#workers.values()];
  }

  /** What the next turn may claim for this handler. */
  room(id: number): { chain: number; tasks: number } {
    const worker = this.#workers.get(id);
    if (!worker || this.#draining) return { chain: 1, tasks: 0 };
    // A death counts against each task whose outcome is not yet written, also if its attempt has ended.
    const isAlone = this.isIdle() && !this.hasEnded();
    const tasks = this.#options.suspects && !isAlone ? 0 : roomFor(worker, this.#loads, this.#places);
    if (worker.handler.rate === null) return { chain: chainOf(worker), tasks };
    return { chain: 1, tasks: this.#now() >= worker.nextAt ? Math.min(1, tasks) : 0 };
  }

  add(claims: Claim[]): void {
    const since = this.#now();
    for (const claim of claims) {
      const worker = this.#workers.get(claim.handler);
      if (!worker) throw new Error(`a task was claimed, but its handler ${claim.handler} is not loaded`);
      worker.claimed += claim.tasks.length;
      if (worker.handler.rate) worker.nextAt = since + MINUTE_MS / worker.handler.rate.perMinute;
      worker.queue.push({ claim, since });
    }
    this.#fill();
  }

  /** What has ended since the last turn. Chains that could not begin in time are given back. */
  takeEnded(): Ended[] {
    for (const worker of this.#loads) {
      const { yes: late = [], no = [] } = Object.groupBy(worker.queue, ({ since }) =>
        this.#draining || this.#now() - since > UNBEGUN_MS ? 'yes' : 'no',
      );
      worker.queue = no;
      for (const { claim } of late) this.#giveBack(worker, claim);
    }
    const taken = [...this.#ended.values()];
    this.#ended = new Map();
    return taken;
  }

  /** Call it if a turn could not write this list. */
  putBack(list: Ended[]): void {
    for (const { claim, outcomes, free } of list) {
      const known = this.#endedOf(claim);
      known.outcomes.unshift(...outcomes);
      known.free ||= free;
    }
  }

  hasEnded(): boolean {
    return this.#ended.size > 0;
  }

  isIdle(): boolean {
    return this.#loads.every(({ claimed }) => claimed === 0);
  }

  /** Milliseconds until a handler's rate allows another attempt. */
  untilRateMs(): number {
    const waits = this.#loads.map(({ nextAt }) => nextAt - this.#now()).filter((ms) => ms > 0);
    return Math.min(Infinity, ...waits);
  }

  /** Lets running attempts end within the limit, and begins no others. */
  async drain(limitMs: number): Promise<void> {
    this.#draining = true;
    for (const attempt of this.#active) attempt.drain();
    const over = Promise.all([...this.#active].map(({ done }) => done));
    await Promise.race([over, sleep(limitMs, undefined, { ref: false })]);
    for (const attempt of this.#active) attempt.abandon();
    while (this.#loads.some(({ running }) => running > 0)) await sleep(1);
  }

  #now(): number {
    return this.#options.clock.monotonic();
  }

  #endedOf(claim: Claim): Ended {
    const known = this.#ended.get(claim) ?? { claim, outcomes: [], free: false };
    this.#ended.set(claim, known);
    return known;
  }

  #fill(): void {
    for (const worker of this.#loads)
      while (worker.queue.length > 0 && freeFor(worker, this.#loads, this.#places) > 0) {
        const next = worker.queue.shift();
        // A process that was suspended may have lost what it claimed long ago.
        if (next && this.#now() - next.since > UNBEGUN_MS) this.#giveBack(worker, next.claim);
        else if (next) this.#runChain(worker, next.claim).catch(throwUncaught);
      }
  }

  async #runChain(worker: Worker, claim: Claim): Promise<void> {
    worker.running++;
    this.#options.onBegin?.(worker.handler);
    const until = this.#now() + CHAIN_MS;
    for (const [n, task] of claim.tasks.entries()) {
      if (this.#draining || (n > 0 && this.#now() > until)) break;
      const outcome = await this.#attempt(worker, claim, task);
      if (outcome) this.#endedOf(claim).outcomes.push(outcome);
      if (!outcome || outcome.as === 'again') break;
    }
    this.#giveBack(worker, claim);
    worker.running--;
    this.#fill();
    this.#options.onFree();
  }

  /** Frees the lane: tasks that have not run wait again. */
  #giveBack(worker: Worker, claim: Claim): void {
    worker.claimed -= claim.tasks.length;
    this.#endedOf(claim).free = true;
  }

  /** Null: the attempt does not count. */
  async #attempt(worker: Worker, claim: Claim, task: Claimed): Promise<Outcome | null> {
    const began = this.#now();
    const event = this.#options.cache.take(task.event) ?? (await this.#load(task.event));
    if (event === null || this.#draining) return null;
    if (!event) return { event: task.event, as: 'skipped', error: 'the event was removed' };
    const attempt = startAttempt({ ...this.#options, claim, task, event, handler: worker.handler });
    this.#active.add(attempt);
    const outcome = await attempt.done;
    this.#active.delete(attempt);
    const ms = this.#now() - began;
    const about = { handler: worker.handler.name, key: event.key, type: event.event?.type, origin: event.origin };
    const how = { attempt: attemptOf(task), outcome: outcome?.as ?? 'waits again', ms: Math.round(ms) };
    this.#options.log.debug({ ...about, ...how }, 'an attempt has ended');
    worker.meanMs = worker.meanMs === null ? ms : worker.meanMs + WEIGHT * (ms - worker.meanMs);
    return outcome;
  }

  /** Null: the store fails for now. */
  async #load(seq: number) {
    const found = await this.#options.store.events([seq]).catch((error: unknown) => {
      if (error instanceof StoreError && error.mayPass) return null;
      throw error;
    });
    return found && found[0] && readEvent(found[0]);
  }
}
