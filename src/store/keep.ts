// The role of the store for the keep process: replay's position, raised alarms, pruning.
import type { AlarmStore, RaisedAlarm } from './alarms.ts';
import type { Cursor } from '../wire/cursor.ts';
import type { IngestStore } from './ingest.ts';

export interface Failures {
  /** The number of failed deliveries in the present failure run, by cause. */
  causes: Record<string, number>;
  /** Deliveries with well-formed headers and a wrong signature, since a delivery was last answered with a 2xx. */
  badSignatures: number;
  /** When the first and the last wrong signature came, ISO 8601. A 2xx answer clears only `badSince`. */
  badSince: string | null;
  lastBadAt: string | null;
  /** When a delivery of the service was last answered with a 2xx, ISO 8601. Null: never. */
  lastGoodAt: string | null;
}

/** A refused delivery. Only facts from its headers are kept, never its body. */
export interface Refusal {
  at: string;
  /** How many of the five headers of a delivery (contract 6.3) were present. The signature is not among them. */
  headers: number;
  /** The delivery's timestamp minus our clock. Null: it has none, or a wait for the store distorts the difference. */
  skewSeconds: number | null;
  agent: string | null;
  bytes: number | null;
}

/** A secret and what it has signed. Unix milliseconds; all times but `goneAt` are signing times (contract 6.3). */
export interface Signer {
  fingerprint: string;
  /** Position in WEBHOOK_SECRET, from 1. Null: the secret is no longer configured. */
  number: number | null;
  hits: number;
  firstAt: number | null;
  lastAt: number | null;
  /** When this secret last signed a delivery that none of our other secrets signed. */
  aloneAt: number | null;
  mayGo: boolean;
  /** When the secret was removed from the configuration. Null: it is configured. */
  goneAt: number | null;
}

/** Crashes of processes that run handlers, counted by the task that was running. */
export interface Crash {
  /** Null: no task was running. */
  task: { handler: string; key: string } | null;
  /** The task was the only one in its process. */
  alone: boolean;
  /** For example `exit code 7` or `SIGSEGV`. */
  exit: string;
  count: number;
  at: string;
}

/** Delivery health that the main process keeps over restarts: the state `failure_run`, `failures` and `signers`. */
export interface KeptHealth {
  failureRun: number;
  failures: Failures;
  signers: Signer[];
}

export interface ReplayState {
  state: 'off' | 'idle' | 'running' | 'backing-off' | 'stopped';
  /** When this state began, ISO 8601. */
  since: string | null;
  lastAt: string | null;
  reason: string | null;
  /** The progress of a catch-up that takes more than one page; otherwise null. */
  progress: Progress | null;
}

/** One reconciliation run, or `runs` consecutive ones that recovered nothing and ended alike. */
export interface ReplayRun {
  from: string;
  to: string;
  runs: number;
  pages: number;
  recovered: number;
  state: ReplayState['state'];
  reason: string | null;
}

export interface Progress {
  pages: number;
  events: number;
  perMinute: number;
  /** When the catch-up will probably end, ISO 8601. Null: unknown. */
  endsAt: string | null;
  /** Events arrive at least as fast as the catch-up reads. */
  behind: boolean;
}

/** The state of the live stream. `stopped`: the service refuses it. */
export interface StreamState {
  state: 'off' | 'open' | 'lost' | 'stopped';
  since: string | null;
  reason: string | null;
}

export interface VerifyAccount {
  state: 'running' | 'done' | 'failed';
  reason: string | null;
  /** When the verify was requested, Unix milliseconds. Events above `at` that were received later are not compared. */
  asked: number;
  from: Cursor;
  /** The cursor that verify has read up to. */
  at: Cursor;
  pages: number;
  events: number;
  /**
   * Numbers of events. `missing`: recovered by verify. `older`: at or below the floor, so perhaps pruned; they are not
   * recovered. `onlyHere`: stored here, but not shown by the service.
   */
  types: {
    type: string;
    present: number;
    missing: number;
    older: number;
    onlyHere: number;
    handled: number;
    dead: number;
  }[];
}

