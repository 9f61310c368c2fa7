// What `run` asks of a store: events become tasks, tasks are claimed in the order of their lanes, and settled.
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
  /** The first one. */
  origin: Origin;
  /** Null: it was erased. */
  body: string | null;
}

export type HandlerState = 'loaded' | 'broken' | 'missing';

export interface HandlerRow {
  id: number;
  name: string;
  /** The `seq` of the last event that it has taken up. */
  position: number;
  paused: boolean;
}

export type Order = 'arrival' | 'window' | 'strict';

/** What a turn needs to know, as one snapshot. */
export interface Look {
  watermark: Cursor | null;
  newest: number;
  handlers: HandlerRow[];
  /** By position: the events that follow it, at most 256 of them and about 1 MiB, and where the position moves then. */
  pages: Map<number, { events: StoredEvent[]; upTo: number }>;
}

export interface NewTask {
  handler: number;
  event: number;
  cursor: Cursor | null;
  receivedAt: number;
  /** The lane's name. Null: the task has a lane of its own. */
  lane: string | null;
  /** Why it is dead at once: the handler's function failed. */
  dead?: string;
}

export interface FanOut {
  handler: number;
  from: number;
  upTo: number;
  tasks: NewTask[];
}

export interface Room {
  handler: number;
  order: Order;
  windowMs: number;
  /** Tasks of a lane, and tasks in all, that the handler can take now. 0: none. */
  chain: number;
  tasks: number;
}

export interface Claimed {
  event: number;
  /** Failures that count, and deaths of its process. */
  attempts: number;
  crashes: number;
  failedAt: number | null;
  late: boolean;
  /** JSON by name. */
  notes: Record<string, unknown>;
}

/** The fence of a claim: it holds while the lane has this boot and this number. */
export interface Hold {
  lane: number;
  boot: number;
  claim: number;
}

export interface Claim extends Hold {
  handler: number;
  tasks: Claimed[];
}

export type Outcome = { event: number; error: string | null } & (
  | { as: 'done' | 'skipped' | 'dead' }
  /** `spent`: the attempt counts. `aside`: the next try is later than the task may hold its lane. */
  | { as: 'again'; dueAt: number; spent: boolean; aside: boolean }
  /** By `ctx.complete`, already written. */
  | { as: 'completed' }
);

export interface Ended {
  claim: Claim;
  outcomes: Outcome[];
  /** The chain is over: what it left goes back. */
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
  /** True: claims one task whose process died, and nothing else. */
  suspects: boolean;
}

export interface TurnResult {
  claims: Claim[];
  /** Another turn has work at once. */
  more: boolean;
  /** When the next lane is due. Null: none waits for a time. */
  nextAt: number | null;
  /** Outcomes whose claim no longer held. They changed nothing. */
  fenced: number;
  /** Lanes that wait for a process of their own. */
  suspects: number;
  /** By handler: it took fewer tasks than it had room for. */
  spare: number[];
  /** Strict tasks wait for the watermark. */
  held: boolean;
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
export type SqlRow = Record<string, SqlValue>;
export type SqlValue = null | number | bigint | string | Uint8Array;

export interface HandlerFile {
  name: string;
  file: string;
  /** Null: it is loaded. */
  fault: string | null;
}

/** What a process that runs handlers is: the live one, or the one of a slot for suspects. */
export type Role = 'live' | `suspect-${number}`;

export interface WorkStore {
  /**
   * Takes the role, and judges what its dead predecessor had claimed. `restart`: only that process died. Otherwise the whole
   * kit did, and every role is judged.
   */
  begin(role: Role, restart: boolean): Promise<{ boot: number; suspects: number; dead: number }>;
  /** Ends a boot that has given everything back. */
  end(boot: number): Promise<void>;
  /** The handlers that there are. A new one begins after `newest`. Resolves with the ids by name. */
  register(files: HandlerFile[], newest: number): Promise<Map<string, number>>;
  /** All handlers that are loaded, and the pages for these. */
  look(handlers: number[]): Promise<Look>;
  turn(turn: Turn): Promise<TurnResult>;
  /** Events of claimed tasks. */
  events(seqs: number[]): Promise<StoredEvent[]>;
  /** Commits a note of a claimed task, synced. False: the claim is gone. */
  note(hold: Hold, task: { event: number; handler: number }, name: string, json: string): Promise<boolean>;
  /** Commits the user's writes and the task's completion together, synced, or neither. False: the claim is gone. */
  complete(hold: Hold, task: { event: number; handler: number }, work: Work): Promise<boolean>;
  /** The rows of one `select`, from a snapshot. */
  read(sql: string, values: SqlValue[]): Promise<SqlRow[]>;
  /** The steps that have run, in order: digests of their text. */
  steps(handler: string): Promise<string[]>;
  /** Runs a set-up. `step`, from 1, is remembered in the same transaction. */
  setup(handler: string, work: Work, step?: { number: number; digest: string }): Promise<void>;
}
