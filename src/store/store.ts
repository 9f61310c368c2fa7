// The store's interface: its roles. Each method is one transaction and is awaited. Cursors compare as integers.
import type { AdminStore } from './admin.ts';
import type { AlarmStore } from './alarms.ts';
import type { Accepted, IngestStore } from './ingest.ts';
import type { KeepStore } from './keep.ts';
import type { ProcessStore } from './processes.ts';
import type { ReadStore } from './read.ts';
import type { ReplayStore } from './replay.ts';
import type { StateStore } from './state.ts';
import type { WorkStore } from './work.ts';

/**
 * `busy`: another process holds the lock, retry. `unwritable`: retry on a new connection. `replaced`: another file, or
 * none, is at the store's path. `standby`: another instance leads. All codes but `busy`, `unwritable` and `standby` need
 * a person.
 */
export class StoreError extends Error {
  readonly code: 'busy' | 'unwritable' | 'missing' | 'newer' | 'owned' | 'replaced' | 'standby';
  /** The fault may pass without a change of the configuration: a start may be tried again. */
  readonly passes: boolean;
  constructor(code: StoreError['code'], message: string, cause?: unknown, passes = code === 'busy') {
    super(message, { cause });
    this.name = 'StoreError';
    this.code = code;
    this.passes = passes;
  }
}

/** Codes of a full disk, of SQLite and of the system. SHMSIZE: SQLite could not enlarge its file -shm. */
export const DISK_FULL = /FULL|ENOSPC|EDQUOT|SHMSIZE/;

/** The batch is committed but may not be on disk. It must not be accepted again; only `sync` must be retried. */
export class Unsynced extends StoreError {
  readonly accepted: Accepted[];
  constructor(cause: StoreError, accepted: Accepted[]) {
    super(cause.code, cause.message, cause);
    this.name = 'Unsynced';
    this.accepted = accepted;
  }
}

/** The roles of the store. Each is used by name: `store.work.turn(…)`. */
export interface Roles {
  /** The one door of events. */
  ingest: IngestStore;
  /** Single values that the processes keep, and counters. */
  state: StateStore;
  /** Events become tasks, which are claimed and settled. */
  work: WorkStore;
  processes: ProcessStore;
  /** How far history was read. */
  replay: ReplayStore;
  alarms: AlarmStore;
  /** Prune and checkpoint. */
  keep: KeepStore;
  /** What people look at. */
  read: ReadStore;
  /** What people change. */
  admin: AdminStore;
}

export interface Store extends Roles {
  /**
   * Unix milliseconds by the clock that all processes of the store share. Every stored time comes from it. Only the
   * age of a signature is measured by the machine's clock.
   */
  now(): number;
  /** Tells the instance that leads that events were accepted. It also looks by itself, but later. */
  ring(): void;
  /** Calls `work` when another instance rings. */
  onRing: (work: () => void) => void;
  close(): void;
}
