// Works in turns: looks at the store, calls the lane functions, and lets one transaction settle, fan out and claim.
// The claimed chains then run, each in a place.
import { createThrottle } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import { StoreError } from '../store/store.ts';
import type { Ended, Room, TurnResult } from '../store/work.ts';
import { createEventCache } from './event.ts';
import { Planner } from './fan-out.ts';
import { Pool, type PoolOptions } from './pool.ts';

/** The pause after a turn grows with its claimed tasks: deliveries need the lock, and full turns cost less per task. */
const PACE = { leastMs: 1, taskMs: 0.3, mostMs: 25 };
/** The longest wait between two turns, because commands do not wake this process. */
const IDLE_MS = 1_000;
/** The pause after a fault of the store that may pass. */
const FAULT_MS = 500;

export interface RunnerOptions extends Omit<PoolOptions, 'cache' | 'onFree'> {
  /** Puts a page of a rerun into lanes, for one of the handlers in `spare`. False: no page is due. */
  reruns?: (planner: Planner, spare: number[]) => Promise<boolean>;
  boot: number;
  careful: boolean;
  windowMs: number;
  /** Called after each turn. */
  onTurn?: (result: TurnResult) => void;
}

export class Runner {
  readonly #options: RunnerOptions;
  readonly #pool: Pool;
  readonly #planner: Planner;
  readonly #throttle: ReturnType<typeof createThrottle>;
  readonly #loop: Loop;
  readonly #cache = createEventCache();
  #claim = 1;
  #turnedAt = -Infinity;
  #paceMs = PACE.leastMs;
  #rerunAt = -Infinity;
  #draining = false;

  constructor(options: RunnerOptions) {
    const cache = this.#cache;
    this.#options = options;
    this.#throttle = createThrottle(options.clock);
    this.#planner = new Planner({ ...options, cache });
    this.#pool = new Pool({ ...options, throttle: this.#throttle, cache, onFree: () => this.#loop.wake() });
    this.#loop = startLoop(
      () => this.#step(),
      (error) => this.#recover(error),
    );
  }

  wake(): void {
    this.#loop.wake();
  }

  isIdle(): boolean {
    return this.#pool.isIdle();
  }

  /** Lets running attempts end within the limit. All other tasks wait again, and nothing counts against them. */
  async drain(limitMs: number): Promise<void> {
    this.#draining = true;
    await this.#pool.drain(limitMs);
    try {
      await this.#loop.stop();
      await this.#turn(this.#pool.takeEnded());
    } finally {
      await this.#options.store.end(this.#options.boot);
    }
  }

  async #step(): Promise<number> {
    const { clock } = this.#options;
    const waitMs = this.#turnedAt + this.#paceMs - clock.monotonic();
    if (waitMs > 0) return waitMs;
    const ended = this.#pool.takeEnded();
    const result = await this.#turn(ended).catch((error: unknown) => {
      this.#pool.putBack(ended);
      throw error;
    });
    this.#turnedAt = clock.monotonic();
    const tasks = result.claims.reduce((sum, claim) => sum + claim.tasks.length, 0);
    this.#paceMs = Math.min(PACE.mostMs, PACE.leastMs + PACE.taskMs * tasks);
    this.#pool.add(result.claims);
    const isRerun = await this.#rerun(result.spare);
    if (result.more || isRerun || this.#pool.hasEnded()) return this.#paceMs;
    const dueMs = result.nextAt === null ? IDLE_MS : result.nextAt - clock.now();
    return Math.max(1, Math.min(IDLE_MS, dueMs, this.#pool.untilRateMs()));
  }

  async #turn(ended: Ended[]): Promise<TurnResult> {
    const { store, boot, suspects, handlers, log } = this.#options;
    // A process for suspects takes up no new events.
    const look = await store.look(suspects || this.#draining ? [] : [...handlers.keys()]);
    const fanOut = this.#planner.fanOut(look);
    const claim = this.#claim;
    const result = await store.turn({ boot, look, ended, fanOut, rooms: this.#rooms(), claim, suspects });
    this.#claim += result.claims.length;
    this.#cache.forget(result.erased);
    if (result.fenced > 0) log.warn({ outcomes: result.fenced }, 'outcomes came too late and were not written');
    this.#options.onTurn?.(result);
    return result;
  }

  #rooms(): Room[] {
    const { handlers, windowMs } = this.#options;
    return [...handlers].map(([handler, { order }]) => ({ handler, order, windowMs, ...this.#pool.room(handler) }));
  }

  /** Reruns come after live work: only a handler that claimed fewer tasks than it had room for gets a page. */
  async #rerun(spare: number[]): Promise<boolean> {
    const { clock, reruns } = this.#options;
    if (!reruns || clock.monotonic() < this.#rerunAt || spare.length === 0 || this.#draining) return false;
    const isMore = await reruns(this.#planner, spare);
    if (!isMore) this.#rerunAt = clock.monotonic() + IDLE_MS;
    return isMore;
  }

  /** For faults of the store that may pass. Ended attempts are settled later, and nothing counts against tasks. */
  #recover(error: unknown): number {
    if (!(error instanceof StoreError && error.mayPass)) throw error;
    const { code, message: why } = error;
    if (this.#throttle(code))
      this.#options.log.error({ code, why }, 'the store fails: handlers wait until it works again');
    return FAULT_MS;
  }
}
