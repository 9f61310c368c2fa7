// Where a store is, and what the processes need of that place before, and beside, its roles.
import type { MoveProgress } from './shown.ts';
import type { Store, StoreError } from './store.ts';

/** A start is refused if the store cannot be written for this long, milliseconds. */
export const START_MS = 5_000;

export interface OpenOptions {
  /** The owner creates and migrates the store. Other processes find it ready. */
  owner?: boolean;
  /**
   * SQLite: with FULL, it syncs every commit; with NORMAL, none. In both modes, `accept` and `complete` resolve only when
   * their data is on disk. With NORMAL, a power failure may undo other writes of `run`, which are then repeated.
   */
  synchronous?: 'FULL' | 'NORMAL';
  /** Maximum time to wait for the lock of another process, milliseconds. */
  busyMs?: number;
  /** PostgreSQL: the instance that the process belongs to. Its writes that need the lead are refused without it. */
  instance?: number;
  /** SQLite: the number of ids in a segment of the index from ids to events; for tests. */
  idsInSegment?: number;
  /** Called for a counter or a state that was dropped, because it alone could not be written along with deliveries. */
  onDropped?: (what: string, error: unknown) => void;
  /** Called for the owner, if it has brought an existing store up to date. */
  onMigrated?: (migrated: Migrated) => void;
  /** The file or its WAL was moved, deleted or replaced. Nothing is accepted any more. Called for the owner only. */
  onReplaced?: (replaced: Replaced) => void;
}

/**
 * The schema of the store before and after. From 0: the file is new; PostgreSQL does not tell that. `copy`: a file with
 * the store as it was before; PostgreSQL and a new file have none.
 */
export interface Migrated {
  from: number;
  to: number;
  copy?: string;
}

export interface Replaced {
  error: StoreError;
  /** The name of a copy of everything accepted until then; undefined: no copy could be made. */
  copy: Promise<string | undefined>;
}

/** Bytes. `freeBytes`: Infinity if it is not known. */
export interface Disk {
  storeBytes: number;
  logBytes: number;
  freeBytes: number;
}

export interface Moved {
  events: number;
  /** How long deliveries waited, milliseconds. */
  heldMs: number;
}

export interface Taken {
  store: Store;
  /**
   * Set if the store is a file that MOVE_FROM names: copies it into the store of DATABASE_URL, which `store` is from then
   * on. Until it has ended, no handler and no `keep` may work.
   */
  move?: (onProgress: (progress: MoveProgress) => void) => Promise<Moved>;
  /** True: the log of an SQLite store was deleted or emptied after a kill, so the last commits may be missing. */
  logLost: boolean;
  release(): void;
}

export interface TakeOptions extends Pick<OpenOptions, 'onReplaced' | 'onDropped' | 'onMigrated'> {
  /** The store is to be moved. A move that had not ended is begun anew. */
  moving?: true;
}

/** What `open.ts` knows of SQLite, and of PostgreSQL. */
export interface Kind {
  /** How its addresses begin. */
  readonly scheme: RegExp;
  open(url: string, options?: OpenOptions): Store;
  openLater(url: string, options?: OpenOptions): Store;
  siteOf(url: string, moveFrom?: string): Site;
}

export interface Site {
  /** For people: a path, or a server and its database. It holds no password. */
  readonly name: string;
  /** Distinguishes stores without showing where they are. */
  readonly fingerprint: string;
  /**
   * Opens the store for a main process, and creates it or brings it up to date. Throws StoreError, with `owned` if only
   * one main process may have it and another one does.
   */
  take(options: TakeOptions): Promise<Taken>;
  disk(store: Store): Promise<Disk>;
  freeBytes: () => number;
  /** The process that holds the store's write lock now. Undefined: none, or it is not known. */
  writer(): number | undefined;
  /** What to do about an error with this code. */
  remedyOf(code: string): string;
}
