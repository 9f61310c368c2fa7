// What people and programs see of the store.
import type { Cursor } from '../wire/cursor.ts';
import type { Origin, Unreadable } from '../wire/event.ts';
import type { Failures, ReplayState, StreamState } from './keep.ts';
import type { Instance, Role } from './processes.ts';
import type { RerunAt, ShownState, StoredEvent, TaskState } from './work.ts';

export interface Alarm {
  name: string;
  since: string;
  detail: string;
}

export interface Status {
  events: number;
  unassigned: number;
  /** Events that may still turn out to be history. Until then, handlers without `history` get no task of them. */
  undecided: number;
  duplicates: number;
  quarantined: number;
  conflicts: number;
  tasks: Record<ShownState, number>;
  oldestReadySeconds: number | null;
  watermark: Cursor | null;
  floor: Cursor | null;
  newestCursor: Cursor | null;
  reconcile: ReplayState & { recovered: number };
  stream: StreamState;
  gaps: number;
  failureRun: number;
  failures: Omit<Failures, 'lastGoodAt' | 'at'>;
  lastDeliveryAt: string | null;
  /** In the order of WEBHOOK_SECRET, numbered from 1. `mayGo`: safe to remove, as another secret signs in its place. */
  secrets: { number: number; hits: number; lastAt: string | null; mayGo: boolean }[];
  alarms: Alarm[];
  /** Up: at least one process of this role gives signs of life, in any instance. */
  processes: Record<Role, 'up' | 'down'>;
  /** The instances that share the store, also those lost within a day. Empty: the store is a file. */
  instances: Instance[];
  /** Handlers that are not loaded, but keep their place: their events since then wait. ISO 8601. */
  waiting: { handler: string; since: string }[];
  /** An SQLite store is being copied into this one, and handlers pause. Null: not now. */
  moving: Moving | null;
  /** The names of the handlers that are paused; `*`: every handler. */
  paused: string[];
}

export interface EventFilter {
  type?: string | undefined;
  session?: string | undefined;
  /** The state of at least one task of the event. */
  state?: ShownState | undefined;
  /** True: only events that a later arrival contradicts. */
  contradicted?: boolean | undefined;
  /** Webhooks alone brought it: neither replay nor the stream has shown it. */
  unseen?: boolean | undefined;
  origin?: Origin | undefined;
  /** The event has a task of this handler; with `state`, in that state. */
  handler?: string | undefined;
  /** The time of receipt: from `since` on, and before `until`. Unix milliseconds. */
  since?: number | undefined;
  until?: number | undefined;
  /** An id, key or cursor; otherwise a `message_id` in the data. Each page searches a few thousand events. */
  q?: string | undefined;
  before?: number | undefined;
  limit: number;
}

export interface TaskFilter {
  ids?: number[] | undefined;
  /** `done` needs `ids`: a done task runs again only if somebody names it. `waiting`: ready or held. */
  state?: ShownState | 'waiting' | undefined;
  handler?: string | undefined;
  /** Dead letters of this group: DeadGroup.id. */
  group?: number | undefined;
  /** Only tasks that have not changed between this time, Unix milliseconds, and now. */
  changedBy?: number | undefined;
  /** Only tasks of events received before this time, Unix milliseconds. */
  receivedBefore?: number | undefined;
  before?: number | undefined;
  limit?: number | undefined;
}

export interface ShownEvent extends Omit<StoredEvent, 'text'> {
  copies: number;
  flags: string;
  bytes: number | null;
}

/** An event of a list, with the state of each of its tasks. */
export interface ListedEvent extends ShownEvent {
  outcomes: { handler: string; state: ShownState }[];
}

/** The pause of a handler. `all`: it stops every handler, also those that are loaded later. */
export interface Pause {
  /** ISO 8601. */
  since: string;
  reason: string | null;
  all: boolean;
}

/** What has been copied of a store that is moved. */
export interface MoveProgress {
  rows: number;
  of: number;
}

/** An SQLite store is being copied into this one. `since`: ISO 8601, when this was noted. */
export interface Moving extends MoveProgress {
  since: string;
}

/** The scheduled backups. */
export interface Backup {
  /** When the last attempt began, Unix milliseconds. */
  at: number;
  /** The newest verified copy: when it was begun, its path, and its size. Null: there is none. */
  verifiedAt: number | null;
  file: string | null;
  bytes: number | null;
  /** The attempts since then that failed, and why the last one did. */
  failures: number;
  error: string | null;
}

export interface HandlerFigures {
  name: string;
  /** False: no file of this name is loaded. */
  loaded: boolean;
  paused: Pause | null;
  /** Tasks that have not ended: held, ready or running. */
  waiting: number;
  /** Since the event of its oldest waiting task was received. Null: no task waits. */
  oldestSeconds: number | null;
  dead: number;
}

/** What one handler is busy with. Each list looks at a bounded number of tasks or lanes. */
export interface HandlerDetail {
  /** Waiting tasks whose last attempt failed, by error pattern, most first. */
  failing: { pattern: string; tasks: number; key: string; error: string }[];
  /** The ended tasks whose last attempt took longest. */
  slowest: { key: string; state: ShownState; tookMs: number; at: string }[];
  lanes: WaitingLane[];
}

