// What `run` asks of a store: events become tasks, tasks are claimed lane by lane, and settled.
import type { Cursor } from '../wire/cursor.ts';
import type { Origin } from '../wire/event.ts';

export interface StoredEvent {
  seq: number;
  cursor: Cursor | null;
  id: string | null;
  type: string;
  session: string | null;
  createdAt: number | null;
  receivedAt: number;
  /** How the event first arrived. */
  origin: Origin;
  /** Null: the event was erased. */
  body: string | null;
}

export type HandlerState = 'loaded' | 'broken' | 'missing';

export interface HandlerRow {
  id: number;
  name: string;
  /** The `seq` of the last event that the handler has taken up. */
  position: number;
  paused: boolean;
}

export type Order = 'arrival' | 'window' | 'strict';

/** What a turn needs to know, as one snapshot. */
export interface Look {
  watermark: Cursor | null;
  newest: number;
  handlers: HandlerRow[];
  /** By position: the events after it, at most 256 and about 1 MiB. `upTo`: the position once they are taken up. */
  pages: Map<number, { events: StoredEvent[]; upTo: number }>;
}

export interface NewTask {
  handler: number;
  event: number;
  cursor: Cursor | null;
  receivedAt: number;
  /** The lane's name. Null: the task has a lane of its own. */
  lane: string | null;
  /** Why the task is dead at once: the handler's lane function failed. */
  dead?: string;
}

export type FanOut = { handler: number; from: number; upTo: number; tasks: NewTask[] };

export interface Room {
  handler: number;
  order: Order;
  windowMs: number;
  /** How many tasks the handler can take now: of one lane (`chain`), and in all (`tasks`). */
  chain: number;
  tasks: number;
}

export interface Claimed {
  event: number;
  /** `attempts`: those that were spent. `crashes`: the sum of the weights of its process's deaths. */
  attempts: number;
  crashes: number;
  failedAt: number | null;
  late: boolean;
  /** JSON values by name. */
  notes: Record<string, unknown>;
}

/** Identifies a claim, which holds while the lane's row has this boot and this claim number. */
export type Hold = Record<'lane' | 'boot' | 'claim', number>;

export interface Claim extends Hold {
  handler: number;
  tasks: Claimed[];
}

export type Outcome = { event: number; error: string | null } & (
  | { as: 'done' | 'skipped' | 'dead' }
  /** `spent`: the attempt counts. `aside`: the next try is after `laneHoldMs`, so the task gives up its lane. */
  | { as: 'again'; dueAt: number; spent: boolean; aside: boolean }
  /** `ctx.complete` has already written this outcome. */
  | { as: 'completed' }
);

export interface Ended {
  claim: Claim;
  outcomes: Outcome[];
  /** The chain is over: its other tasks wait again. */
  free: boolean;
}

export interface Turn {
  boot: number;
  look: Look;
  ended: Ended[];
  fanOut: FanOut[];
  rooms: Room[];
  /** The next claim's number. */
  claim: number;
  /** True: claims at most one task, one whose process died. */
  suspects: boolean;
}

export interface TurnResult {
  claims: Claim[];
  /** There is work for another turn at once. */
  more: boolean;
  /** When the next lane will be due. Null: no lane has a due time in the future. */
  nextAt: number | null;
  /** The number of outcomes whose claim no longer held. They changed nothing. */
  fenced: number;
  /** How many events were ever erased. If the number has grown, a body that is kept in memory may be erased by now. */
  erased: number;
  /** How many processes for suspects must run. */
  suspects: number;
  /** Handlers that claimed fewer tasks than they had room for. */
  spare: number[];
  /** Strict tasks wait for the watermark. */
  held: boolean;
}

/**
 * The open transaction of `ctx.complete` or `setup`. If a statement fails, all is rolled back, even if the error is
 * caught. Integers that a number cannot hold exactly are bigints.
 */
export interface Tx {
  /** Which SQL this store understands. On both, each `?` is a value. */
  readonly dialect: 'sqlite' | 'postgres';
  run(sql: string, ...values: SqlValue[]): Promise<{ changes: number }>;
  get(sql: string, ...values: SqlValue[]): Promise<SqlRow | undefined>;
  all(sql: string, ...values: SqlValue[]): Promise<SqlRow[]>;
}

/** Writes in an open transaction. It may await nothing but the transaction. */
export type Work = (tx: Tx) => unknown;
export type SqlRow = Record<string, SqlValue>;
export type SqlValue = null | number | bigint | string | Uint8Array;

/** A step of `setup` that changes a large table may be one statement, which may take this long. */
export const LONGEST_STEP_MS = 600_000;

export interface HandlerFile {
  name: string;
  file: string;
  /** Why the file is left out. Null: its handler is loaded. */
  fault: string | null;
}

/** The role of a process that runs handlers: the live one, or one of the slots for suspects. */
export type Role = 'live' | `suspect-${number}`;

export interface WorkStore {
  /**
   * Takes the role. If the role's last process died, the tasks that it was running become suspects or dead.
   * `restart`: only that process died. Otherwise the whole kit did, and the same holds for all its roles.
   */
  begin(role: Role, restart: boolean): Promise<{ boot: number; suspects: number; dead: number }>;
  /** Frees the lanes that a boot still holds, when its process ends. */
  end(boot: number): Promise<void>;
  /**
   * Registers the handlers of these files, loaded or broken in the process of `boot`. A new one begins after `newest`,
   * the first ones of a store with its first event. Resolves with the ids of those that are loaded, by name.
   */
  register(files: HandlerFile[], newest: number, boot?: number): Promise<Map<string, number>>;
  /** All handlers that are loaded, and the pages of events for `handlers`. */
  look(handlers: number[]): Promise<Look>;
  turn(turn: Turn): Promise<TurnResult>;
  /** Events of claimed tasks. */
  events(seqs: number[]): Promise<StoredEvent[]>;
  /** Commits a note of a claimed task, synced. False: the claim is gone, or the task has ended. */
  note(hold: Hold, task: { event: number; handler: number }, name: string, json: string): Promise<boolean>;
  /** Commits the user's writes and the task's completion together, synced, or neither. False: the claim is gone. */
  complete(hold: Hold, task: { event: number; handler: number }, work: Work): Promise<boolean>;
  /** The rows of one `select`, from a snapshot. */
  read(sql: string, values: SqlValue[]): Promise<SqlRow[]>;
  /** The steps that have run, in order: digests of their text. */
  steps(handler: string): Promise<string[]>;
  /** Runs a set-up. A `step` (numbered from 1) is remembered in the same transaction, and never runs again. */
  setup(handler: string, work: Work, step?: { number: number; digest: string }): Promise<void>;
}
