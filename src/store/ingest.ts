// The ingest role of the store: accept events, and write counters and state along with them.
import type { Cursor } from '../wire/cursor.ts';
import type { Reading } from '../wire/event.ts';
import type { TaskState } from './work.ts';

/** `unkept`: the reading fails by itself and cannot be quarantined either; its sender has to try again. */
export type Verdict = 'new' | 'duplicate' | 'quarantined' | 'unkept';

/** The arrival contradicts the stored event of this key. The contradiction is recorded. */
export interface Conflict {
  with: string;
  reason: string;
}

export interface Accepted {
  verdict: Verdict;
  /** The event is a duplicate by the floor alone: it is older than what the store remembers. */
  pruned?: true;
  conflict?: Conflict;
}

/**
 * Counters grow over the life of the store. Only `events`, `quarantined` and `tasks.*` count rows, so they also fall.
 * `duplicates` counts deliveries; `reread` counts known items of replay or stream, which are most of them.
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
  /** How often evidence has lowered the watermark. */
  | 'watermark_ahead'
  | 'fenced'
  | 'run_crashes'
  /** Events that may be history: it is not known yet. */
  | 'undecided'
  /** Lanes whose row was gone while tasks waited in them. */
  | 'lanes_restored'
  | `lane_faults.${string}`
  | 'failure_runs'
  /** New events whose delivery says that earlier attempts failed. The header is unsigned, so this is only a hint. */
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
  /** The cursor that the page was read from. The page proves nothing if the watermark has fallen below it meanwhile. */
  after?: Cursor;
  /** Where the proof begins: at the first page, and behind a gap. */
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
   * Commits and syncs the whole batch before it resolves: one row an event, by the identity rules. A reading that
   * fails by itself costs no other. Throws Unsynced if the commit succeeded and only the sync failed.
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
  /** The number of an event: two complete reads of replay have looked for everything that webhooks brought up to it. */
  | 'searched'
  /** The number of the newest event when the watermark last moved. */
  | 'moved'
  /**
   * A height at which the watermark was too high. Nothing raises it there again, unless a delivery has such a cursor.
   */
  | 'refused'
  /** The last time that evidence lowered the watermark: JSON. */
  | 'lowered'
  /**
   * Unix milliseconds: when the first delivery set the place to begin at. A lower cursor still counts for one overlap.
   */
  | 'anchored_at'
  /** The cursor behind which replay has shown everything that it can show. */
  | 'proved_from'
  /** The number of the last event that was compared with what replay has shown. */
  | 'compared'
  /** The types that replay does not show: JSON. */
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
  /** How often `npx kit reload` has asked, and the outcome of the last reload: JSON. */
  | 'reload_asked'
  | 'reloaded'
  | 'failure_run'
  | 'held'
  /** The last time that `run` has noted, Unix milliseconds. */
  | 'run_seen'
  /** Handler files that could not be loaded: JSON. */
  | 'handler_faults'
  | 'oldest'
  | 'erased'
  /** Counts the changes of id segments. */
  | 'id_version';

export type StateValue = string | number | bigint | null;
