// Deliveries that arrive together share one commit, and are answered after it. While the store is locked or
// failing, only the oldest delivery is tried, again and again. A delivery that has waited too long is refused.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { StoreError, type Counts, type Store, type Verdict } from '../store/store.ts';
import type { Reading } from '../wire/event.ts';

/** A delivery waits at most this long, plus the last try: about 8 s. The service waits 10 s (contract 6.3). */
const DEADLINE_MS = 7_500;
const GROUP = { readings: 256, bytes: 2 ** 22 };
/** The pause between two commits: other processes want the lock, and a fuller commit costs less per delivery. */
const APART_MS = 4;
/** The pause after a commit that failed: each try blocks the event loop, and for long if the disk is full. */
const AGAIN_MS = 200;
/** If commits have failed for this long, /readyz answers 503. */
const READY_MS = 1_000;

export interface CommitOptions {
  store: Pick<Store, 'ingest'>;
  clock: Clock;
  /** Called when events are on disk. */
  onCommit: () => void;
  onFault: (error: StoreError) => void;
  /** Called after a fault of the disk: opens the connection anew. */
  reopen: () => void;
  /** Called when the disk is full. */
  makeRoom: () => void;
}

type Pending = { reading: Reading; since: number; resolve: (verdict: Verdict | null) => void };

export class Commit {
  readonly #options: CommitOptions;
  readonly #pending = new Set<Pending>();
  #counts: Counts = {};
  #state: Record<string, unknown> = {};
  #working: Promise<void> | undefined;
  #failingSince: number | null = null;

  constructor(options: CommitOptions) {
    this.#options = options;
  }

  /** Resolves when the event or the unreadable bytes are on disk. Null: too late. `since`: when the delivery came. */
  accept(reading: Reading, since: number): Promise<Verdict | null> {
    return new Promise((resolve) => {
      this.#pending.add({ reading, since, resolve });
      // The work begins later, so that every socket that has data is read first.
      setImmediate(() => void (this.#working ??= this.#work().finally(() => (this.#working = undefined))));
    });
  }

  /** Adds one to a counter, which the next commit or `flush` writes. */
  count(name: string): void {
    this.#counts[name] = (this.#counts[name] ?? 0) + 1;
  }

  set(name: string, value: unknown): void {
    this.#state[name] = value;
  }

  /** Writes counters and state without a delivery. While the store fails, `flush` sees when the store works again. */
  async flush(): Promise<void> {
    // While a disk hangs, no commit fails, so deliveries expire here.
    this.#expire();
    await this.#working;
    const isIdle = Object.keys(this.#counts).length + Object.keys(this.#state).length === 0;
    if (!isIdle || this.#failingSince !== null) await this.#commit([]).catch((error: unknown) => this.#failed(error));
  }

  ready(): boolean {
    return this.#failingSince === null || this.#options.clock.monotonic() - this.#failingSince < READY_MS;
  }

  async #work(): Promise<void> {
    while (this.#pending.size > 0) {
      const group = this.#next();
      try {
        const verdicts = await this.#commit(group.map(({ reading }) => reading));
        for (const one of group) this.#pending.delete(one);
        for (const [n, verdict] of verdicts.entries()) group[n]?.resolve(verdict);
        this.#options.onCommit();
      } catch (error) {
        this.#failed(error);
        this.#expire();
      }
      await sleep(this.#failingSince === null ? APART_MS : AGAIN_MS);
    }
  }

  #next(): Pending[] {
    const waiting = [...this.#pending];
    const most = this.#failingSince === null ? GROUP.readings : 1;
    let bytes = 0;
    const end = waiting.findIndex(({ reading }, n) => {
      bytes += ('event' in reading ? reading.event : reading.unreadable).body.length;
      return n >= most || (n > 0 && bytes > GROUP.bytes);
    });
    return waiting.slice(0, end === -1 ? undefined : end);
  }

  async #commit(readings: Reading[]): Promise<Verdict[]> {
    const [counts, state] = [this.#counts, this.#state];
    [this.#counts, this.#state] = [{}, {}];
    try {
      const verdicts = await this.#options.store.ingest.accept({ readings, counts, state });
      this.#failingSince = null;
      return verdicts;
    } catch (error) {
      for (const [name, n] of Object.entries(counts)) this.#counts[name] = (this.#counts[name] ?? 0) + n;
      this.#state = { ...state, ...this.#state };
      throw error;
    }
  }

  #failed(error: unknown): void {
    if (!(error instanceof StoreError)) throw error;
    this.#failingSince ??= this.#options.clock.monotonic();
    if (error.code === 'full') this.#options.makeRoom();
    if (error.code === 'io') this.#options.reopen();
    if (error.code !== 'busy' || !this.ready()) this.#options.onFault(error);
  }

  #expire(): void {
    const late = this.#options.clock.monotonic() - DEADLINE_MS;
    for (const one of this.#pending) {
      if (one.since > late) continue;
      this.#pending.delete(one);
      one.resolve(null);
    }
  }
}
