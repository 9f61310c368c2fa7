// The state role of the store: single values that the processes keep, and counters.
import type { Cursor } from '../wire/cursor.ts';
import type { Ahead, Crash, KeptHealth, Receipts, Refusal, ReplayRun, ReplayState, VerifyAccount } from './keep.ts';
import type { Reloaded } from './processes.ts';
import type { Backup, Moving } from './shown.ts';
import type { TaskState } from './work.ts';

/**
 * Counters only grow, except `events`, `quarantined`, `undecided`, `tasks.*` and `waiting.*`, which count rows. `duplicates` counts
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
  /** Looks of the main process at which connections had been closed, because there were too many. */
  | 'connections_full'
  | `tasks.${TaskState}`
  | 'pruned.done'
  | `ack.${string}`
  /** Outcomes of attempts, by handler, except those that a stop or the crash of a shared process interrupted. */
  | `attempts.${'done' | 'skipped' | 'dead' | 'retry' | 'deferred'}.${string}`
  /** Attempts of each handler by how long they took, `took.<bucket>.<handler>`, and the sum, `took.sum_us.<handler>`. */
  | `took.${string}`
  /** Tasks of each handler that have not ended. */
  | `waiting.${string}`
  | `refused.${string}`
  /** Wrong tokens at the ops port. */
  | `wrong_tokens.${'form' | 'bearer'}`;

export type Counts = Partial<Record<Counter, number>>;

export function addTo(counts: Counts, name: Counter, by = 1): void {
  counts[name] = (counts[name] ?? 0) + by;
}

/** Values that one process keeps and others read. Null: it was never kept. */
export interface KeptState {
  /** When the store was created, Unix milliseconds. Its backups, and the stores restored from them, have the same. */
  born: number;
  watermark: Cursor | null;
  /** The cursor at which replay begins if there is no watermark. */
  begins_at: Cursor | null;
  /**
   * When the first delivery set `begins_at`, Unix milliseconds. For RECONCILE_OVERLAP_SECONDS, lower cursors replace
   * it. Null: something else set it.
   */
  anchored_at: number | null;
  /** `from`: the watermark that deliveries last proved too high. `to`: what it was lowered to. */
  lowered: Ahead | null;
  /** The times of the last calls of ReplayEvents, Unix milliseconds. */
  calls: number[] | null;
  /** The calls per minute of all processes since `at`, Unix milliseconds, after a 429. Null: there was none. */
  call_pace: { calls: number; at: number } | null;
  /** The state of reconciliation that was noted last. */
  replay: ReplayState | null;
  /** The last reconciliation runs, newest first. */
  replay_runs: ReplayRun[];
  /** The number of the last event that was compared with replay. */
  compared: number;
  /** The types that webhooks bring and replay does not show. */
  blind: string[] | null;
  /** Counters of the last minutes. */
  snapshots: { at: number; counters: Record<string, number> }[] | null;
  /** Paused handlers by name; `*`: all. `at`: Unix milliseconds. */
  paused: Record<string, { at: number; reason: string | null }>;
  /** Null: no backup was tried. */
  backup: Backup | null;
  /** The ends of the log-in sessions of the ops port, Unix milliseconds, by role and digest. */
  sessions: Record<string, number>;
  /** The last crashes, newest first. The main process writes them. */
  crashes: Crash[];
  /** The result of `npx kit verify`. */
  verify: VerifyAccount | null;
  /** The last time that somebody asked for a reconciliation, Unix milliseconds; 0: never. */
  reconcile_asked: number;
  /** The marks by which the pruner measures the age of events. */
  receipts: Receipts | null;
  /** The last refusals by cause. */
  refusals: Record<string, Refusal[]>;
  /** The number of the last request for a reload; 0: none. */
  reload_asked: number;
  /** The outcome of the last reload. */
  reloaded: Reloaded | null;
  /** The number of the last start of `run`. */
  boot: number | null;
  moving: Moving | null;
  /** The name of the store that this one was moved to: JSON. */
  moved_to: string | null;
  /** When an SQLite store had been moved into this one, Unix milliseconds. */
  moved_at: number | null;
}

export type StateKey =
  | keyof KeptState
  /** The cursor at which the first catch-up of replay ended. Events above it happened after the store was created. */
  | 'history'
  | 'history_reading'
  | 'older'
  | 'younger'
  /** The highest cursor that pruning has removed. The floor is the lower of this and the watermark. */
  | 'pruned_to'
  /** Unix milliseconds: every pruned event was received, and happened, before this time. */
  | 'pruned_before'
  /** How often `sweep` has removed lanes. The process that keeps lanes in memory watches this number. */
  | 'lanes_swept'
  | 'fanned_out'
  | 'runner'
  /** The number of an event: two complete reads of replay have looked for every event up to it. */
  | 'searched'
  /** The number of the newest event when the watermark last moved. */
  | 'moved'
  /** A watermark that was too high. Until a delivery has this cursor or a higher one, the watermark stays below. */
  | 'refused'
  /** The cursor above which replay has shown everything that it can show, up to the watermark. */
  | 'proved_from'
  /** The state of the stream: JSON. */
  | 'stream'
  /** Written by the main process as JSON: Failures and Signer[]. */
  | 'failures'
  | 'signers'
  | 'failure_run'
  | 'held'
  | 'run_seen'
  /** Handler files that could not be loaded: JSON. */
  | 'handler_faults'
  | 'oldest'
  | 'erased'
  /** Grows with each change of a segment, which is a part of the index from ids to events (ids.ts). */
  | 'id_version';

export type StateValue = string | number | bigint | null;

export interface StateStore {
  get<Name extends keyof KeptState>(name: Name): Promise<KeptState[Name]>;
  /** Adds to counters and sets state. Also used to test whether the store can be written. */
  note(counts: Counts, state?: Partial<Record<StateKey, StateValue>>): Promise<void>;
  /** Sets a JSON document to what `change` makes of it, in one transaction, and returns that. */
  change<Name extends keyof KeptState>(
    name: Name,
    change: (value: KeptState[Name]) => KeptState[Name],
  ): Promise<KeptState[Name]>;
  /** Delivery health, as an earlier process stored it. */
  books(): Promise<KeptHealth>;
}

const DEFAULTS: Partial<KeptState> = {
  replay_runs: [],
  crashes: [],
  paused: {},
  sessions: {},
  compared: 0,
  reconcile_asked: 0,
  refusals: {},
  reload_asked: 0,
};

/** Cursors are kept as they are. Other texts are JSON documents. */
export function isCursor(name: keyof KeptState): boolean {
  return name === 'watermark' || name === 'begins_at';
}

/** The typed value of what the store keeps under this name. */
export function keptOf<Name extends keyof KeptState>(name: Name, value: StateValue): KeptState[Name] {
  const known: unknown = typeof value === 'string' && !isCursor(name) ? JSON.parse(value) : value;
  return (known ?? DEFAULTS[name] ?? null) as KeptState[Name];
}
