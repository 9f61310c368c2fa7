// The ingest role of the store: it accepts events, and writes counters and state in the same transaction.
import type { Cursor } from '../wire/cursor.ts';
import type { Reading } from '../wire/event.ts';
import type { Counts, StateKey, StateValue } from './state.ts';

/** `unkept`: the reading could be neither stored nor quarantined, so its sender has to try again. */
export type Verdict = 'new' | 'duplicate' | 'quarantined' | 'unkept';

/** An arriving event contradicts the stored event whose key is `with`. The contradiction is recorded. */
export interface Conflict {
  with: string;
  reason: string;
}

export interface Accepted {
  verdict: Verdict;
  /** The event counts as a duplicate only because its cursor is at or below the floor. Pruning may have removed it. */
  pruned?: true;
  conflict?: Conflict;
}

export interface Batch {
  readings: Reading[];
  /** Unix milliseconds. */
  now: number;
  /**
   * Replay or stream has shown everything up to this cursor. It is committed together with the readings. `accept` never
   * lowers the watermark.
   */
  watermark?: Cursor;
  /** The readings come after this cursor. If the watermark was lowered below it meanwhile, they do not raise it. */
  after?: Cursor;
  /** Replay shows everything above this cursor from now on. Set with the first page, and with the first after a gap. */
  from?: Cursor;
  /** The events happened while deliveries could be accepted, so a webhook should have brought them. */
  fresh?: boolean;
  /** A range that replay can no longer show. It becomes a `kit.gap` event in the same transaction. */
  gap?: { after: Cursor; upTo: Cursor | null; reason: string };
  counts?: Counts;
  state?: Partial<Record<StateKey, StateValue>>;
}

export interface IngestStore {
  /**
   * Commits and syncs the whole batch before it resolves. Each event becomes one row, by the identity rules. A reading
   * that cannot be written does not stop the others. Throws Unsynced if only the sync failed after the commit.
   */
  accept(batch: Batch): Promise<Accepted[]>;
  /** Resolves when everything committed so far is on disk. */
  sync(): Promise<void>;
}
