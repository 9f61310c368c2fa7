// When history is read: at the start, each interval, while strict tasks wait, and when a person asks. It says what it does.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { describe, orUndefined } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { startLoop } from '../base/loop.ts';
import type { Config } from '../config.ts';
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import { StoreError, type Store } from '../store/store.ts';
import type { Db } from '../store/sqlite/database.ts';
import { backoffMs, createBudget } from './budget.ts';
import { readReplay, ReplayFault, type Page } from './page.ts';
import { readAgain, runPass, type PassOptions } from './pass.ts';
import { ReplayStore } from './store.ts';
import { Stream } from './stream.ts';

/** Strict tasks ask for a pass at most this often, and commands are seen within it. */
const STEP_MS = 1_000;
const FAULT_MS = 1_000;

interface Told {
  state: 'idle' | 'running' | 'backing-off' | 'stopped';
  lastAt: number | null;
  reason: string | null;
  recovered: number;
  /** When replay last brought an event that no webhook had. */
  recoveredAt: number | null;
  fetched: number;
  /** The newest wish of a person that was heard. */
  askedAt: number;
}

export interface ReconcilerOptions {
  store: Pick<Store, 'ingest'> & { db: Db };
  config: Config;
  clock: Clock;
  log: Logger;
}

export function startReconciler(options: ReconcilerOptions) {
  const reconciler = new Reconciler(options);
  const loop = startLoop(
    () => reconciler.step(),
    (error) => {
      if (error instanceof StoreError) return FAULT_MS;
      throw error;
    },
  );
  const stream = options.config.STREAM === 'on' ? new Stream(options) : undefined;
  return {
    /** Strict tasks wait. */
    wake(): void {
      reconciler.wanted = true;
    },
    async stop(): Promise<void> {
      reconciler.abort.abort();
      await Promise.all([loop.stop(), stream?.stop()]);
    },
  };
}

class Reconciler {
  wanted = false;
  readonly abort = new AbortController();
  readonly #options: ReconcilerOptions;
  readonly #store: ReplayStore;
  readonly #budget: ReturnType<typeof createBudget>;
  #told: Told = { state: 'idle', lastAt: null, reason: null, recovered: 0, recoveredAt: null, fetched: 0, askedAt: 0 };
  #isBegun = false;
  /** In monotonic milliseconds. */
  #nextAt = -Infinity;
  #failures = 0;

  constructor(options: ReconcilerOptions) {
    const { store, config, clock } = options;
    this.#options = options;
    this.#store = new ReplayStore(store.db, clock);
    this.#budget = createBudget(config.API_CALLS_PER_MINUTE, () => clock.monotonic());
  }

  async step(): Promise<number> {
    if (!this.#isBegun) await this.#begin();
    const asked = await this.#store.asked();
    const isAsked = asked !== null && asked.at > this.#told.askedAt;
    if (isAsked) this.#told.askedAt = asked.at;
    const isDue = this.#options.clock.monotonic() >= this.#nextAt;
    if (!isAsked && (this.#told.state === 'stopped' || (!isDue && !(this.wanted && this.#failures === 0))))
      return STEP_MS;
    this.wanted = false;
    await this.#pass(isDue || isAsked, isAsked ? asked.from : null);
    return STEP_MS;
  }

  async #begin(): Promise<void> {
    const told = (await this.#store.told()) as Partial<Told> | undefined;
    this.#told = { ...this.#told, ...told, state: 'idle', reason: null, fetched: 0 };
    this.#isBegun = true;
  }

  /** `whole`: with the overlap. */
  async #pass(whole: boolean, again: Cursor | null): Promise<void> {
    const { clock, log, config } = this.#options;
    try {
      if (again !== null) await readAgain(this.#passOptions(), again);
      const reason = await runPass(this.#passOptions(), whole);
      await this.#options.store.ingest.accept({ readings: await this.#store.gapEvents() });
      if (this.#failures > 0) log.info('history is read again');
      this.#failures = 0;
      if (whole) this.#nextAt = clock.monotonic() + config.RECONCILE_INTERVAL_SECONDS * 1_000;
      await this.#tell({ state: 'idle', reason, lastAt: clock.now(), fetched: 0 });
    } catch (error) {
      if (this.abort.signal.aborted) return;
      if (!(error instanceof ReplayFault)) throw error;
      await this.#failed(error);
    }
  }

  async #failed({ kind, message }: ReplayFault): Promise<void> {
    const { clock, log } = this.#options;
    const waitMs = backoffMs(this.#failures++);
    this.#nextAt = clock.monotonic() + waitMs;
    const state = kind === 'final' ? 'stopped' : 'backing-off';
    if (this.#failures === 1 || kind === 'final') log.error({ state, why: message }, 'history cannot be read');
    await this.#tell({ state, reason: message });
  }

  #passOptions(): PassOptions {
    const { store, config, clock, log } = this.#options;
    const from = config.REPLAY_FROM === 'start' ? 'start' : orUndefined(() => parseCursor(config.REPLAY_FROM));
    return {
      store: this.#store,
      ingest: store.ingest,
      read: (after, limit) => this.#read(after, limit),
      clock,
      log,
      windowMs: config.ORDER_WINDOW_MS,
      overlapMs: config.RECONCILE_OVERLAP_SECONDS * 1_000,
      from,
      onPage: (recovered, fetched) => this.#onPage(recovered, fetched),
    };
  }

  async #read(after: Cursor | null, limit: number): Promise<Page> {
    const { API_BASE_URL: baseUrl = '', API_KEY: apiKey = '' } = this.#options.config;
    for (let waitMs = this.#budget.take(); waitMs > 0; waitMs = this.#budget.take())
      await sleep(waitMs, undefined, { signal: this.abort.signal });
    return readReplay({ baseUrl, apiKey }, after, limit, this.abort.signal);
  }

  #onPage(recovered: number, fetched: number): void {
    const told = this.#told;
    told.recovered += recovered;
    told.fetched += fetched;
    if (recovered > 0) told.recoveredAt = this.#options.clock.now();
    // A short pass is not worth a word.
    if (fetched > 0)
      void this.#tell({ state: 'running' }).catch((error: unknown) =>
        this.#options.log.warn({ why: describe(error).message }, 'not told'),
      );
  }

  async #tell(change: Partial<Told>): Promise<void> {
    this.#told = { ...this.#told, ...change };
    await this.#store.tell(this.#told);
  }
}
