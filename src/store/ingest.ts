// What the one door needs of a store, and what is counted and noted along with it.
import type { Cursor } from '../wire/cursor.ts';
import type { Reading } from '../wire/event.ts';
import type { TaskState } from './work.ts';

/** unkept: it fails by itself, and is not even in quarantine; its sender has to try again. */
export type Verdict = 'new' | 'duplicate' | 'quarantined' | 'unkept';

/** It contradicts the event of this key, which was there before; recorded. */
export interface Conflict {
  with: string;
  reason: string;
}

export interface Accepted {
  verdict: Verdict;
  /** A duplicate by the floor alone: it is older than what the store remembers. */
  pruned?: true;
  conflict?: Conflict;
}

/**
 * Added up over the life of the store, but for `events`, `quarantined` and `tasks.*`, which count rows. `duplicates` are
 * deliveries; `reread` are items of replay or stream that were known, which is most of them.
 */
export type Counter =
  | 'events'
  | 'accepted'
  | 'duplicates'
  | 'reread'
  | 'quarantined'
  /** What was readable, and made a statement fail: quarantined for that. */
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
  /** Events of which nobody knows yet whether they are history. */
  | 'undecided'
  /** Lanes whose row was gone while tasks waited in them. */
  | 'lanes_restored'
  | `lane_faults.${string}`
  | 'failure_runs'
  /** New events whose delivery says that earlier attempts failed; an unsigned header, so evidence alone. */
  | 'unseen_failures'
  | `tasks.${TaskState}`
  /** Done tasks that pruning has removed. */
  | 'pruned.done'
  | `ack.${string}`
  /** What became of attempts, by handler; one that was given back is none. */
  | `attempts.${'done' | 'skipped' | 'dead' | 'retry' | 'deferred'}.${string}`
  | `refused.${string}`;

export type Counts = Partial<Record<Counter, number>>;

export interface Batch {
  readings: Reading[];
  /** Unix milliseconds. */
  now: number;
  /** Replay has proved that nothing is missing up to here; committed with the events of its page. It never goes back here. */
  watermark?: Cursor;
  /** Read from there: it proves nothing where the watermark has gone down behind it. */
  after?: Cursor;
  /** Where that proof begins: at the first page, and behind a gap. */
  from?: Cursor;
  /** What replay and stream bring happened while deliveries could be taken: a webhook should have brought it before. */
  fresh?: boolean;
  /** A stretch that replay can no longer show; raised as a `kit.gap` event in the same transaction. */
  gap?: { after: Cursor; upTo: Cursor | null; reason: string };
  counts?: Counts;
  facts?: Partial<Record<StateKey, StateValue>>;
}

export interface IngestStore {
  /**
   * Commits all, synced, before it resolves: one row an event, by the identity rules of the design. What fails by itself
   * costs nothing else. Throws Unsynced where it was committed, and only the sync has failed.
   */
  accept(batch: Batch): Promise<Accepted[]>;
  /** Resolves once all that was committed is on disk. */
  sync(): Promise<void>;
  /** Adds to counters and sets facts; also the probe of whether the store can be written. */
  note(counts: Counts, facts?: Partial<Record<StateKey, StateValue>>): Promise<void>;
}

export type StateKey =
  | 'watermark'
  | 'born'
  /** Replay has fetched up to here what was there before this store. */
  | 'history'
  | 'history_reading'
  | 'older'
  | 'younger'
  /** The highest cursor that pruning has removed; the floor, as far as the watermark reaches. */
  | 'pruned_to'
  /** Unix milliseconds: all that pruning has removed was received, and happened, before. */
  | 'pruned_before'
  | 'receipts'
  /** Goes up when lanes were swept away. */
  | 'lanes_swept'
  | 'assigned'
  | 'runner'
  | 'boot'
  | 'replay'
  /** The last runs of reconciliation: JSON. */
  | 'replay_runs'
  /** Up to this event, by its number, two complete reads of replay have looked for what webhooks brought. */
  | 'searched'
  /** The newest event, by its number, when the watermark last moved. */
  | 'moved'
  /** Where the watermark stood too high: nothing raises it to there again, unless a delivery comes from there. */
  | 'refused'
  /** How evidence has lowered it last: JSON. */
  | 'lowered'
  /** Unix milliseconds: when the first delivery gave reading its beginning; a lower one goes before it for one overlap. */
  | 'anchored_at'
  /** The cursor behind which replay has shown all that it can show. */
  | 'proved_from'
  /** The last event, by its number, that was looked up among what replay has shown. */
  | 'compared'
  /** What replay does not show: JSON. */
  | 'blind'
  | 'snapshots'
  | 'begins_at'
  | 'calls'
  /** The account of `npx kit verify`: JSON. */
  | 'verify'
  /** How the stream does: JSON. */
  | 'stream'
  /** Written by the main process, as JSON: Failures, and Signer[]. */
  | 'failures'
  | 'signers'
  /** How processes that run handlers have died lately: JSON. */
  | 'crashes'
  /** The last refusals, by cause: JSON. */
  | 'refusals'
  | 'reconcile_asked'
  /** How often `npx kit reload` has asked; what became of the last reload: JSON. */
  | 'reload_asked'
  | 'reloaded'
  | 'failure_run'
  | 'held'
  /** The time as `run` saw it last, Unix milliseconds. */
  | 'run_seen'
  /** Files of handlers that could not be loaded: JSON. */
  | 'handler_faults'
  | 'oldest'
  | 'erased'
  /** Goes up when ids were sorted into a segment, or a segment was removed. */
  | 'id_version';

export type StateValue = string | number | bigint | null;
