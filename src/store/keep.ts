// What the processes keep in the store, and the keep role: pruning and checkpoints.
import type { Cursor } from '../wire/cursor.ts';

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
  /** When the last failures of the run were answered, Unix milliseconds. */
  at: number[];
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

export interface KeepStore {
  /**
   * Removes finished events that cannot arrive again. Other finished events lose only their body: those not below the
   * watermark, or, without cursor or watermark, those that may be repeated.
   */
  prune(step: PruneStep): Promise<Pruned>;
  /** Removes the bodies of finished events received before `before`, in steps like `prune`. A digest of each stays. */
  purge(before: number, after: Receipt | null, limit: number): Promise<Pruned>;
  /** Removes quarantine, conflicts, arrivals, idle lanes and ids of pruned events that are from before `before`. */
  sweep(before: number): Promise<void>;
  /** Of the samples, keeps those of the day before `at`, and one a minute of the eight days before. */
  thinSamples(at: number): Promise<void>;
  /** The number of the newest event; 0: no event. */
  newestEvent(): Promise<number>;
  /** Copies the WAL into the file; with `restart`, the WAL also begins anew. Returns the size of the WAL in bytes. */
  checkpoint: (restart: boolean) => Promise<number>;
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

/** What a step has removed. `next`: where to continue; null: nothing is left. */
export interface Pruned {
  next: Receipt | null;
  rows: number;
  bodies: number;
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
  /** Absent if an older kit wrote this. */
  trusted?: TrustedTime;
}

/** The time by which pruning measures ages. See keep/trusted-time.ts. Unix milliseconds. */
export interface TrustedTime {
  at: number;
  /** The signing time of the good delivery that last set it. 0: there was none. */
  signedAt: number;
}

export interface DeliveredType {
  type: string;
  /** When a webhook last brought the type, Unix milliseconds. Null: never. */
  deliveredAt: number | null;
  /** Events since `deliveredAt` that only replay or stream brought while deliveries were possible; and since when. */
  missed: number;
  missedSince: number | null;
}
