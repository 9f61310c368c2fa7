// Deliveries that arrive together share one commit, and are answered after it. While the store is locked or failing, the
// commit is tried again until the deliveries have waited too long.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../base/clock.ts';
import { StoreError, type Counts, type Store, type Verdict } from '../store/store.ts';
import type { Reading } from '../wire/event.ts';

/** The service waits 10 s for an answer (contract 6.3). */
const DEADLINE_MS = 8_000;
const GROUP = { readings: 256, bytes: 2 ** 22 };
/** Between two commits: others want the lock, and a fuller commit costs less. */
const APART_MS = 4;
/** A store that has failed for this long is not ready. */
const READY_MS = 1_000;

/** The delivery could not be made durable in time. */
export class Unavailable extends Error {}

export interface CommitOptions {
  store: Pick<Store, 'ingest'>;
  clock: Clock;
  /** Events are on disk. */
  onCommit: () => void;
  onFault: (error: StoreError) => void;
  /** After a fault of the disk, the connection is opened anew. */
  reopen: () => void;
  /** The disk is full. */
  makeRoom: () => void;
}

interface Pending {
  reading: Reading;
  since: number;
  resolve: (verdict: Verdict) => void;
  reject: (error: Unavailable) => void;
}

export class Commit {
  readonly #options: CommitOptions;
  #pending: Pending[] = [];
  #counts: Counts = {};
  #state: Record<string, unknown> = {};
  #working: Promise<void> | undefined;
  #failingSince: number | null = null;

  constructor(options: CommitOptions) {
    this.#options = options;
  }

  /** Resolves once the event, or the bytes of an unreadable one, are on disk. Throws Unavailable. */
  accept(reading: Reading): Promise<Verdict> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ reading, since: this.#options.clock.monotonic(), resolve, reject });
      // After all sockets that are ready have been read.
      setImmediate(() => void (this.#working ??= this.#work().finally(() => (this.#working = undefined))));
    });
  }

  /** Written with the next commit, or by `flush`. */
  count(name: string): void {
    this.#counts[name] = (this.#counts[name] ?? 0) + 1;
  }

  set(name: string, value: unknown): void {
    this.#state[name] = value;
  }

  /** Writes counters and state without a delivery. While the store fails, this finds out when it works again. */
  async flush(): Promise<void> {
    await this.#working;
    const isIdle = Object.keys(this.#counts).length + Object.keys(this.#state).length === 0;
    if (!isIdle || this.#failingSince !== null) await this.#commit([]).catch((error: unknown) => this.#failed(error));
  }

  ready(): boolean {
    return this.#failingSince === null || this.#options.clock.monotonic() - this.#failingSince < READY_MS;
  }

  async #work(): Promise<void> {
    while (this.#pending.length > 0) {
      const group = this.#next();
      try {
        const verdicts = await this.#commit(group.map(({ reading }) => reading));
        this.#pending.splice(0, group.length);
        for (const [n, verdict] of verdicts.entries()) group[n]?.resolve(verdict);
        this.#options.onCommit();
      } catch (error) {
        this.#failed(error);
        this.#expire(error);
      }
      await sleep(APART_MS);
    }
  }

  #next(): Pending[] {
    let bytes = 0;
    const end = this.#pending.findIndex(({ reading }, n) => {
      bytes += ('event' in reading ? reading.event : reading.unreadable).body.length;
      return n >= GROUP.readings || (n > 0 && bytes > GROUP.bytes);
    });
    return this.#pending.slice(0, end === -1 ? undefined : end);
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
    const isFirst = this.#failingSince === null;
    this.#failingSince ??= this.#options.clock.monotonic();
    if (error.code === 'full') this.#options.makeRoom();
    if (error.code === 'io' && isFirst) this.#options.reopen();
    if (error.code !== 'busy' || !this.ready()) this.#options.onFault(error);
  }

  #expire(cause: unknown): void {
    const now = this.#options.clock.monotonic();
    const late = this.#pending.filter(({ since }) => now - since >= DEADLINE_MS);
    this.#pending = this.#pending.filter(({ since }) => now - since < DEADLINE_MS);
    for (const { reject } of late) reject(new Unavailable('not committed in time', { cause }));
  }
}
