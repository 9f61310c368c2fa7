// The role of the store for the keep process: replay's position, raised alarms, pruning.
import type { AlarmStore, RaisedAlarm } from './alarms.ts';
import type { Cursor } from '../wire/cursor.ts';
import type { IngestStore } from './ingest.ts';

export interface Failures {
  /** Of the present failure run. */
  causes: Record<string, number>;
  /** Deliveries with well-formed headers that none of our secrets signed, since the last good delivery. */
  badSignatures: number;
  /** The first and the last of them, ISO 8601. The last one stays after a good delivery. */
  badSince: string | null;
  lastBadAt: string | null;
  /** The last delivery of the service that was answered with a 2xx. */
  lastGoodAt: string | null;
}

/** A refused delivery, described by its headers alone. Never its body. */
export interface Refusal {
  at: string;
  /** How many of the five headers of a delivery were present (contract 6.3), besides its signature. */
  headers: number;
  /** The distance of its timestamp from our clock; null: it had none. */
  skewSeconds: number | null;
  agent: string | null;
  bytes: number | null;
}

/** A secret and what it has signed. Times are signing times (contract 6.3), Unix milliseconds. */
export interface Signer {
  fingerprint: string;
  /** Position in WEBHOOK_SECRET, from 1. Null: the secret is no longer configured. */
  number: number | null;
  hits: number;
  firstAt: number | null;
  lastAt: number | null;
  /** The last time that no other secret of ours signed the same delivery. */
  aloneAt: number | null;
  mayGo: boolean;
  /** When the secret was removed from the configuration. */
  goneAt: number | null;
}

/** The last crashes of processes that run handlers, with their tasks and counts. */
export interface Crash {
  /** Null: no task was running. */
  task: { handler: string; key: string } | null;
  /** The task was the only one in its process. */
  alone: boolean;
  /** `exit code 7`, `SIGSEGV`. */
  exit: string;
  count: number;
  /** The last time, ISO 8601. */
  at: string;
}

/** Delivery health that the main process keeps over restarts: the state keys failure_run, failures and signers. */
export interface KeptHealth {
  failureRun: number;
  failures: Failures;
  signers: Signer[];
}

export interface ReplayState {
  state: 'off' | 'idle' | 'running' | 'backing-off' | 'stopped';
  /** When this state began. */
  since: string | null;
  lastAt: string | null;
  reason: string | null;
  /** Of a catch-up that takes more than one page. */
  progress: Progress | null;
}

/** Consecutive reconciliation runs with the same end, or one run that recovered events. */
export interface ReplayRun {
  from: string;
  to: string;
  runs: number;
  pages: number;
  /** Events that only replay brought. */
  recovered: number;
  state: ReplayState['state'];
  reason: string | null;
}

export interface Progress {
  pages: number;
  events: number;
  perMinute: number;
  /** An estimate; null: unknown. */
  endsAt: string | null;
  /** The catch-up is not getting closer to now. */
  behind: boolean;
}

/** `stopped`: the service refuses the stream. */
export interface StreamState {
  state: 'off' | 'open' | 'lost' | 'stopped';
  since: string | null;
  reason: string | null;
}

