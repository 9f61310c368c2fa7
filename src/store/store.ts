// What any store promises. Each method is one transaction; all are awaited. Cursors are compared as integers.
// Receiving needs EventStore, `run` TaskStore, `keep` KeepStore, people WatchStore and MendStore, the main process OwnerStore.
import type { Cursor } from '../wire/cursor.ts';
import type { Origin, Reading, Unreadable } from '../wire/event.ts';

/** busy: locked elsewhere, try again. unwritable: try again, on a new connection. The rest need a person. */
export class StoreError extends Error {
  readonly code: 'busy' | 'unwritable' | 'missing' | 'newer' | 'owned';
  constructor(code: StoreError['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'StoreError';
    this.code = code;
  }
}

export type Verdict = 'new' | 'duplicate' | 'quarantined';
export interface Accepted {
  verdict: Verdict;
  /** What contradicts an event that was there before; recorded. */
  conflict?: string;
}

/**
 * Added up over the life of the store, but for `events`, `quarantined` and `tasks.*`, which count rows. `duplicates` are
 * deliveries; `reread` are items of replay or stream that were known, which is most of them.
 */
export type Counter =
  | 'events'
  | 'accepted'
  | 'duplicates'
  | 'reread'
  | 'quarantined'
  | 'conflicts'
  | 'recovered'
  | 'unseen'
  | 'regressions'
  | 'other_types'
  | 'replay_calls'
  | 'fenced'
  | 'run_crashes'
  | `lane_faults.${string}`
  | 'failure_runs'
  /** New events whose delivery says that earlier attempts failed; an unsigned header, so evidence alone. */
  | 'unseen_failures'
  | `tasks.${TaskState}`
  /** Done tasks that pruning has removed. */
  | 'pruned.done'
  | `ack.${string}`
  /** What became of attempts, by handler; one that was given back is none. */
  | `attempts.${'done' | 'skipped' | 'dead' | 'retry' | 'deferred'}.${string}`
  | `refused.${string}`;
export type Counts = Partial<Record<Counter, number>>;

export interface Batch {
  readings: Reading[];
  /** Unix milliseconds. */
  now: number;
  /** Replay has proved that nothing is missing up to here; committed with the events of its page. It never goes back. */
  watermark?: Cursor;
  /** Where that proof begins: at the first page, and behind a gap. */
  from?: Cursor;
  /** What replay and stream bring happened while deliveries could be taken: a webhook should have brought it before. */
  fresh?: boolean;
  /** A stretch that replay can no longer show; raised as a `kit.gap` event in the same transaction. */
  gap?: { after: Cursor; upTo: Cursor | null; reason: string };
  counts?: Counts;
  facts?: Partial<Record<Fact, FactValue>>;
}

export interface EventStore {
  /** Commits all, synced, before it resolves: one row an event, by the identity rules of the design. */
  accept(batch: Batch): Promise<Accepted[]>;
  /** Adds to counters and sets facts; also the probe of whether the store can be written. */
  note(counts: Counts, facts?: Partial<Record<Fact, FactValue>>): Promise<void>;
}

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
  /** The body as it was read; null once purged. */
  text: string | null;
}

