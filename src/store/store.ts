// What any store promises. Each method is one transaction; all are awaited. Cursors are compared as integers.
// Receiving needs EventStore, `run` TaskStore, `keep` KeepStore, people WatchStore and MendStore, the main process OwnerStore.
import type { Accepted, IngestStore } from './ingest.ts';
import type { KeepStore } from './keep.ts';
import type { EraseStore, AdminStore } from './admin.ts';
import type { ProcessStore } from './processes.ts';
import type { WorkStore } from './work.ts';
import type { SampleStore, ReadStore } from './read.ts';

/**
 * busy: locked elsewhere, try again. unwritable: try again, on a new connection. The rest need a person; replaced: another
 * file lies at the store's path, or none.
 */
export class StoreError extends Error {
  readonly code: 'busy' | 'unwritable' | 'missing' | 'newer' | 'owned' | 'replaced';
  constructor(code: StoreError['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'StoreError';
    this.code = code;
  }
}

/** Committed, and perhaps not on disk yet: it must not be accepted again, only `sync` is to be tried again. */
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
