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
  /** The body as text; null if it was purged. */
  text: string | null;
}

export interface NewTask {
  event: number;
  handler: number;
  /** The lane's name. Null: the task runs as soon as there is room. */
  lane: string | null;
  cursor: Cursor | null;
  /** The task is held until then, Unix milliseconds. A strict task ignores it. */
  releaseAt: number;
  /**
   * The task is held until the watermark has passed its cursor, or until two reads of replay have looked for it in
   * vain.
   */
  strict?: boolean;
  /** The rerun that asked for the task; it has a lane of its own. */
  rerun?: number;
}

export interface Claim {
  task: number;
  handler: number;
  event: StoredEvent;
  lane: number | null;
  /** The task waits for no other: it has no lane, or it has stepped aside. */
  alone: boolean;
  /** 0: the task was made when its event arrived. */
  rerun: number;
  /** From 1; counted when the task is claimed. */
  attempt: number;
  boot: number;
  late: boolean;
  /** The strict task was released although the watermark has not passed its cursor. */
  unproven: boolean;
  startedAt: number;
  deferredMs: number;
  /** Why the last attempt failed. */
  error: string | null;
}

/** The files that handlers come from. A broken file could not be loaded or set up. */
export interface HandlerFiles {
  /** By the handler's name. */
  of: Map<string, string>;
  broken: string[];
}

/** `spent: false` gives the attempt back. */
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
  /** New tasks of the events up to `upTo`. Refused as a whole if another process has gone on from `from`. */
  fanOut: FanOutPage | null;
  /**
   * New tasks for a handler that was missing. With `joins` the handler has caught up, and `fanOut` holds its tasks
   * too. `owed`: events among them that `WorkStore.owed` returned.
   */
  missed?: { handler: number; from: number; upTo: number; joins: boolean; tasks: NewTask[]; owed?: number[] } | null;
  /** New tasks of one page of a rerun. Refused as a whole if the rerun was cancelled or another process has gone on. */
  rerun?: { page: RerunPage; tasks: NewTask[] } | null;
  /** How many tasks to claim for these handlers. Tasks of reruns come last. */
  room: number;
  handlers: number[];
  /** The maximum for a handler that is named here. `nextAt` leaves out handlers that have used theirs up. */
  limits?: Map<number, number>;
  /** The maximum for reruns; default: as many as there is room for. `nextAt` leaves reruns out if it is used up. */
  reruns?: number;
}

export interface FanOutPage {
  from: number;
  upTo: number;
  tasks: NewTask[];
  /** Events of this page that may be history: it is not known yet. */
  undecided?: { event: number; cursor: Cursor }[];
  /** Earlier undecided events that are not history. Their tasks are among `tasks`. */
  decided?: number[];
}

export interface TurnResult {
  claims: Claim[];
  /** Settlements whose claim no longer held. They changed nothing in the store. */
  fenced: number;
  /** When the next task may be due, Unix milliseconds. Null: no task is waiting for a time. */
  nextAt: number | null;
  /** Strict tasks that wait for the watermark. */
  unproven: number;
  /** The handler of `missed` has its tasks up to this event. Null: it has caught up. */
  behind: number | null;
}

export interface PendingEvents {
  /** The last event whose tasks were made. */
  from: number;
  watermark: Cursor | null;
  birth: Birth;
  events: StoredEvent[];
  /** Events that were undecided and are not history, in cursor order. */
  decided: StoredEvent[];
}

/** The position of a rerun: one among the cursors, one among events without a place in cursor order. */
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
  /** In cursor order, then events without a place in it. */
  events: StoredEvent[];
  /** Events left out because their bodies were purged. */
  purged: number;
}

/** Synchronous access to the same file, for `ctx.complete` and `setup`. */
export interface Tx {
  run(sql: string, ...values: SqlValue[]): { changes: number };
  get(sql: string, ...values: SqlValue[]): SqlRow | undefined;
  all(sql: string, ...values: SqlValue[]): SqlRow[];
}

export type SqlRow = Record<string, SqlValue>;

export type SqlValue = null | number | bigint | string | Uint8Array;

export interface WorkStore {
  /**
   * Makes these handlers the loaded ones and returns their ids by name. A new handler starts at the current event. A
   * handler with a broken file keeps its place and gets its tasks when it is back.
   */
  register(names: string[], files?: HandlerFiles): Promise<Map<string, number>>;
  /** Ids of known handlers, by name. */
  idsOf(names: string[]): Promise<Map<string, number>>;
  /** Handlers that wait or catch up, each with the last event that it has its task of. */
  behind(): Promise<Map<number, number>>;
  /** Events that a handler has missed: behind `after`, up to `upTo`. */
  missed(after: number, upTo: number, limit: number): Promise<StoredEvent[]>;
  /** Events below those: they turned out to be new, and not history, while the handler's file was broken. */
  owed(handler: number, limit: number): Promise<StoredEvent[]>;
  /** Runs each handler's set-up in one transaction. */
  setup(work: (tx: Tx) => void): Promise<void>;
  /** Events without tasks, in order of arrival. */
  pending(limit: number): Promise<PendingEvents>;
  /**
   * The next page of a rerun for one of these handlers. Null: no rerun is open, or `limit` of its tasks are still
   * untried.
   */
  rerun(handlers: number[], limit: number): Promise<RerunPage | null>;
  /**
   * One transaction: settle what ended, make tasks of what arrived, claim what is due. Each lane runs one task at a
   * time, in cursor order.
   */
  turn(turn: Turn): Promise<TurnResult>;
  /** The wall clock was set by `ms` milliseconds. Every task waits as long as it would have without the step. */
  clockStepped(ms: number, now: number): Promise<void>;
  /** The last time that `run` has noted, Unix milliseconds. Null: never. */
  seenAt(): Promise<number | null>;
  /** The next isolated task: its process died, so it runs alone in a process of its own. */
  claimIsolated(now: number, boot: number, handlers: number[]): Promise<Claim | undefined>;
  /** Commits the user's writes and the task's completion together, synced, or neither. False: the claim is gone. */
  complete(claim: Claim, now: number, work: (tx: Tx) => void): Promise<boolean>;
}