export interface NewTask {
  event: number;
  handler: number;
  /** The lane's name; null runs whenever there is room. */
  lane: string | null;
  cursor: Cursor | null;
  /** Held until then, Unix milliseconds; a strict one: when its event was received. */
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
  assign: { from: number; upTo: number; tasks: NewTask[] } | null;
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

export interface TurnResult {
  claims: Claim[];
  /** Settlements whose claim no longer held: their effect on the store is nil. */
  fenced: number;
  /** When a task may next be due, Unix milliseconds; null: when one is assigned. */
  nextAt: number | null;
  /** Strict tasks that wait for proof. */
  unproven: number;
}

export interface Unassigned {
  /** The last event that tasks were made of. */
  from: number;
  watermark: Cursor | null;
  /** When this store was created, Unix milliseconds. */
  born: number;
  /** Up to here replay has fetched what was there before this store; null until it has. */
  history: Cursor | null;
  events: StoredEvent[];
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

export interface TaskStore {
  /** Ids of the handlers by name: these are loaded, and no others. A name that is new begins now. */
  register(names: string[]): Promise<Map<string, number>>;
  /** Runs each handler's set-up in one transaction. */
  setup(work: (tx: Tx) => void): Promise<void>;
  /** Events that no task was made of yet, in order of arrival. */
  unassigned(limit: number): Promise<Unassigned>;
  /** Of a rerun for one of these handlers: null where none is open, or `limit` of its tasks wait untried. */
  rerun(handlers: number[], limit: number): Promise<RerunPage | null>;
  /** What ended is settled, what arrived becomes tasks, what is due is claimed: lanes in cursor order, one at a time. */
  turn(turn: Turn): Promise<TurnResult>;
  /** The clock was set back by so many milliseconds: what waits for a time waits for it no longer than before. */
  setBack(ms: number, now: number): Promise<void>;
  /** The next task whose process died under it, for a process of its own. */
  claimSuspect(now: number, boot: number, handlers: number[]): Promise<Claim | undefined>;
  /** Commits the user's writes together with the task's completion, synced, or neither. False: the claim is gone. */
  complete(claim: Claim, now: number, work: (tx: Tx) => void): Promise<boolean>;
}

export type Fact =
  | 'watermark'
  | 'born'
  | 'history'
  | 'floor'
  | 'assigned'
  | 'runner'
  | 'boot'
  | 'replay'
  /** The last runs of reconciliation: JSON. */
  | 'replay_runs'
  /** Unix milliseconds: what was received before then, two complete reads of replay have looked for. */
  | 'searched'
  /** The cursor behind which replay has shown all that it can show. */
  | 'proved_from'
  /** The last event, by its number, that was looked up among what replay has shown. */
  | 'compared'
  /** What replay does not show: JSON. */
  | 'blind'
  | 'snapshots'
  | 'begins_at'
  | 'calls'
  /** The account of `npx kit verify`: JSON. */
  | 'verify'
  /** The stream, and why webhooks are silent: JSON. */
  | 'stream'
  | 'silence'
  /** Written by the main process, as JSON: Failures, and Signer[]. */
  | 'failures'
  | 'signers'
  /** The last refusals, by cause: JSON. */
  | 'refusals'
  | 'reconcile_asked'
  | 'failure_run'
  | 'held'
  | 'oldest'
  | 'erased';
export type FactValue = string | number | bigint | null;

export interface Failures {
  /** Of the present failure run. */
  causes: Record<string, number>;
  /** Deliveries with well-formed headers that no secret of ours signed, since the last good one. */
  badSignatures: number;
  /** The first and the last of them; the last stays when a good one has come. ISO 8601. */
  badSince: string | null;
  lastBadAt: string | null;
  /** The last delivery of the service that was answered with a 2xx. */
  lastGoodAt: string | null;
}

/** A delivery that was refused, by what its headers said: cut short, unsigned, a stranger's. Never its body. */
export interface Refusal {
  at: string;
  /** Of the five headers that each delivery carries (contract 6.3), besides its signature. */
  headers: number;
  /** How far its timestamp lay from our clock; null where it had none. */
  skewSeconds: number | null;
  agent: string | null;
  bytes: number | null;
}

/** A secret by what it signed. Times are signing moments (contract 6.3), Unix milliseconds. */
export interface Signer {
  fingerprint: string;
  /** Its position in WEBHOOK_SECRET, from 1; null where it is configured no more. */
  number: number | null;
  hits: number;
  firstAt: number | null;
  lastAt: number | null;
  /** When no other secret of ours signed the same delivery. */
  aloneAt: number | null;
  mayGo: boolean;
  /** Since when it is configured no more. */
  goneAt: number | null;
}

/** What the main process keeps over restarts, in the facts failure_run, failures and signers. */
export interface Books {
  failureRun: number;
  failures: Failures;
  signers: Signer[];
}

export interface ReplayState {
  state: 'off' | 'idle' | 'running' | 'backing-off' | 'stopped';
  /** Since when it is in this state. */
  since: string | null;
  lastAt: string | null;
  reason: string | null;
  /** Of a catch-up that takes more than a page. */
  progress: Progress | null;
}

/** Runs of reconciliation in a row that ended alike: the last, or one that brought something. */
export interface ReplayRun {
  from: string;
  to: string;
  runs: number;
  pages: number;
  /** Events that only replay brought. */
  recovered: number;
  state: ReplayState['state'];
  reason: string | null;
}

export interface Progress {
  pages: number;
  events: number;
  perMinute: number;
  /** Estimated; null where that cannot be told. */
  endsAt: string | null;
  /** It does not come nearer to now. */
  behind: boolean;
}

/** `stopped`: the service refuses it. */
export interface StreamState {
  state: 'off' | 'open' | 'lost' | 'stopped';
  since: string | null;
  reason: string | null;
}

/** What `npx kit verify` has found so far. */
export interface VerifyAccount {
  state: 'running' | 'done' | 'failed';
  reason: string | null;
  /** Unix milliseconds: what was received later is not compared. */
  asked: number;
  from: Cursor;
  /** How far it has read. */
  at: Cursor;
  pages: number;
  events: number;
  /** `missing`: recovered by it. `onlyHere`: the service did not show it. */
  types: { type: string; present: number; missing: number; onlyHere: number; handled: number; dead: number }[];
}

export interface Stretch {
  types: { type: string; stored: number; handled: number; dead: number }[];
  /** Where to go on; null at the end. */
  next: Cursor | null;
}

export interface KeepStore extends EventStore {
  watermark(): Promise<Cursor | null>;
  /** Where a store without a watermark begins to read, once that is known. */
  beginsAt(): Promise<Cursor | null>;
  /** When the last calls were made, Unix milliseconds. */
  calls(): Promise<number[] | null>;
  /** As it was noted last; null: never. */
  replayState(): Promise<ReplayState | null>;
  /** The last runs, newest first. */
  replayRuns(): Promise<ReplayRun[]>;
  newestCursor(): Promise<Cursor | null>;
  /** The lowest cursor known above this one; the highest below it. Null bounds nothing. */
  cursorAbove(bound: Cursor | null): Promise<Cursor | null>;
  cursorBelow(bound: Cursor | null): Promise<Cursor | null>;
  /** The lowest cursor known, the newest older than `before` by receipt; whether any event is younger. */
  anchors(before: number): Promise<{ lowest: Cursor | null; older: Cursor | null; young: boolean }>;
  /**
   * Events behind `proved_from` that webhooks brought before `before`, and neither replay nor stream has shown: how many
   * by type, among up to `limit` from the event numbered `after` on. `next`: where to go on; the same as `after` at the end.
   */
  unseen(
    after: number,
    before: number,
    limit: number,
  ): Promise<{ types: { type: string; events: number }[]; next: number }>;
  /** The last event, by its number, that was looked up so; and the types that were found lately. */
  compared(): Promise<number>;
  blind(): Promise<string[] | null>;
  /** Counters of the last minutes, as `keep` has noted them. */
  snapshots(): Promise<{ at: number; counters: Record<string, number> }[] | null>;
  /** The account of `npx kit verify`, if there ever was one. */
  verifying(): Promise<VerifyAccount | null>;
  /** Events behind `after` up to `upTo`, and above it those received before `before`: by type, and what became of them. */
  stretch(after: Cursor, upTo: Cursor, before: number, limit: number): Promise<Stretch>;
  /** What webhooks bring, and what they lately missed. */
  types(): Promise<DeliveredType[]>;
  /** Replay has caught up for the first time: what it brought up to here was there before this store. Set once. */
  endHistory(upTo: Cursor): Promise<void>;
  /** The last time, Unix milliseconds, that somebody asked for a reconciliation; 0 if never. */
  reconcileAsked(): Promise<number>;
  /** Removes up to `limit` finished events received before `before`, from `after` on. Returns where to go on, or null. */
  prune(before: number, after: number, limit: number): Promise<number | null>;
  /** Removes the bodies of finished events received before `before`, in steps like prune. */
  purge(before: number, after: number, limit: number): Promise<number | null>;
  /** Removes quarantine, conflicts and idle lanes older than `before`, which lies hours back at least. */
  sweep(before: number): Promise<void>;
  /** Copies the log into the file; with `restart`, lets the log begin anew. Returns the log's size in bytes. */
  checkpoint(restart: boolean): Promise<number>;
  /** All that are up, and those whose all-clear nobody was told yet. */
  raised(): Promise<RaisedAlarm[]>;
  raise(name: string, detail: string, now: number): Promise<void>;
  /** It holds no more; it stays in `raised` until it is forgotten. */
  clear(name: string): Promise<void>;
  /** People were told of it, at this level of gravity. */
  told(name: string, level: number, now: number): Promise<void>;
  forget(name: string): Promise<void>;
}

export interface DeliveredType {
  type: string;
  /** The last delivery, Unix milliseconds; null: never. */
  deliveredAt: number | null;
  /** Since then brought by replay or stream alone, though deliveries could be taken; and since when. */
  missed: number;
  missedSince: number | null;
}

export interface RaisedAlarm {
  name: string;
  detail: string;
  /** When people were last told, Unix milliseconds; null: never. */
  toldAt: number | null;
  level: number;
  cleared: boolean;
}

export interface Alarm {
  name: string;
  since: string;
  detail: string;
}

export interface Status {
  events: number;
  unassigned: number;
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

export type Quarantined = Omit<Unreadable, 'body'> & { id: number; receivedAt: string; bytes: number };

export interface WatchStore {
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
        conflicts: number;
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

export interface MendStore {
  /** The ids of the dead, skipped and waiting tasks that match, by cursor, so that steps keep the order of lanes. */
  matching(filter: TaskFilter, now: number): Promise<number[]>;
  /** Dead, skipped or waiting tasks run again, with a new budget of attempts, in their lane's order. Returns how many. */
  retry(ids: number[], now: number): Promise<number>;
  /** Waiting and dead tasks are skipped. Returns how many. */
  discard(ids: number[], reason: string, now: number): Promise<number>;
  /** False where there is no such open gap. */
  closeGap(id: number, by: string, now: number): Promise<boolean>;
  /** Asks that a handler be given these events again; `run` makes the tasks. Returns the rerun's id. */
  askRerun(
    asked: Pick<Rerun, 'handler' | 'type' | 'from' | 'to' | 'events'> & { range: Range },
    now: number,
  ): Promise<number>;
  /** It makes no more tasks; returns those that wait. Null where there is no such rerun. */
  cancelRerun(id: number, now: number): Promise<number[] | null>;
  /** Gives waiting, dead and skipped tasks to another handler, in lanes of the same name. Where that one has a task of the event, this one is skipped. Returns how many were given. */
  giveTo(ids: number[], handler: string, now: number): Promise<number>;
  /** How far a handler's lanes have finished becomes true of another's, in steps from `after` on. Returns where to go on, or null. */
  giveLanes(from: string, to: string, after: number, limit: number, now: number): Promise<number | null>;
  /**
   * Reads quarantined bytes again, as after a change of the kit's: what is an event now is accepted, and leaves the
   * quarantine. Undefined where there is no such row.
   */
  retryQuarantined(id: number, now: number): Promise<Accepted | undefined>;
}

/** What was removed of a person, in rows. */
export interface Erased {
  events: number;
  /** Waiting tasks that had nothing left to work on. */
  skipped: number;
  /** Errors of tasks that might have quoted them. */
  errors: number;
  quarantined: number;
  conflicts: number;
}

/** Whether a body, as it was received, is of the person who is to be forgotten. */
export type IsTheirs = (body: Uint8Array) => boolean;

export interface EraseStore {
  /** Removes the bodies of their events from `after` on, in steps like prune; identity stays. Dry: counts only. */
  eraseEvents(
    isTheirs: IsTheirs,
    after: number,
    limit: number,
    now: number,
    dry: boolean,
  ): Promise<{ erased: Erased; next: number | null }>;
  /** Removes what was kept aside of theirs: quarantine and conflicts. */
  eraseAsides(isTheirs: IsTheirs, dry: boolean): Promise<Erased>;
}

export type Role = 'receive' | 'run' | 'keep';

export interface Process {
  role: string;
  pid: number;
  started: string;
  boot: number;
}

export interface OwnerStore {
  /** A number that no process had before. */
  nextBoot(): Promise<number>;
  /** Says that a process is there; `detail` is for `status`. */
  beat(process: Process, now: number): Promise<void>;
  gone(role: string): Promise<void>;
  processes(): Promise<Process[]>;
  /** What an earlier boot knew of failures and secrets. */
  books(): Promise<Books>;
  /**
   * The tasks that the dead processes were at: given back and marked suspect, to run alone. One that was the only one
   * has spent its attempt. `alive` are the boots that still run. Returns how many.
   */
  giveBack(alive: number[], now: number): Promise<number>;
  /** Whether a suspect of one of these handlers waits for a process of its own. */
  suspectDue(now: number, handlers: string[]): Promise<boolean>;
}

export interface Store
  extends EventStore, TaskStore, KeepStore, WatchStore, SampleStore, MendStore, EraseStore, OwnerStore {
  close(): void;
}
