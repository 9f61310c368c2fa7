// What people and programs may look at. Every answer is bounded, and none counts a table.
import type { Cursor } from '../wire/cursor.ts';
import type { Origin, Unreadable } from '../wire/event.ts';
import type { Failures, Refusal, ReplayState, StreamState } from './keep.ts';
import type { Role } from './processes.ts';
import type { RerunAt, ShownState, StoredEvent, TaskState } from './work.ts';

export interface Alarm {
  name: string;
  since: string;
  detail: string;
}

export interface Status {
  events: number;
  unassigned: number;
  /** Of which nobody knows yet whether they existed before this store; they wait, in no lane. */
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
  failures: Omit<Failures, 'lastGoodAt'>;
  lastDeliveryAt: string | null;
  /** In the order of WEBHOOK_SECRET, numbered from 1; `mayGo`: another signs in its place. */
  secrets: { number: number; hits: number; lastAt: string | null; mayGo: boolean }[];
  alarms: Alarm[];
  processes: Record<Role, 'up' | 'down'>;
}

export interface EventFilter {
  type?: string | undefined;
  session?: string | undefined;
  /** Of any of its tasks. */
  state?: ShownState | undefined;
  /** That another arrival contradicts. */
  contradicted?: boolean | undefined;
  origin?: Origin | undefined;
  /** One that has a task of it. With `state`: in that state. */
  handler?: string | undefined;
  /** Received from then on, and before then; Unix milliseconds. */
  since?: number | undefined;
  until?: number | undefined;
  /** An id, key or cursor; else the `message_id` in the data, looked for among some thousand events a page. */
  q?: string | undefined;
  before?: number | undefined;
  limit: number;
}

export interface TaskFilter {
  ids?: number[] | undefined;
  state?: ShownState | undefined;
  handler?: string | undefined;
  /** Dead of one cause: DeadGroup.id. */
  group?: number | undefined;
  before?: number | undefined;
  limit?: number | undefined;
}

export interface ShownEvent extends Omit<StoredEvent, 'text'> {
  copies: number;
  flags: string;
  bytes: number | null;
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

/** Kept of tasks that did not end at their first attempt: the last ten. `error` is its beginning. */
export interface ShownAttempt {
  task: number;
  /** 0 where a person retried it. */
  attempt: number;
  startedAt: string;
  endedAt: string;
  /** What the task became; ready: tried again. */
  state: TaskState | 'retried';
  error: string | null;
}

/** A first delivery or a duplicate. The secret is the position in WEBHOOK_SECRET then; seconds from signing to receipt. */
export interface ShownDelivery {
  at: string;
  secret: number | null;
  skewSeconds: number | null;
}

/** Dead letters of one handler whose errors differ in numbers, ids and quotes alone. */
export interface DeadGroup {
  id: number;
  handler: string;
  dead: number;
  /** Since the group was last empty. */
  firstAt: string;
  lastAt: string;
  /** A sample: its task, its event's key and its error; and what is common to all. */
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
  /** The handler that completed it, or a person's reason. */
  closedBy: string | null;
}

/** What an origin brought first in a week, of one type. */
export interface Arrivals {
  /** Its Monday, `YYYY-MM-DD`. */
  week: string;
  type: string;
  origin: Origin;
  events: number;
  /** From happening to receipt, where that is known: on average, and the worst. Milliseconds. */
  lateMs: number | null;
  latestMs: number | null;
}

/** Both ends belong to it. Events without a cursor have the cursor -1. */
export interface Range {
  fromCursor: bigint;
  toCursor: bigint;
  /** By number. */
  fromEvent: number;
  toEvent: number;
}

/** A cursor, or a time in Unix milliseconds. */
export type Point = Cursor | number;

export interface Survey {
  types: { type: string; events: number; purged: number }[];
  /** Where to go on; null at the end. */
  next: RerunAt | null;
}

export interface Rerun {
  id: number;
  handler: string;
  type: string | null;
  /** As they were asked. */
  from: string;
  to: string | null;
  state: 'running' | 'ended' | 'cancelled';
  askedAt: string;
  /** How many there were when it was asked, and how many of them it has gone through. */
  events: number;
  seen: number;
  /** Of these: made tasks of; left alone, for they waited already; left out, for their bodies are gone. */
  made: number;
  kept: number;
  purged: number;
  /** Of its tasks: not yet tried; failed, and to be tried again. */
  untried: number;
  retrying: number;
}

/** Counters as they stood, Unix milliseconds. */
export interface Sample {
  at: number;
  accepted: number;
  duplicates: number;
  refused: number;
  quarantined: number;
  handled: number;
  /** In the order of ACK_LE_MS. */
  acks: number[];
}

export interface SampleStore {
  /** Keeps the counters as they stand, for the page's figures over time. */
  sample(now: number): Promise<void>;
  /** From oldest to newest, the last of each step. */
  samples(from: number, to: number, stepMs: number): Promise<Sample[]>;
}

/** Of one event, so many contradictions are shown. */
export const CONFLICTS = 100;

/** An arrival that contradicted an event: what it called itself, and wherein they differ. */
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
  /** Counted up to a bound; `more` where there are more. */
  waiting: number;
  more: boolean;
  /** The one that the others wait for. */
  head: { key: string; attempts: number; error: string | null };
}

