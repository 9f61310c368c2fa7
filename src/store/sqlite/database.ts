// One connection to the store's file: how it is opened, and its transactions. `write`, `read` and `query` run one
// after another, so that no foreign statement falls into a transaction.
import Database from 'better-sqlite3';
import { closeSync, fdatasync, openSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe } from '../../base/errors.ts';
import { StoreError, type StoreCode } from '../store.ts';

/** How long SQLite itself waits for another process and blocks the event loop: when it opens a store, and later. */
const OPENING_MS = 5_000;
export const BLOCKING_MS = 5;
const PAUSE_MS = { first: 1, most: 50 };

const sync = promisify(fdatasync);

/** `busyMs`: how long a write waits for a locked store before it throws `busy`. Default: for ever. */
export type DatabaseOptions = { busyMs?: number; readonly?: boolean };

export class Db {
  readonly raw: Database.Database;
  readonly #busyMs: number;
  #log: number | undefined;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(file: string, { busyMs = Infinity, readonly = false }: DatabaseOptions) {
    this.#busyMs = busyMs;
    this.raw = guarded(() => new Database(file, { timeout: OPENING_MS, readonly, fileMustExist: readonly }));
    if (!readonly) guarded(() => this.raw.pragma('journal_mode = wal'));
    // With this, SQLite syncs the WAL only before a checkpoint. `write` syncs it itself.
    this.raw.pragma('synchronous = normal');
    // Checkpoints are the work of `keep`.
    this.raw.pragma('wal_autocheckpoint = 0');
    this.raw.pragma('cache_size = -8000');
  }

  /** Prepares a statement: keep it. Cursors: `cast(cursor as text)`, and `cast(? as integer)`. */
  sql<Row = unknown>(text: string): Database.Statement<unknown[], Row> {
    return this.raw.prepare<unknown[], Row>(text);
  }

  /** Like `sql`, but yields only the first column of each row. */
  value<Value>(text: string): Database.Statement<unknown[], Value> {
    return this.raw.prepare<unknown[], Value>(text).pluck();
  }

  /**
   * One transaction. `synced`: the WAL is synced after the commit, while others may write and the event loop goes on. A
   * power cut may undo a transaction that is not synced, but not once a later transaction is synced.
   */
  async write<Result>(work: () => Result | Promise<Result>, { synced = true } = {}): Promise<Result> {
    const result = await this.#alone(async () => {
      await this.#begin();
      return this.#inside(work);
    });
    if (synced) await this.#sync();
    return result;
  }

  /** Reads in one snapshot. */
  read<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    return this.#alone(() => this.#inside(work));
  }

  /** One statement, outside of every transaction. */
  query<Result>(work: () => Result): Promise<Result> {
    return this.#alone(async () => guarded(work));
  }

  close(): void {
    this.raw.close();
    if (this.#log !== undefined) closeSync(this.#log);
  }

  /** Waits until all earlier work on this connection has ended, and then does `work` alone. */
  #alone<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#queue.then(work);
    this.#queue = result.catch(() => {});
    return result;
  }

  async #sync(): Promise<void> {
    try {
      this.#log ??= openSync(`${this.raw.name}-wal`, 'r');
      await sync(this.#log);
    } catch (error) {
      throw new StoreError('io', `the WAL could not be synced: ${describe(error).message}`, error);
    }
  }

  async #inside<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    try {
      if (!this.raw.inTransaction) this.raw.exec('begin');
      const result = await work();
      this.raw.exec('commit');
      return result;
    } catch (error) {
      if (this.raw.inTransaction) this.raw.exec('rollback');
      throw faultOf(error);
    }
  }

  async #begin(): Promise<void> {
    const until = performance.now() + this.#busyMs;
    for (let pause = PAUSE_MS.first; ; pause = Math.min(pause * 1.5, PAUSE_MS.most)) {
      try {
        this.raw.exec('begin immediate');
        return;
      } catch (error) {
        const fault = faultOf(error);
        if (!(fault instanceof StoreError) || fault.code !== 'busy' || performance.now() > until) throw fault;
      }
      await sleep(pause);
    }
  }
}

function guarded<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw faultOf(error);
  }
}

const CODES: [RegExp, StoreCode][] = [
  [/^SQLITE_(BUSY|LOCKED|PROTOCOL)/, 'busy'],
  [/^SQLITE_FULL/, 'full'],
  [/^SQLITE_(CORRUPT|NOTADB)/, 'damaged'],
  [/^SQLITE_(IOERR|READONLY|CANTOPEN|NOMEM|PERM|AUTH)/, 'io'],
];

/** The store's own faults become StoreError. Every other error is returned as it is. */
export function faultOf(error: unknown): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  const code = CODES.find(([shape]) => shape.test(error.code))?.[1];
  const hint = code === 'full' || code === 'io' ? ': see whether the disk is full, with df -h' : '';
  return code ? new StoreError(code, `${error.code}: ${describe(error).message}${hint}`, error) : error;
}
