// The work role of the store: events become tasks, and tasks are claimed in the order of their lanes and settled.
import type { Birth } from './birth.ts';
import type { Cursor } from '../wire/cursor.ts';
import type { Origin } from '../wire/event.ts';

export type TaskState = 'ready' | 'running' | 'done' | 'skipped' | 'dead';

export type ShownState = 'held' | TaskState;

export interface StoredEvent {
  seq: number;
  key: string;
  id: string | null;
  cursor: Cursor | null;
  type: string;
  sessionId: string | null;
  createdAt: number | null;
  receivedAt: number;
  origin: Origin;
  /** 1: a live stream brought the event as it happened, so its age is known. */
  live: 0 | 1;
  /** The body as text; null if it was purged or erased. */
  text: string | null;
}

export interface NewTask {
  event: number;
  handler: number;
  /** The name of the lane. Null: the task waits for no other task. */
  lane: string | null;
  cursor: Cursor | null;
  /** The task is held until this time, Unix milliseconds. A strict task waits for the watermark instead. */
  releaseAt: number;
  /**
   * The task is held until the watermark has passed its cursor, or until two complete reads of replay have not shown
   * its event.
   */
  strict?: boolean;
  /** The id of the rerun that asked for the task. Reruns have lanes of their own. */
  rerun?: number;
}

/** A claim that has not begun after this time goes back, so that people can discard, move or erase the task. */
export const UNBEGUN_MS = 50;

/** Maximum number of notes of a task. */
export const NOTES = 32;

/** What a handler noted about a task: JSON by name. */
export type Notes = Readonly<Record<string, string>>;

export interface Claim {
  task: number;
  handler: number;
  event: StoredEvent;
  lane: number | null;
  /** The task waits for no other task: it has no lane, or it kept failing and has stepped aside from its lane. */
  alone: boolean;
  /** The id of the rerun; 0: the task was made when its event arrived. */
  rerun: number;
  /** The number of this attempt, from 1. It is counted when the task is claimed. */
  attempt: number;
  boot: number;
  late: boolean;
  /** The strict task was released although the watermark has not passed its cursor. */
  unproven: boolean;
  startedAt: number;
  deferredMs: number;
  error: string | null;
  /** How long the attempt took, milliseconds. Undefined: the handler did not run. */
  tookMs?: number;
  /**
   * Shared by the claims of a lane, which run one after another. If it is recalled, those that have not begun go back:
   * the lane has other tasks by now. So do those that have not begun at `until`, a time of the monotonic clock.
   */
  chain: { recalled: boolean; until?: number };
  notes: Notes;
}

/** The files of the loaded handlers, and the broken files: those that could not be loaded, or whose `setup` failed. */
export interface HandlerFiles {
  /** The file of each loaded handler, by the handler's name. */
  of: Map<string, string>;
  broken: string[];
}

/** How the attempt of a claim ended. With `spent: false` it does not count: a next attempt gets the same number. */
export type Settlement = { claim: Claim; error: string | null; spent?: boolean } & (
  | { state: 'done' | 'skipped' | 'dead' }
  | {
      state: 'ready';
      dueAt: number;
      /** How long the failing task may hold its lane, counted from its first failure. Null: the task has not failed. */
      holdMs: number | null;
      deferredMs?: number;
    }
);

export interface Turn {
  now: number;
  boot: number;
  settle: Settlement[];
  /** Tasks of new events, up to `upTo`. None is written if another process has made tasks of events after `from`. */
  fanOut: FanOutPage | null;
  /**
   * Tasks of events that a handler missed while its file was broken. With `joins` the handler has caught up, and
   * `fanOut` holds its tasks too. `owed`: the numbers of those missed events that `WorkStore.owed` returned.
   */
  missed?: { handler: number; from: number; upTo: number; joins: boolean; tasks: NewTask[]; owed?: number[] } | null;
  /** Tasks of a page of a rerun. None is written if the rerun was cancelled or another process has made these tasks. */
  rerun?: { page: RerunPage; tasks: NewTask[] } | null;
  /** The maximum number of tasks to claim, of the handlers in `handlers`. Tasks of reruns come last. */
  room: number;
  handlers: number[];
  /** Maximum number of claims, by handler id. `nextAt` ignores a handler that has used up its maximum. */
  limits?: Map<number, number>;
  /** Maximum number of tasks to claim of one lane, by handler id. Default: 1. */
  chains?: Map<number, number>;
  /** Maximum number of claims for reruns; default: `room`. `nextAt` ignores reruns if this maximum is used up. */
  reruns?: number;
}

export interface FanOutPage {
  from: number;
  upTo: number;
  tasks: NewTask[];
  /** Events of this page that may still turn out to be history (see birth.ts). */
  undecided?: { event: number; cursor: Cursor }[];
  /** Numbers of earlier undecided events that turned out not to be history. Their tasks are among `tasks`. */
  decided?: number[];
}

