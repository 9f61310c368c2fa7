// What `keep` needs of a store: where replay stands, which alarms are raised, what is pruned.
import type { AlarmStore, RaisedAlarm } from './alarms.ts';
import type { Cursor } from '../wire/cursor.ts';
import type { IngestStore } from './ingest.ts';

export interface Failures {
  /** Of the present failure run. */
  causes: Record<string, number>;
  /** Deliveries with well-formed headers that no secret of ours signed, since the last good one. */
  badSignatures: number;
  /** The first and the last of them; the last stays when a good one has come. ISO 8601. */
  badSince: string | null;
  lastBadAt: string | null;
  /** The last delivery of the service that was answered with a 2xx. */
  lastGoodAt: string | null;
}

/** A delivery that was refused, by what its headers said: cut short, unsigned, a stranger's. Never its body. */
export interface Refusal {
  at: string;
  /** Of the five headers that each delivery carries (contract 6.3), besides its signature. */
  headers: number;
  /** How far its timestamp lay from our clock; null where it had none. */
  skewSeconds: number | null;
  agent: string | null;
  bytes: number | null;
}

/** A secret by what it signed. Times are signing moments (contract 6.3), Unix milliseconds. */
export interface Signer {
  fingerprint: string;
  /** Its position in WEBHOOK_SECRET, from 1; null where it is configured no more. */
  number: number | null;
  hits: number;
  firstAt: number | null;
  lastAt: number | null;
  /** When no other secret of ours signed the same delivery. */
  aloneAt: number | null;
  mayGo: boolean;
  /** Since when it is configured no more. */
  goneAt: number | null;
}

/** How processes that run handlers have died lately: what one was at, how it ended, how often. */
export interface Crash {
  /** Null: no task was at work. */
  task: { handler: string; key: string } | null;
  /** It was the only one in its process. */
  alone: boolean;
  /** `exit code 7`, `SIGSEGV`. */
  exit: string;
  count: number;
  /** The last time, ISO 8601. */
  at: string;
}

/** What the main process keeps over restarts, in the facts failure_run, failures and signers. */
export interface KeptHealth {
  failureRun: number;
  failures: Failures;
  signers: Signer[];
}

export interface ReplayState {
  state: 'off' | 'idle' | 'running' | 'backing-off' | 'stopped';
  /** Since when it is in this state. */
  since: string | null;
  lastAt: string | null;
  reason: string | null;
  /** Of a catch-up that takes more than a page. */
  progress: Progress | null;
}

/** Runs of reconciliation in a row that ended alike: the last, or one that brought something. */
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
  /** Estimated; null where that cannot be told. */
  endsAt: string | null;
  /** It does not come nearer to now. */
  behind: boolean;
}

/** `stopped`: the service refuses it. */
export interface StreamState {
  state: 'off' | 'open' | 'lost' | 'stopped';
  since: string | null;
  reason: string | null;
}

/** What `npx kit verify` has found so far. */
export interface VerifyAccount {
  state: 'running' | 'done' | 'failed';
  reason: string | null;
  /** Unix milliseconds: what was received later is not compared. */
  asked: number;
  from: Cursor;
  /** How far it has read. */
  at: Cursor;
  pages: number;
  events: number;
  /**
   * `missing`: recovered by it. `older`: at or below the floor, so that pruning may have removed it; not fetched.
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
  /** Where to go on; null at the end. */
  next: Cursor | null;
}

