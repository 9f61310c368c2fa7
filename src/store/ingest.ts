// The ingest role of the store: it accepts events, and writes counters and state in the same transaction.
import type { Cursor } from '../wire/cursor.ts';
import type { Reading } from '../wire/event.ts';
import type { TaskState } from './work.ts';

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

/**
 * Counters only grow, except `events`, `quarantined`, `undecided` and `tasks.*`, which count rows. `duplicates` counts
 * deliveries of known events; `reread` counts items of replay or stream that were known already.
 */
export type Counter =
  | 'events'
  | 'accepted'
  | 'duplicates'
  | 'reread'
  | 'quarantined'
  /** Readable events that were quarantined because storing them failed. */
  | 'poisoned'
  | 'conflicts'
  | 'recovered'
  | 'unseen'
  | 'regressions'
  | 'other_types'
  | 'replay_calls'
  /** How often the watermark was lowered because deliveries proved that it was too high. */
  | 'watermark_ahead'
  | 'fenced'
  | 'run_crashes'
  /** Events that may still turn out to be history (see birth.ts). */
  | 'undecided'
  /** Lanes whose missing row was restored, because tasks waited in them. */
  | 'lanes_restored'
  | `lane_faults.${string}`
  | 'failure_runs'
  /** New events whose delivery reports failed attempts in an unsigned header. So the count is only a hint. */
  | 'unseen_failures'
  | `tasks.${TaskState}`
  | 'pruned.done'
  | `ack.${string}`
  /** Outcomes of attempts, by handler, except those that a stop or the crash of a shared process interrupted. */
  | `attempts.${'done' | 'skipped' | 'dead' | 'retry' | 'deferred'}.${string}`
  | `refused.${string}`;

export type Counts = Partial<Record<Counter, number>>;

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

export type StateKey =
  | 'watermark'
  | 'born'
  /** The cursor at which the first catch-up of replay ended. Events above it happened after the store was created. */
  | 'history'
  | 'history_reading'
  | 'older'
  | 'younger'
  /** The highest cursor that pruning has removed. The floor is the lower of this and the watermark. */
  | 'pruned_to'
  /** Unix milliseconds: every pruned event was received, and happened, before this time. */
  | 'pruned_before'
  | 'receipts'
  /** How often `sweep` has removed lanes. The process that keeps lanes in memory watches this number. */
  | 'lanes_swept'
  | 'fanned_out'
  | 'runner'
  | 'boot'
  | 'replay'
  /** The last reconciliation runs: JSON. */
  | 'replay_runs'
  /** The number of an event: two complete reads of replay have looked for every event up to it. */
  | 'searched'
  /** The number of the newest event when the watermark last moved. */
  | 'moved'
  /** A watermark that was too high. Until a delivery has this cursor or a higher one, the watermark stays below. */
  | 'refused'
  /** JSON: the watermark before and after deliveries last proved it too high. */
  | 'lowered'
  /** Unix milliseconds: when a delivery set `begins_at`. For RECONCILE_OVERLAP_SECONDS, lower cursors replace it. */
  | 'anchored_at'
  /** The cursor above which replay has shown everything that it can show, up to the watermark. */
  | 'proved_from'
  /** The number of the last event that was compared with what replay has shown. */
  | 'compared'
  /** JSON: types that webhooks bring and replay does not show. */
  | 'blind'
  | 'snapshots'
  | 'begins_at'
  | 'calls'
  /** The result of `npx kit verify`: JSON. */
  | 'verify'
  /** The state of the stream: JSON. */
  | 'stream'
  /** Written by the main process as JSON: Failures and Signer[]. */
  | 'failures'
  | 'signers'
  /** The last crashes of processes that run handlers: JSON. */
  | 'crashes'
  /** The last refusals by cause: JSON. */
  | 'refusals'
  | 'reconcile_asked'
  /** The number of reloads that were asked for, and the outcome of the last one as JSON. */
  | 'reload_asked'
  | 'reloaded'
  | 'failure_run'
  | 'held'
  /** The wall clock when `run` was last alive, Unix milliseconds. */
  | 'run_seen'
  /** Handler files that could not be loaded: JSON. */
  | 'handler_faults'
  | 'oldest'
  | 'erased'
  /** Grows with each change of a segment, which is a part of the index from ids to events (ids.ts). */
  | 'id_version';

export type StateValue = string | number | bigint | null;
