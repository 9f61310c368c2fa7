// Decides when history is read: at the start, each interval, while strict tasks wait, and when a person asks. It stores
// its state for people to see.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import type { Config } from '../config.ts';
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import { StoreError, type IngestStore } from '../store/store.ts';
import { stateOf, type Database } from '../store/sql.ts';
import { ServiceError } from '../service/errors.ts';
import { createExchange } from '../service/exchange.ts';
import { createBudget, retryWait } from '../service/pace.ts';
import { createRead, type Page } from './page.ts';
import { readAgain, runPass, type PassOptions } from './pass.ts';
import { untoldGaps } from './store.ts';
import { startStream } from './stream.ts';

/** The wait between two looks for work, so that strict tasks cause few passes. Also the wait after a store fault. */
const STEP_MS = 1_000;

/** What a person asked for, and when. */
type Asked = { at: number; from: Cursor | null };

export interface Reconcile {
  /** `off`: API_KEY is not set. */
  state: 'off' | 'idle' | 'running' | 'backing-off' | 'stopped';
  lastAt: number | null;
  reason: string | null;
  recovered: number;
  /** When the newest event happened that replay brought, and no webhook. */
  recoveredAt: number | null;
  /** New events that replay has brought since a pass last succeeded. */
  fetched: number;
  /** When a person made the newest request that was answered. */
  askedAt: number;
}

export type ReconcilerOptions = { ingest: IngestStore; db: Database; config: Config; clock: Clock; log: Logger };

export class Reconciler {
  readonly #intervalMs: number;
  readonly #pass: PassOptions;
  readonly #stream: Loop | undefined;
  readonly #abort = new AbortController();
  readonly #loop = startLoop(() => this.#step(), recover);
  #told: Reconcile = {
    state: 'idle',
    lastAt: null,
    reason: null,
    recovered: 0,
    recoveredAt: null,
    fetched: 0,
    askedAt: 0,
  };
  #isBegun = false;
  #isWanted = false;
  /** When the next pass is due, in monotonic milliseconds. */
  #nextAt = -Infinity;
  #failures = 0;
  /** When a person made the newest request for which a pass has begun. */
  #heardAt = 0;

  constructor({ ingest, db, config, clock, log }: ReconcilerOptions) {
    const exchange = createExchange({ baseUrl: config.API_BASE_URL, apiKey: config.API_KEY });
    // A sixth of the kit's calls. The rest is for handlers.
    const budget = createBudget(Math.max(1, Math.floor(config.API_CALLS_PER_MINUTE / 6)), clock);
    this.#intervalMs = config.RECONCILE_INTERVAL_SECONDS * 1_000;
    this.#pass = {
      db,
      ingest,
      read: createRead(exchange, budget, this.#abort.signal),
      clock,
      log,
      windowMs: config.ORDER_WINDOW_MS,
      overlapMs: config.RECONCILE_OVERLAP_SECONDS * 1_000,
      from: config.REPLAY_FROM === 'start' ? null : parseCursor(config.REPLAY_FROM),
      onPage: (recovered, fetched) => this.#onPage(recovered, fetched),
    };
    if (config.STREAM === 'on') this.#stream = startStream(ingest, log, exchange);
  }

  /** Call it while strict tasks wait. */
  wake(): void {
    this.#isWanted = true;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await Promise.all([this.#loop.stop(), this.#stream?.stop()]);
  }

  async #step(): Promise<number> {
    if (!this.#isBegun) await this.#begin();
    const asked = await stateOf<Asked>(this.#pass.db, 'reconcile_asked');
    const isAsked = asked !== null && asked.at > this.#told.askedAt;
    const isNew = isAsked && asked.at > this.#heardAt;
    if (isNew) this.#heardAt = asked.at;
    const isDue = this.#pass.clock.monotonic() >= this.#nextAt;
    const isWanted = isDue || (this.#isWanted && this.#failures === 0);
    if (!isNew && (this.#told.state === 'stopped' || !isWanted)) return STEP_MS;
    this.#isWanted = false;
    await this.#run(isDue || isAsked, isAsked ? asked : null);
    return STEP_MS;
  }

  async #begin(): Promise<void> {
    const before = await stateOf<Reconcile>(this.#pass.db, 'reconcile');
    this.#told = { ...this.#told, ...before, state: 'idle', reason: null, fetched: 0 };
    this.#isBegun = true;
    await this.#tell({});
  }

  /** One pass. `whole`: the overlap below the watermark is read too. `asked`: what a person asked for is read last. */
  async #run(whole: boolean, asked: Asked | null): Promise<void> {
    const { db, ingest, clock, log } = this.#pass;
    try {
      const waits = await runPass(this.#pass, whole);
      // The person's request comes last: if it fails each time, it still holds up no pass.
      const reason = (asked?.from ? await readAgain(this.#pass, asked.from) : null) ?? waits;
      await ingest.accept({ readings: await untoldGaps(db, clock.now(), waits === null) });
      if (this.#failures > 0) log.info('history can be read again');
      this.#failures = 0;
      if (whole) this.#nextAt = clock.monotonic() + this.#intervalMs;
      const { askedAt } = this.#told;
      await this.#tell({ state: 'idle', reason, lastAt: clock.now(), fetched: 0, askedAt: asked?.at ?? askedAt });
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      if (!(error instanceof ServiceError) && !(error instanceof StoreError)) throw error;
      await this.#failed(error);
    }
  }

  async #failed(error: ServiceError | StoreError): Promise<void> {
    const { message } = error;
    const status = 'status' in error ? error.status : 0;
    const { clock, log } = this.#pass;
    this.#nextAt = clock.monotonic() + retryWait(this.#failures++);
    // Only a person can help: the service refuses the key.
    const isFinal = status === 401 || status === 403;
    const state = isFinal ? 'stopped' : 'backing-off';
    const reason = isFinal ? `${message}: see API_KEY, which needs events:read` : message;
    if (this.#failures === 1 || isFinal) log.error({ state, why: reason }, 'history cannot be read');
    await this.#tell({ state, reason });
  }

  async #onPage(recovered: Page['readings'], fetched: number): Promise<void> {
    const told = this.#told;
    told.recovered += recovered.length;
    told.fetched += recovered.length;
    const times = recovered.map((one) => ('event' in one ? (one.event.createdAt ?? 0) : 0));
    // The service's clock may be ahead.
    told.recoveredAt = Math.min(Math.max(told.recoveredAt ?? 0, ...times), this.#pass.clock.now()) || null;
    if (fetched > 0) await this.#tell({ state: 'running' });
  }

  async #tell(change: Partial<Reconcile>): Promise<void> {
    this.#told = { ...this.#told, ...change };
    await this.#pass.db.write((tx) => tx.set('reconcile', this.#told));
  }
}

function recover(error: unknown): number {
  if (error instanceof StoreError) return STEP_MS;
  throw error;
}
