// The ingest role of the store: accept events, and write counters and state along with them.
import type { Cursor } from '../wire/cursor.ts';
import type { Reading } from '../wire/event.ts';
import type { TaskState } from './work.ts';

/** `unkept`: the reading could be neither stored nor quarantined, so its sender has to try again. */
export type Verdict = 'new' | 'duplicate' | 'quarantined' | 'unkept';

/** The arrival contradicts the stored event with the key `with`. The contradiction is recorded. */
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
 * deliveries; `reread` counts items of replay or stream that were known already.
 */
export type Counter =
  | 'events'
  | 'accepted'
  | 'duplicates'
  | 'reread'
  | 'quarantined'
  /** Readable events that made a statement fail and were quarantined for it. */
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
  /** Lanes whose row was missing while tasks waited in them, and was restored. */
  | 'lanes_restored'
  | `lane_faults.${string}`
  | 'failure_runs'
  /** New events whose delivery reports earlier failed attempts. The header is unsigned, so it is only a hint. */
  | 'unseen_failures'
  | `tasks.${TaskState}`
  /** Done tasks that pruning has removed. */
  | 'pruned.done'
  | `ack.${string}`
  /** Outcomes of attempts, by handler. An attempt that was given back does not count. */
  | `attempts.${'done' | 'skipped' | 'dead' | 'retry' | 'deferred'}.${string}`
  | `refused.${string}`;

export type Counts = Partial<Record<Counter, number>>;

export interface Batch {
  readings: Reading[];
  /** Unix milliseconds. */
  now: number;
  /**
   * Replay has shown everything up to this cursor. Committed with the events of its page; `accept` never lowers the
   * watermark.
   */
  watermark?: Cursor;
  /** The cursor that the page was read from. A watermark that has fallen below it is not raised. */
  after?: Cursor;
  /** Replay has shown everything above this cursor. Set with the first page, and with the first page after a gap. */
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
  /** Adds to counters and sets state. Also used to test whether the store can be written. */
  note(counts: Counts, state?: Partial<Record<StateKey, StateValue>>): Promise<void>;
}

export type StateKey =
  | 'watermark'
  | 'born'
  /** Replay has fetched the history from before this store up to this cursor. */
  | 'history'
  | 'history_reading'
  | 'older'
  | 'younger'
  /** The highest cursor that pruning has removed. The floor is the lower of this and the watermark. */
  | 'pruned_to'
  /** Unix milliseconds: every pruned event was received, and happened, before this time. */
  | 'pruned_before'
  | 'receipts'
  /** Counts the sweeps that removed lanes. */
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
  /** A cursor at which the watermark was found too high. It stays lower until a delivery has this cursor or more. */
  | 'refused'
  /** JSON: the watermark before and after deliveries last proved it too high. */
  | 'lowered'
  /** Unix milliseconds: when the first delivery set `begins_at`. For one overlap, a lower cursor still lowers it. */
  | 'anchored_at'
  /** Replay has shown everything that it can show above this cursor, up to the watermark. */
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
  /** Counts the changes of id segments. */
  | 'id_version';

export type StateValue = string | number | bigint | null;
