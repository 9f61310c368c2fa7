// The store's interface: the sum of its roles. Each method is one transaction and is awaited. Cursors compare as
// integers.
import type { Accepted, IngestStore } from './ingest.ts';
import type { KeepStore } from './keep.ts';
import type { EraseStore, AdminStore } from './admin.ts';
import type { ProcessStore } from './processes.ts';
import type { WorkStore } from './work.ts';
import type { SampleStore, ReadStore } from './read.ts';

/**
 * `busy`: another process holds the lock, retry. `unwritable`: retry on a new connection. `replaced`: another file, or
 * none, is at the store's path. All codes but `busy` and `unwritable` need a person.
 */
export class StoreError extends Error {
  readonly code: 'busy' | 'unwritable' | 'missing' | 'newer' | 'owned' | 'replaced';
  constructor(code: StoreError['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'StoreError';
    this.code = code;
  }
}

/** The batch is committed but may not be on disk. It must not be accepted again; only `sync` must be retried. */
export class Unsynced extends StoreError {
  readonly accepted: Accepted[];
  constructor(cause: StoreError, accepted: Accepted[]) {
    super(cause.code, cause.message, cause);
    this.name = 'Unsynced';
    this.accepted = accepted;
  }
}

export interface Store
  extends IngestStore, WorkStore, KeepStore, ReadStore, SampleStore, AdminStore, EraseStore, ProcessStore {
  close(): void;
}
