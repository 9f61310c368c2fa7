// What a pass is: one purpose that pages of ReplayEvents are read for. The reconciler decides whose turn it is.
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import type { Budget } from '../service/budget.ts';
import type { CallOptions } from '../service/service.ts';
import type { Accepted, Batch } from '../store/ingest.ts';
import type { KeepStore, Progress, ReplayState } from '../store/keep.ts';
import type { Cursor } from '../wire/cursor.ts';
import type { Page } from './page.ts';

/** One purpose that pages are read for. */
export interface Pass {
  /** When it wants its next call, by the monotonic clock; Infinity: not now. */
  dueAt(): number;
  /** Where to read on: a cursor already seen, null for the beginning; undefined: there is nothing to ask after all. */
  after(): Promise<Cursor | null | undefined>;
  /** A page that can be used. */
  take(page: Page, after: Cursor | null): Promise<void>;
  /** Why this reading cannot go on here. Resolves to the words for it where people should know, else null. */
  stop(why: PassEnd, after: Cursor | null, page: Page | null): Promise<string | null>;
}

/** `stuck`: more is promised, and nothing shown. `unknown`: the cursor is refused. `forgotten`: it has expired. */
export type PassEnd = 'stuck' | 'unknown' | 'forgotten';

/** What readings share. */
export interface PassContext extends ReconcilerOptions {
  /** Page and watermark in one transaction. */
  commit: (
    page: Page,
    more?: Pick<Batch, 'watermark' | 'after' | 'from' | 'fresh' | 'gap' | 'counts'>,
  ) => Promise<Accepted[]>;
  say: (
    state: ReplayState['state'],
    reason: string | null,
    more?: { done?: boolean; progress?: Progress | null },
  ) => Promise<void>;
}

/** When, by the monotonic clock, and how far replay had shown everything then. */
export interface Ended {
  at: number;
  watermark: Cursor | null;
}

export interface ReconcilerOptions {
  store: KeepStore;
  /** The client: only ReplayEvents is called. */
  service: {
    call(
      operation: string,
      request: Record<string, unknown>,
      options?: Pick<CallOptions, 'signal' | 'reader'>,
    ): Promise<Record<string, unknown>>;
  };
  /** Ends the call that is under way. */
  signal?: AbortSignal;
  clock: Clock;
  log: Logger;
  budget: Budget;
  /** 'first-webhook', 'start', or a cursor. */
  from: string;
  types: string[];
  intervalMs: number;
  overlapMs: number;
  /** After events were committed, or proved. */
  onEvents: () => void;
  /** Webhooks are silent: replay is all that there is. */
  silent?: () => boolean;
  /** The stream is open, and likely to prove before a call could. */
  streaming?: () => boolean;
  /** A person has asked for a reconciliation. */
  onAsked?: () => void;
}
