// What the processes ask of a store. A method is one transaction; `accept`, and `turn` on PostgreSQL, may be several.
// Cursors are text here, because a number cannot hold them. Times are Unix milliseconds by the wall clock.
import type { Cursor } from '../wire/cursor.ts';
import type { Reading } from '../wire/event.ts';
import type { WorkStore } from './work.ts';

/** busy: a lock is taken. owned: another kit has the store. newer: a newer kit changed it. orphan: see `checkBoot`. */
export type StoreCode = 'busy' | 'full' | 'io' | 'owned' | 'newer' | 'orphan' | 'damaged';

/** The store is at fault, not the request. */
export class StoreError extends Error {
  readonly code: StoreCode;
  constructor(code: StoreCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'StoreError';
    this.code = code;
  }

  /** Trying again may help. */
  get mayPass(): boolean {
    return ['busy', 'full', 'io'].includes(this.code);
  }
}

/**
 * What became of a reading. `new`: it got a row. `duplicate`: it had one. `removed`: pruning has removed it before.
 * In quarantine: `conflict`, if it contradicts a row, and `quarantined`, if it cannot be read or stored.
 */
export type Verdict = 'new' | 'duplicate' | 'conflict' | 'quarantined' | 'removed';

/** Numbers by name, for example `refused.bad_signature`. They are added to the counters in the store. */
export type Counts = Record<string, number>;

export interface IngestStore {
  /**
   * Stores readings of any origin, in order. `proves`: replay has shown everything after `from` up to `to`. If
   * the watermark has reached `from` (null: the beginning of history), it moves to `to`, and never back.
   */
  accept(batch: {
    readings: Reading[];
    counts?: Counts;
    state?: Record<string, unknown>;
    proves?: { from: Cursor | null; to: Cursor };
  }): Promise<Verdict[]>;
}

export type Store = { ingest: IngestStore; work: WorkStore; close(): void };