export type Quarantined = Omit<Unreadable, 'body' | 'sentByKit'> & { id: number; receivedAt: string; bytes: number };

export interface ReadStore {
  status(now: number): Promise<Status>;
  /** Newest first; `next` is the `before` of the following page, null at the end. */
  events(filter: EventFilter, now: number): Promise<{ events: ShownEvent[]; next: number | null }>;
  /** By key, id or cursor. */
  event(
    name: string,
    now: number,
  ): Promise<
    | {
        event: ShownEvent;
        /** When each further origin brought it for the first time. */
        sightings: { origin: Origin; at: string }[];
        /** The first, up to seven duplicates, and the last of `copies`. */
        deliveries: ShownDelivery[];
        aliases: string[];
        /** The first of them, in the order of time: CONFLICTS at the most. */
        conflicts: ShownConflict[];
        tasks: ShownTask[];
        attempts: ShownAttempt[];
      }
    | undefined
  >;
  /** Up to three tasks before and behind this one in its lane, by cursor, among the thousand events on each side. */
  neighbours(task: number, now: number): Promise<{ earlier: ShownTask[]; later: ShownTask[] }>;
  /** Dead letters by cause, the largest groups first; `dead`: how many match in all. */
  groups(filter: {
    handler?: string | undefined;
    id?: number | undefined;
    limit: number;
  }): Promise<{ dead: number; groups: DeadGroup[] }>;
  /** What `conflicts` of this event brought, as it came. */
  contradictions(name: string): Promise<{ at: string; body: Uint8Array }[]>;
  /** The bytes of an event as they came, by key, id or cursor; null where it is unknown or they were purged. */
  body(name: string): Promise<Uint8Array | null>;
  tasks(filter: TaskFilter, now: number): Promise<{ tasks: ShownTask[]; next: number | null }>;
  quarantine(limit: number): Promise<Quarantined[]>;
  /** With its bytes, as they came. */
  quarantined(id: number): Promise<(Quarantined & { body: Uint8Array }) | undefined>;
  /** The last refusals by cause, newest first. */
  refusals(): Promise<Record<string, Refusal[]>>;
  /** The lanes with the most waiting tasks, among the first thousand in which any waits. */
  waitingLanes(limit: number): Promise<WaitingLane[]>;
  gaps(): Promise<Gap[]>;
  /** Newest week first. */
  arrivals(): Promise<Arrivals[]>;
  counters(): Promise<Record<string, number>>;
  handlers(): Promise<{ name: string; loaded: boolean }[]>;
  /** What has become tasks so far, from a cursor or a time of receipt on, up to a cursor or to before a time. */
  range(from: Point, to: Point | null): Promise<Range>;
  /** What a rerun would go through, page by page. */
  survey(range: Range, type: string | null, at: RerunAt | null, limit: number): Promise<Survey>;
  /** Newest first. */
  reruns(limit: number): Promise<Rerun[]>;
}