export interface Stretch {
  types: { type: string; stored: number; handled: number; dead: number }[];
  /** The cursor to continue from; null at the end. */
  next: Cursor | null;
}

export interface KeepStore extends IngestStore, AlarmStore {
  watermark(): Promise<Cursor | null>;
  /** The cursor at which replay begins if there is no watermark. Null: not known. */
  beginsAt(): Promise<Cursor | null>;
  /** When the first delivery set `beginsAt`, Unix milliseconds. Null: something else set it. */
  anchoredAt(): Promise<number | null>;
  /** The lowest cursor that a delivery has brought. */
  lowestDelivered(): Promise<Cursor | null>;
  /**
   * Lowers the watermark in one transaction, never below the floor. Replay must show everything above the new watermark
   * again.
   */
  lowerWatermark(lowering: Lowering): Promise<Lowered>;
  /** Looks for proof that the watermark is too high, in events numbered up to `upTo`. Null: no proof. */
  watermarkAhead(types: string[], upTo: number, now: number): Promise<Ahead | null>;
  /** Nothing raises the watermark to this cursor or above it. Null: no limit. */
  ceiling(): Promise<Cursor | null>;
  /** `from`: the watermark that deliveries last proved too high. `to`: what it was lowered to. Null: there was none. */
  lowered(): Promise<Ahead | null>;
  /**
   * Removes the watermark and returns it. The range above becomes a gap. The next API key starts without a watermark.
   */
  giveUpWatermark(now: number): Promise<Cursor | null>;
  /** The times of the last calls of ReplayEvents, Unix milliseconds. */
  calls(): Promise<number[] | null>;
  /** The state of reconciliation that was noted last. Null: none. */
  replayState(): Promise<ReplayState | null>;
  /** The last reconciliation runs, newest first. */
  replayRuns(): Promise<ReplayRun[]>;
  newestCursor(): Promise<Cursor | null>;
  /** The nearest known cursor above `bound`, or below it. If `bound` is null: the lowest known, or the highest. */
  cursorAbove(bound: Cursor | null): Promise<Cursor | null>;
  cursorBelow(bound: Cursor | null): Promise<Cursor | null>;
  /** The highest known cursor up to this one. */
  cursorUpTo(bound: Cursor): Promise<Cursor | null>;
  /**
   * `lowest`: the lowest cursor above the last gap. `older`: the median of the last hundred cursors received before
   * `before` and above that gap, so that one odd cursor decides nothing. `young`: true if an event was received later.
   */
  anchors(before: number): Promise<{ lowest: Cursor | null; older: Cursor | null; young: boolean }>;
  /**
   * Counts by type the events above `proved_from` that webhooks brought and neither replay nor stream showed.
   * Looks at `limit` events numbered above `after`, up to `upTo`. `next` is where to continue; at the end, `after`.
   */
  unseen(
    after: number,
    upTo: number,
    limit: number,
  ): Promise<{ types: { type: string; events: number }[]; next: number }>;
  /** The number of the last event that was compared with replay, and the types that replay did not show. */
  compared(): Promise<number>;
  blind(): Promise<string[] | null>;
  /** Counters of the last minutes, as `keep` has noted them. */
  snapshots(): Promise<{ at: number; counters: Record<string, number> }[] | null>;
  /** The last crashes, newest first. The main process writes them. */
  crashes(): Promise<Crash[]>;
  /** The newest group of dead letters. Ids of groups grow. */
  newestDeadGroup(): Promise<{ id: number; handler: string; error: string } | null>;
  /** The key of the event that was contradicted last. */
  lastContradicted(): Promise<string | null>;
  /** The result of `npx kit verify`, if it ever ran. */
  verifying(): Promise<VerifyAccount | null>;
  /**
   * Counts stored events above `after` by type and outcome. Those above `upTo` count if received before `before`.
   */
  stretch(after: Cursor, upTo: Cursor, before: number, limit: number): Promise<Stretch>;
  /** The types that webhooks bring, and how many events of each they missed since the last delivery of that type. */
  types(): Promise<DeliveredType[]>;
  /** Notes that replay begins to read history from before this store. */
  openHistory(): Promise<void>;
  /** Notes where the first catch-up of replay ended: events above this cursor are newer than the store. Set once. */
  endHistory(upTo: Cursor): Promise<void>;
  /** Call it RECONCILE_OVERLAP_SECONDS after `endHistory`. Events that are still undecided become history. */
  closeHistory(): Promise<void>;
  /** The last time that somebody asked for a reconciliation, Unix milliseconds; 0: never. */
  reconcileAsked(): Promise<number>;
  /** The number of the newest event; 0: no event. */
  newestEvent(): Promise<number>;
  /** The marks by which the pruner measures the age of events, as noted last. Null: none yet. */
  receipts(): Promise<Receipts | null>;
  /**
   * Removes finished events that cannot arrive again. Other finished events lose only their body: those not below the
   * watermark, or, without cursor or watermark, those that may be repeated. Returns where to continue, or null.
   */
  prune(step: PruneStep): Promise<Receipt | null>;
  /** Removes the bodies of finished events received before `before`, in steps like `prune`. A digest of each stays. */
  purge(before: number, after: Receipt | null, limit: number): Promise<Receipt | null>;
  /** Handler files that could not be loaded or set up, and the handlers that wait for each. */
  brokenHandlers(): Promise<{ fault: string; waiting: string[] }[]>;
  /** Removes quarantine, conflicts, arrivals, idle lanes and ids of pruned events that are from before `before`. */
  sweep(before: number): Promise<void>;
  /** Copies the WAL into the file; with `restart`, the WAL also begins anew. Returns the size of the WAL in bytes. */
  checkpoint(restart: boolean): Promise<number>;
  /** Alarms that are raised, and cleared alarms whose all-clear was not sent yet. */
  raised(): Promise<RaisedAlarm[]>;
}