/** The result of `npx kit verify` so far. */
export interface VerifyAccount {
  state: 'running' | 'done' | 'failed';
  reason: string | null;
  /** Unix milliseconds. Events received later are not compared. */
  asked: number;
  from: Cursor;
  /** The cursor that it has read up to. */
  at: Cursor;
  pages: number;
  events: number;
  /**
   * `missing`: recovered by verify. `older`: at or below the floor, so pruning may have removed it; not fetched.
   * `onlyHere`: the service did not show it.
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
  /** Where a store without a watermark begins to read, if that is known. */
  beginsAt(): Promise<Cursor | null>;
  /** When its first delivery set that place, Unix milliseconds. Null: something else did. */
  anchoredAt(): Promise<number | null>;
  /** The lowest cursor that a delivery has brought. */
  lowestDelivered(): Promise<Cursor | null>;
  /**
   * Lowers the watermark in one transaction, never below the floor. Everything above the new watermark must be proved
   * again.
   */
  lowerWatermark(lowering: Lowering): Promise<Lowered>;
  /** Evidence that the watermark is too high, among events up to `upTo`, and where it belongs. */
  watermarkAhead(types: string[], upTo: number, now: number): Promise<Ahead | null>;
  /** Items at or above this cursor do not raise the watermark. */
  ceiling(): Promise<Cursor | null>;
  /** The last time that evidence lowered the watermark. */
  lowered(): Promise<Ahead | null>;
  /**
   * Removes the watermark. What comes after it is a gap, and the next API key starts like a key that is added later.
   */
  giveUpWatermark(now: number): Promise<Cursor | null>;
  /** The times of the last calls, Unix milliseconds. */
  calls(): Promise<number[] | null>;
  /** The last state that was noted. Null: none. */
  replayState(): Promise<ReplayState | null>;
  /** The last runs, newest first. */
  replayRuns(): Promise<ReplayRun[]>;
  newestCursor(): Promise<Cursor | null>;
  /** The next known cursor above the bound, and below it. A null bound has no effect. */
  cursorAbove(bound: Cursor | null): Promise<Cursor | null>;
  cursorBelow(bound: Cursor | null): Promise<Cursor | null>;
  /** The highest known cursor up to this one. */
  cursorUpTo(bound: Cursor): Promise<Cursor | null>;
  /**
   * The lowest known cursor; the median of the last hundred received before `before`, so that a single odd cursor
   * decides nothing; and whether any event is newer.
   */
  anchors(before: number): Promise<{ lowest: Cursor | null; older: Cursor | null; young: boolean }>;
  /**
   * Events behind `proved_from` that webhooks brought and neither replay nor stream has shown, by type. Looks at up to
   * `limit` events numbered above `after`, up to `upTo`. `next` is where to continue; at the end it equals `after`.
   */
  unseen(
    after: number,
    upTo: number,
    limit: number,
  ): Promise<{ types: { type: string; events: number }[]; next: number }>;
  /** The number of the last event that was compared, and the types that the last comparison found. */
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
   * Stored events behind `after` up to `upTo`, and later ones received before `before`: by type, with their outcome.
   */
  stretch(after: Cursor, upTo: Cursor, before: number, limit: number): Promise<Stretch>;
  /** The types that webhooks bring, and how many events of each they missed since the last delivery of that type. */
  types(): Promise<DeliveredType[]>;
  /** Replay begins to read history from before this store. */
  openHistory(): Promise<void>;
  /** Replay has caught up for the first time: events behind this cursor are newer than the store. Set once. */
  endHistory(upTo: Cursor): Promise<void>;
  /** One overlap later, undecided events become history. */
  closeHistory(): Promise<void>;
  /** The last time that somebody asked for a reconciliation, Unix milliseconds; 0: never. */
  reconcileAsked(): Promise<number>;
  /** The number of the newest event; 0: no event. */
  newestEvent(): Promise<number>;
  /** What the pruner has noted last. */
  receipts(): Promise<Receipts | null>;
  /**
   * Removes finished events that cannot arrive again, and the bodies of finished events that can: above the watermark,
   * or, without a watermark, while the service still repeats them. Returns where to continue, or null.
   */
  prune(step: PruneStep): Promise<Receipt | null>;
  /** Removes the bodies of finished events received before `before`, in steps like `prune`. A digest stays. */
  purge(before: number, after: Receipt | null, limit: number): Promise<Receipt | null>;
  /** Handler files that could not be loaded or set up, and the handlers that wait for each. */
  brokenHandlers(): Promise<{ fault: string; waiting: string[] }[]>;
  /** Removes quarantine, conflicts and idle lanes older than `before`, which is at least hours ago. */
  sweep(before: number): Promise<void>;
  /** Copies the log into the file; with `restart`, the log also begins anew. Returns the size of the log in bytes. */
  checkpoint(restart: boolean): Promise<number>;
  /** Alarms that are raised, and cleared alarms whose all-clear was not sent yet. */
  raised(): Promise<RaisedAlarm[]>;
}

/** The old watermark and the one that evidence supports. */
export interface Ahead {
  from: Cursor;
  to: Cursor;
}

export interface Lowering {
  to: Cursor;
  /**
   * `evidence` remembers the old height, so that nothing raises the watermark there again. `asked` does so if there is
   * evidence too.
   */
  why: 'evidence' | 'anchor' | 'asked';
  /** Unix milliseconds. */
  now: number;
}

export type Lowered =
  | { done: true; watermark: Cursor }
  | { done: false; why: 'none' }
  | { done: false; why: 'not_lower' | 'floor'; watermark: Cursor; floor: Cursor | null };

/** A place in the order of receipt. */
export interface Receipt {
  /** Unix milliseconds. */
  at: number;
  seq: number;
}

export interface PruneStep {
  /** Unix milliseconds. */
  now: number;
  /** Received before this time, Unix milliseconds. */
  before: number;
  /** The service no longer repeats events up to this number. */
  settled: number;
  /** Null: from the beginning. */
  after: Receipt | null;
  limit: number;
}

/**
 * Marks which event was the newest after how much running time of `keep`. A step of the clock does not make an event
 * look older.
 */
export interface Receipts {
  /** When it was written, Unix milliseconds. */
  at: number;
  /** The total running time of `keep`, milliseconds. */
  ranMs: number;
  marks: { ranMs: number; event: number }[];
}

export interface DeliveredType {
  type: string;
  /** The last delivery, Unix milliseconds. Null: never. */
  deliveredAt: number | null;
  /** Events since then that only replay or stream brought although deliveries could be accepted, and since when. */
  missed: number;
  missedSince: number | null;
}