export interface TurnResult {
  claims: Claim[];
  /** Settlements whose claim no longer held. They changed nothing in the store. */
  fenced: number;
  /** When the next task may be due, Unix milliseconds. Null: no task is waiting for a time. */
  nextAt: number | null;
  /** The number of strict tasks that wait for the watermark. */
  unproven: number;
  /** The number of the last event for which the handler of `missed` has its tasks. Null: it has caught up. */
  behind: number | null;
}

export interface PendingEvents {
  /** The number of the last event whose tasks were made. */
  from: number;
  watermark: Cursor | null;
  birth: Birth;
  events: StoredEvent[];
  /** Events that a later arrival showed to be no history (not from before the store was created), in cursor order. */
  decided: StoredEvent[];
}

/** How far a rerun has come: a cursor, and the number of an event for the events without a cursor of their own. */
export interface RerunAt {
  cursor: bigint;
  event: number;
}

export interface RerunPage {
  id: number;
  handler: number;
  from: RerunAt;
  upTo: RerunAt;
  /** The rerun ends with this page. */
  last: boolean;
  /** Events in cursor order. Then come events that have no cursor, or whose cursor belongs to another stored event. */
  events: StoredEvent[];
  /** The number of events that are left out because their bodies were purged. */
  purged: number;
}

/**
 * The open transaction of `ctx.complete` or `setup`. A failed statement ends it, even if the error is caught. Integers
 * that a number cannot hold exactly are bigints.
 */
export interface Tx {
  /** Which SQL the statements are in. */
  readonly dialect: 'sqlite' | 'postgres';
  run(sql: string, ...values: SqlValue[]): Promise<{ changes: number }>;
  get(sql: string, ...values: SqlValue[]): Promise<SqlRow | undefined>;
  all(sql: string, ...values: SqlValue[]): Promise<SqlRow[]>;
}

/** Writes in an open transaction. It may await nothing but the transaction. */
export type Work = (tx: Tx) => unknown;

/** A step of a handler's `setup` that has run. `step`: its number, from 1. `digest`: of its text, see run/steps.ts. */
export type SetupStep = { handler: string; step: number; digest: string };

export type SqlRow = Record<string, SqlValue>;

export type SqlValue = null | number | bigint | string | Uint8Array;

export interface WorkStore {
  /**
   * Makes these handlers the loaded ones and returns their ids by name. A new handler starts at the current event. If a
   * handler's file is broken, or an instance of a PostgreSQL store had the handler within the last hour, it keeps its
   * position, and when it is back, gets the tasks that it missed. So call it again from time to time.
   */
  register(names: string[], files?: HandlerFiles): Promise<Map<string, number>>;
  idsOf(names: string[]): Promise<Map<string, number>>;
  /** Ids of loaded handlers that catch up on missed events, each with the last event for which it has its tasks. */
  behind(): Promise<Map<number, number>>;
  /** Events that a handler has missed: numbered above `after`, up to `upTo`. */
  missed(after: number, upTo: number, limit: number): Promise<StoredEvent[]>;
  /** Events that turned out not to be history while this handler's file was broken. It still lacks their tasks. */
  owed(handler: number, limit: number): Promise<StoredEvent[]>;
  /** Runs the set-up of a handler in one transaction. A step is remembered in it, and does not run if it has run before. */
  setup(work: Work, step?: SetupStep & { now: number }): Promise<void>;
  /** The steps that have run, in order. */
  steps(): Promise<SetupStep[]>;
  /** The next events whose tasks are still to be made, in order of arrival. */
  pending(limit: number): Promise<PendingEvents>;
  /**
   * The next page of a rerun for one of these handlers. Null: no rerun is open, or `limit` of its tasks are still
   * untried.
   */
  rerun(handlers: number[], limit: number): Promise<RerunPage | null>;
  /**
   * One transaction: settles the attempts that ended, makes tasks of new events, and claims due tasks. Each lane runs
   * one task at a time, in cursor order.
   */
  turn(turn: Turn): Promise<TurnResult>;
  /** The wall clock was set by `ms` milliseconds. Every task waits as long as it would have without the step. */
  clockStepped(ms: number, now: number): Promise<void>;
  /** The wall clock when `run` was last alive, Unix milliseconds. Null: never. */
  seenAt(): Promise<number | null>;
  /** Claims the next isolated task. It runs alone in a new process, because its last process died. */
  claimIsolated(now: number, boot: number, handlers: number[]): Promise<Claim | undefined>;
  /** Commits a note of the task, synced. False: the claim is gone, and nothing was written. */
  noteTask(claim: Claim, name: string, value: string, now: number): Promise<boolean>;
  /** The rows of one `select`, from a snapshot of the store. */
  read(sql: string, values: SqlValue[]): Promise<SqlRow[]>;
  /** Commits the user's writes and the task's completion together, synced, or neither. False: the claim is gone. */
  complete(claim: Claim, now: number, work: Work): Promise<boolean>;
}
