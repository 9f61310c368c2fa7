// What `run` needs of a store: what arrived becomes tasks, tasks are claimed in the order of their lanes, and end.
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
  /** 1: a live stream brought it, so it is as old as its receipt. */
  live: 0 | 1;
  /** The body as it was read; null once purged. */
  text: string | null;
}

export interface NewTask {
  event: number;
  handler: number;
  /** The lane's name; null runs whenever there is room. */
  lane: string | null;
  cursor: Cursor | null;
  /** Held until then, Unix milliseconds; a strict one goes by its proof alone. */
  releaseAt: number;
  /** Held until the watermark has passed its cursor, or replay has looked for it in vain (`searched`). */
  strict?: boolean;
  /** Made again, in a lane of that rerun's own. */
  rerun?: number;
}

export interface Claim {
  task: number;
  handler: number;
  event: StoredEvent;
  lane: number | null;
  /** It waits for no other: it is in no lane, or has stepped aside. */
  alone: boolean;
  /** 0: its event has just come. */
  rerun: number;
  /** From 1; counted when claimed. */
  attempt: number;
  boot: number;
  late: boolean;
  /** Strict, and released though the watermark has not passed its cursor. */
  unproven: boolean;
  startedAt: number;
  deferredMs: number;
  /** Why the last attempt failed. */
  error: string | null;
}

/** Where handlers come from; a broken file is one that could not be loaded or set up. */
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
      /** How long the failing task may hold its lane, from its first failure; null where it did not fail. */
      holdMs: number | null;
      deferredMs?: number;
    }
);

export interface Turn {
  now: number;
  boot: number;
  settle: Settlement[];
  /** New tasks of the events up to `upTo`; refused as a whole when another process has gone on from `from`. */
  assign: Assignment | null;
  /**
   * New tasks of events up to `upTo` for a handler that waited. With `joins` it is as far as the others, and `assign` holds
   * its tasks too.
   */
  missed?: { handler: number; from: number; upTo: number; joins: boolean; tasks: NewTask[] } | null;
  /** New tasks of a page of a rerun; refused as a whole when it was cancelled, or another process has gone on. */
  rerun?: { page: RerunPage; tasks: NewTask[] } | null;
  /** How many tasks to claim, of these handlers: those of reruns last. */
  room: number;
  handlers: number[];
  /** At the most so many of a handler that is named here; `nextAt` leaves out those that have used it up. */
  limits?: Map<number, number>;
  /** At the most so many of reruns; as many as there is room for. `nextAt` leaves them out when that is used up. */
  reruns?: number;
}

export interface Assignment {
  from: number;
  upTo: number;
  tasks: NewTask[];
  /** Events among these of which nobody knows yet whether they are history. */
  undecided?: { event: number; cursor: Cursor }[];
  /** Earlier ones that have turned out to be none: their tasks are among these. */
  decided?: number[];
}

export interface TurnResult {
  claims: Claim[];
  /** Settlements whose claim no longer held: their effect on the store is nil. */
  fenced: number;
  /** When a task may next be due, Unix milliseconds; null: when one is assigned. */
  nextAt: number | null;
  /** Strict tasks that wait for proof. */
  unproven: number;
  /** Up to which event the handler of `missed` has its tasks now; null: it has joined the others. */
  behind: number | null;
}

export interface Unassigned {
  /** The last event that tasks were made of. */
  from: number;
  watermark: Cursor | null;
  birth: Birth;
  events: StoredEvent[];
  /** Undecided before, and no history: in the order of their cursors. */
  decided: StoredEvent[];
}

/** How far a rerun has come: by cursor, and among the events without a place in the order of cursors. */
export interface RerunAt {
  cursor: bigint;
  event: number;
}

export interface RerunPage {
  id: number;
  handler: number;
  from: RerunAt;
  upTo: RerunAt;
  /** There is nothing behind it. */
  last: boolean;
  /** In the order of their cursors, then those without a place. */
  events: StoredEvent[];
  /** Left out: their bodies are gone. */
  purged: number;
}

/** What `ctx.complete` and `setup` may do to the same file, synchronously. */
export interface Tx {
  run(sql: string, ...values: SqlValue[]): { changes: number };
  get(sql: string, ...values: SqlValue[]): SqlRow | undefined;
  all(sql: string, ...values: SqlValue[]): SqlRow[];
}

export type SqlRow = Record<string, SqlValue>;

export type SqlValue = null | number | bigint | string | Uint8Array;

export interface WorkStore {
  /**
   * Ids of the handlers by name: these are loaded, and no others. A name that is new begins now; one whose file is broken
   * waits, and has its tasks made when it is back.
   */
  register(names: string[], files?: HandlerFiles): Promise<Map<string, number>>;
  /** Of those that are known. */
  idsOf(names: string[]): Promise<Map<string, number>>;
  /** Handlers that wait or catch up, and the last event that each has its tasks of. */
  behind(): Promise<Map<number, number>>;
  /** Events that a handler has missed: behind `after`, up to `upTo`. */
  missed(after: number, upTo: number, limit: number): Promise<StoredEvent[]>;
  /** Runs each handler's set-up in one transaction. */
  setup(work: (tx: Tx) => void): Promise<void>;
  /** Events that no task was made of yet, in order of arrival. */
  unassigned(limit: number): Promise<Unassigned>;
  /** Of a rerun for one of these handlers: null where none is open, or `limit` of its tasks wait untried. */
  rerun(handlers: number[], limit: number): Promise<RerunPage | null>;
  /** What ended is settled, what arrived becomes tasks, what is due is claimed: lanes in cursor order, one at a time. */
  turn(turn: Turn): Promise<TurnResult>;
  /** The wall clock was set by so many milliseconds: what waits for a time waits for it as long as before. */
  clockStepped(ms: number, now: number): Promise<void>;
  /** The last time that `run` has noted, Unix milliseconds; null: none. */
  seenAt(): Promise<number | null>;
  /** The next task whose process died under it, for a process of its own. */
  claimIsolated(now: number, boot: number, handlers: number[]): Promise<Claim | undefined>;
  /** Commits the user's writes together with the task's completion, synced, or neither. False: the claim is gone. */
  complete(claim: Claim, now: number, work: (tx: Tx) => void): Promise<boolean>;
}