export interface KeepStore extends IngestStore, AlarmStore {
  watermark(): Promise<Cursor | null>;
  /** Where a store without a watermark begins to read, once that is known. */
  beginsAt(): Promise<Cursor | null>;
  /** When its first delivery told it so, Unix milliseconds; null where something else did. */
  anchoredAt(): Promise<number | null>;
  /** The lowest cursor that a delivery has brought. */
  lowestDelivered(): Promise<Cursor | null>;
  /** The watermark goes down, in one transaction, never below the floor; and what was proved above it counts no more. */
  lowerWatermark(lowering: Lowering): Promise<Lowered>;
  /** Evidence among the events up to `upTo` that the watermark stands too high, and where it belongs. */
  watermarkAhead(types: string[], upTo: number, now: number): Promise<Ahead | null>;
  /** Items at or above it do not raise the watermark. */
  ceiling(): Promise<Cursor | null>;
  /** How evidence has lowered the watermark last. */
  lowered(): Promise<Ahead | null>;
  /** Gives the watermark up: what comes after it is a gap, and the next key begins like one that is added later. */
  giveUpWatermark(now: number): Promise<Cursor | null>;
  /** When the last calls were made, Unix milliseconds. */
  calls(): Promise<number[] | null>;
  /** As it was noted last; null: never. */
  replayState(): Promise<ReplayState | null>;
  /** The last runs, newest first. */
  replayRuns(): Promise<ReplayRun[]>;
  newestCursor(): Promise<Cursor | null>;
  /** The lowest cursor known above this one; the highest below it. Null bounds nothing. */
  cursorAbove(bound: Cursor | null): Promise<Cursor | null>;
  cursorBelow(bound: Cursor | null): Promise<Cursor | null>;
  /** The highest cursor known, up to this one. */
  cursorUpTo(bound: Cursor): Promise<Cursor | null>;
  /**
   * The lowest cursor known; the median of the last hundred received before `before`, so that one odd cursor decides
   * nothing; whether any event is younger.
   */
  anchors(before: number): Promise<{ lowest: Cursor | null; older: Cursor | null; young: boolean }>;
  /**
   * Events behind `proved_from` that webhooks brought, and neither replay nor stream has shown: how many by type, among
   * up to `limit` of those numbered above `after`, `upTo` at the most. `next`: where to go on; `after` itself at the end.
   */
  unseen(
    after: number,
    upTo: number,
    limit: number,
  ): Promise<{ types: { type: string; events: number }[]; next: number }>;
  /** The last event, by its number, that was looked up so; and the types that were found lately. */
  compared(): Promise<number>;
  blind(): Promise<string[] | null>;
  /** Counters of the last minutes, as `keep` has noted them. */
  snapshots(): Promise<{ at: number; counters: Record<string, number> }[] | null>;
  /** The last of them, newest first; written by the main process as the state `crashes`. */
  crashes(): Promise<Crash[]>;
  /** Why a task became a dead letter for a reason that none had before; `id` grows from cause to cause. */
  newestCause(): Promise<{ id: number; handler: string; error: string } | null>;
  /** The key of the event that was contradicted last. */
  lastContradicted(): Promise<string | null>;
  /** The account of `npx kit verify`, if there ever was one. */
  verifying(): Promise<VerifyAccount | null>;
  /** Events behind `after` up to `upTo`, and above it those received before `before`: by type, and what became of them. */
  stretch(after: Cursor, upTo: Cursor, before: number, limit: number): Promise<Stretch>;
  /** What webhooks bring, and what they lately missed. */
  types(): Promise<DeliveredType[]>;
  /** Replay begins to read what was there before this store. */
  openHistory(): Promise<void>;
  /** Replay has caught up for the first time: what lies behind this cursor came after the store was there. Set once. */
  endHistory(upTo: Cursor): Promise<void>;
  /** One overlap later: what is undecided now is history. */
  closeHistory(): Promise<void>;
  /** The last time, Unix milliseconds, that somebody asked for a reconciliation; 0 if never. */
  reconcileAsked(): Promise<number>;
  /** The number of the newest event; 0 where there is none. */
  newestEvent(): Promise<number>;
  /** As the pruner has noted it. */
  receipts(): Promise<Receipts | null>;
  /**
   * Removes finished events that may not come again, and the bodies of those that may: above the watermark, or, where
   * no watermark covers them, still repeated by the service. Returns where to go on, or null.
   */
  prune(step: PruneStep): Promise<Receipt | null>;
  /** Removes the bodies of finished events received before `before`, in steps like prune; a digest stays. */
  purge(before: number, after: Receipt | null, limit: number): Promise<Receipt | null>;
  /** Files of handlers that could not be loaded or set up, and the handlers that wait for each. */
  brokenHandlers(): Promise<{ fault: string; waiting: string[] }[]>;
  /** Removes quarantine, conflicts and idle lanes older than `before`, which lies hours back at least. */
  sweep(before: number): Promise<void>;
  /** Copies the log into the file; with `restart`, lets the log begin anew. Returns the log's size in bytes. */
  checkpoint(restart: boolean): Promise<number>;
  /** All that are up, and those whose all-clear nobody was told yet. */
  raised(): Promise<RaisedAlarm[]>;
}

/** Where the watermark stood, and where it belongs. */
export interface Ahead {
  from: Cursor;
  to: Cursor;
}

export interface Lowering {
  to: Cursor;
  /** `evidence` remembers the height, so that nothing raises it there again; `asked` does where there is evidence too. */
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
  /** Received before then, Unix milliseconds. */
  before: number;
  /** Up to this event the service repeats nothing any more. */
  settled: number;
  /** Null: from the beginning. */
  after: Receipt | null;
  limit: number;
}

/** Which event was the newest when, by the time that `keep` has run: no step of a clock makes an event look older. */
export interface Receipts {
  /** When it was written, Unix milliseconds. */
  at: number;
  /** How long `keep` has run in all, milliseconds. */
  ranMs: number;
  marks: { ranMs: number; event: number }[];
}

export interface DeliveredType {
  type: string;
  /** The last delivery, Unix milliseconds; null: never. */
  deliveredAt: number | null;
  /** Since then brought by replay or stream alone, though deliveries could be taken; and since when. */
  missed: number;
  missedSince: number | null;
}
