// The types of the passes. Each pass reads pages of ReplayEvents for one purpose. The reconciler decides which pass
// makes the next call.
import type { Store } from '../store/store.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Budget } from '../service/budget.ts';
import type { Plain } from '../service/operations.ts';
import type { CallOptions } from '../service/service.ts';
import type { Accepted, Batch } from '../store/ingest.ts';
import type { Progress, ReplayState } from '../store/keep.ts';
import type { Cursor } from '../wire/cursor.ts';
import type { Page } from './page.ts';

export interface Pass {
  /** The search pass is also named `forward`, because it replaces the forward pass for a while. */
  readonly name: 'forward' | 'overlap' | 'verify';
  /** When the next call is due, by the monotonic clock. Infinity: no call is due. */
  dueAt(): number;
  /** The next page begins after this cursor. Null: read the first page. Undefined: nothing is left to read. */
  after(): Promise<Cursor | null | undefined>;
  /** Handles a page that can be used. */
  take(page: Page, after: Cursor | null): Promise<void>;
  /** Ends the pass because it cannot continue here. Resolves to the reason that `npx kit status` shows, or null. */
  stop(why: PassEnd, after: Cursor | null, page: Page | null): Promise<string | null>;
}

/**
 * `stuck`: the page promises more but shows nothing. `unknown`: the cursor was refused. `forgotten`: it has expired.
 */
export type PassEnd = 'stuck' | 'unknown' | 'forgotten';

export interface PassContext extends ReconcilerOptions {
  /** Commits a page and its watermark in one transaction. */
  commit: (page: Page, more?: Partial<Batch>) => Promise<Accepted[]>;
  say: Say;
}

/** Sets the reconciliation state that `npx kit status` shows. `done`: a pass has reached its end. */
export type Say = (
  state: ReplayState['state'],
  reason: string | null,
  more?: { done?: boolean; progress?: Progress | null },
) => Promise<void>;

/** When the forward pass ended, by the monotonic clock, and the watermark at that time. */
export interface Ended {
  at: number;
  watermark: Cursor | null;
}

export interface ReconcilerOptions {
  store: Store;
  /** The client; only ReplayEvents is called. */
  service: { call: (operation: string, request: Plain, options?: CallOptions) => Promise<Plain> };
  /** Aborts the running call. */
  signal?: AbortSignal;
  clock: Clock;
  log: Logger;
  budget: Budget;
  /** REPLAY_FROM: 'first-webhook', 'start', or a cursor. */
  from: string;
  types: string[];
  intervalMs: number;
  overlapMs: number;
  /** Called when events were committed or strict tasks may be released, so that `run` looks for tasks. */
  onEvents: () => void;
  /** True while webhooks are silent, so that only replay brings events. */
  silent?: () => boolean;
  /** True while the stream is open and will probably raise the watermark sooner than a call. */
  streaming?: () => boolean;
  /** Called when a person asks for a reconciliation. */
  onAsked?: () => void;
}