/** Values that filters offer: of the newest events. */
export interface Offers {
  types: string[];
  sessions: string[];
  handlers: string[];
}

export interface ShownTask {
  id: number;
  key: string;
  type: string;
  sessionId: string | null;
  handler: string;
  lane: string | null;
  state: ShownState;
  attempts: number;
  late: boolean;
  dueAt: string;
  startedAt: string | null;
  finishedAt: string | null;
  error: string | null;
}

/** One attempt. The last ten are kept of each task that did not end at its first. `error` is cut short. */
export interface ShownAttempt {
  task: number;
  /** 0: a person retried the task. */
  attempt: number;
  startedAt: string;
  endedAt: string;
  /** The state of the task after the attempt; ready: it will be retried. */
  state: TaskState | 'retried';
  error: string | null;
}

/**
 * A first delivery, or a duplicate. `secret`: the position of the signing secret in WEBHOOK_SECRET at that time.
 * `skewSeconds`: from signing to receipt.
 */
export interface ShownDelivery {
  at: string;
  secret: number | null;
  skewSeconds: number | null;
}

/** Dead letters of one handler whose errors differ only in numbers, ids and quoted text. */
export interface DeadGroup {
  id: number;
  handler: string;
  dead: number;
  /** When the first of its tasks died since the group was last empty. */
  firstAt: string;
  lastAt: string;
  /** A sample task of the group, with its event's key and its error. `pattern`: what all errors of the group share. */
  task: number;
  key: string;
  error: string | null;
  pattern: string;
}

export interface Gap {
  id: number;
  after: Cursor;
  upTo: Cursor | null;
  reason: string;
  openedAt: string;
  closedAt: string | null;
  /** The handler that completed the gap event, or a person's reason. */
  closedBy: string | null;
}

/** The events of one type that one origin brought first in one week. */
export interface Arrivals {
  /** The Monday of the week, `YYYY-MM-DD`. */
  week: string;
  type: string;
  origin: Origin;
  events: number;
  /** The time from the event to its receipt, if known: mean and maximum, milliseconds. */
  lateMs: number | null;
  latestMs: number | null;
}

/** A range of events. Both ends are inclusive. Events without a cursor count as cursor -1. */
export interface Range {
  fromCursor: bigint;
  toCursor: bigint;
  /** Numbers of events. */
  fromEvent: number;
  toEvent: number;
}

/** A cursor, or a time in Unix milliseconds. */
export type Point = Cursor | number;

export interface Survey {
  types: { type: string; events: number; purged: number }[];
  /** Where to continue; null at the end. */
  next: RerunAt | null;
}

export interface Rerun {
  id: number;
  handler: string;
  type: string | null;
  /** The bounds, as the person typed them. */
  from: string;
  to: string | null;
  state: 'running' | 'ended' | 'cancelled';
  askedAt: string;
  /** How many events there were when the rerun was requested, and how many of them it has passed. */
  events: number;
  seen: number;
  /** Of the passed events: made into tasks; left alone, because their task waited or ran; left out, because purged. */
  made: number;
  kept: number;
  purged: number;
  /** Of the tasks made: without an attempt so far; waiting for a retry. */
  untried: number;
  retrying: number;
}

/** The counters at the time `at`, Unix milliseconds. */
export interface Sample {
  at: number;
  accepted: number;
  duplicates: number;
  refused: number;
  quarantined: number;
  handled: number;
  /** Answers in each latency bucket, in the order of `ACK_LE_MS`. */
  acks: number[];
  /** Attempts that ended a task as done or skipped, and attempts that failed. Absent in samples of an older kit. */
  succeeded?: number;
  failed?: number;
  /** Tasks that have not ended, and events without tasks yet. */
  waiting?: number;
  /** Age of the oldest ready task, seconds. Null: none. */
  oldestSeconds?: number | null;
  /** The number of the last start of `run`. It grows with each restart. */
  boot?: number;
  /** The names of the alarms that were raised. */
  alarms?: string[];
  handlers?: Record<string, HandlerSample>;
}

/** The counters of one handler. They only grow. */
export interface HandlerSample {
  succeeded: number;
  failed: number;
  /** Attempts in each latency bucket, in the order of `ACK_LE_MS`. */
  took: number[];
}

/** The maximum of contradictions shown for one event. */
export const CONFLICTS = 100;

/** An arrival that contradicted an event: its own id and cursor, and the difference. */
export interface ShownConflict {
  at: string;
  origin: Origin;
  id: string | null;
  cursor: Cursor | null;
  reason: string;
}

/** A lane in which tasks wait for each other. */
export interface WaitingLane {
  handler: string;
  lane: string;
  /** The number of waiting tasks, counted up to a bound. `more`: true if more than that wait. */
  waiting: number;
  more: boolean;
  /** The task that the others wait for. */
  head: { key: string; attempts: number; error: string | null };
}

/** The task that the others of its lane wait for, whose attempts have failed so far. */
export interface FailingHead {
  task: number;
  handler: string;
  key: string;
  /** Start of the first failed attempt that is still recorded, Unix milliseconds. */
  since: number;
  /** The number of tasks that wait behind it, counted up to a bound. */
  behind: number;
}

export type Quarantined = Omit<Unreadable, 'body' | 'sentByKit'> & { id: number; receivedAt: string; bytes: number };