/** `from`: the watermark that is too high. `to`: where it belongs. */
export interface Ahead {
  from: Cursor;
  to: Cursor;
}

export interface Lowering {
  to: Cursor;
  /**
   * `evidence`: deliveries prove the watermark too high, so it may not rise to the old cursor again (see `ceiling`).
   * `anchor`: replay begins lower. `asked`: a person asked; it may rise again, unless deliveries prove it too high.
   */
  why: 'evidence' | 'anchor' | 'asked';
  /** Unix milliseconds. */
  now: number;
}

export type Lowered =
  | { done: true; watermark: Cursor }
  | { done: false; why: 'none' }
  | { done: false; why: 'not_lower' | 'floor'; watermark: Cursor; floor: Cursor | null };

/** A position in the order of receipt: the time of receipt and the number of an event. */
export interface Receipt {
  /** Unix milliseconds. */
  at: number;
  seq: number;
}

export interface PruneStep {
  /** Unix milliseconds. */
  now: number;
  /** Only events received before this time are removed, Unix milliseconds. */
  before: number;
  /** The service no longer repeats deliveries of events up to this number. */
  settled: number;
  /** Continues after this event. Null: from the beginning. */
  after: Receipt | null;
  limit: number;
}

/**
 * Measures the age of events in running time of `keep`: each mark says which event was the newest after `ranMs`. So a
 * step of the clock changes no age.
 */
export interface Receipts {
  /** When the marks were last written, Unix milliseconds. */
  at: number;
  /** The total running time of `keep`, milliseconds. */
  ranMs: number;
  marks: { ranMs: number; event: number }[];
}

export interface DeliveredType {
  type: string;
  /** When a webhook last brought the type, Unix milliseconds. Null: never. */
  deliveredAt: number | null;
  /** Events since `deliveredAt` that only replay or stream brought while deliveries were possible; and since when. */
  missed: number;
  missedSince: number | null;
}
