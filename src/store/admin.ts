// The admin role of the store: what people change by hand, and the reruns that they plan.
import type { Accepted } from './ingest.ts';
import type { Point, Range, Rerun, Survey, TaskFilter } from './read.ts';
import type { RerunAt } from './work.ts';

export interface AdminStore {
  /** Ids of matching dead, skipped and waiting tasks in cursor order, so that changes in steps keep the lane order. */
  matching(filter: TaskFilter, now: number): Promise<number[]>;
  /**
   * Dead, skipped or waiting tasks run again with a new budget of attempts, in their lane's order. With `done`, done
   * tasks run again instead, if their event still has its body. Returns how many.
   */
  retry(ids: number[], now: number, done?: boolean): Promise<number>;
  /** Waiting and dead tasks become skipped. Returns how many. */
  discard(ids: number[], reason: string, now: number): Promise<number>;
  /**
   * Stops claiming tasks of the handler, or of every handler (null), until `resume`. Running attempts end, and tasks
   * wait in order. A handler that is paused already keeps its time.
   */
  pause(handler: string | null, reason: string | null, now: number): Promise<void>;
  /**
   * Ends the pause of the handler, or every pause (null). While all are paused, resuming one leaves the others that the
   * store knows paused. False: nothing was paused.
   */
  resume(handler: string | null, now: number): Promise<boolean>;
  /** False: no gap with this id is open. */
  closeGap(id: number, by: string, now: number): Promise<boolean>;
  /** The events between two cursors or times of receipt whose tasks were made. A cursor `to` is included. */
  range(from: Point, to: Point | null): Promise<Range>;
  /** Counts the events that a rerun would process, one page at a time. */
  survey(range: Range, type: string | null, at: RerunAt | null, limit: number): Promise<Survey>;
  /** Newest first. */
  reruns(limit: number): Promise<Rerun[]>;
  /** Requests a rerun: the handler gets the events of the range again, as tasks that `run` makes. Returns its id. */
  askRerun(
    asked: Pick<Rerun, 'handler' | 'type' | 'from' | 'to' | 'events'> & { range: Range },
    now: number,
  ): Promise<number>;
  /** Stops a rerun and returns the ids of its waiting tasks. Null: no such rerun, or it ended and no task waits. */
  cancelRerun(id: number, now: number): Promise<number[] | null>;
  /**
   * Moves waiting, dead and skipped tasks to another handler, into lanes of the same name. If that handler already has
   * a task of the event, the old task is skipped. Returns how many were moved.
   */
  giveTo(ids: number[], handler: string, now: number): Promise<number>;
  /**
   * Copies the progress of a handler's lanes (how far each has finished) to another handler. One call copies `limit`
   * lanes with ids above `after` and returns the next `after`, or null at the end.
   */
  giveLanes(from: string, to: string, after: number, limit: number, now: number): Promise<number | null>;
  /** Renames the handler of the steps of `setup` that have run, unless the other has steps. Returns how many. */
  giveSteps(from: string, to: string): Promise<number>;
  /**
   * Reads quarantined bytes again, for example with a newer kit. If they are an event now, it is accepted and the row
   * leaves the quarantine. Undefined: no such row.
   */
  retryQuarantined(id: number, now: number): Promise<Accepted | undefined>;
  /**
   * Removes the bodies of the person's events. One call looks at `limit` events numbered above `after`. `next` is the
   * next `after`, or null at the end. The events keep their identity. With `dry` nothing is removed, only counted.
   */
  eraseEvents(
    isTheirs: IsTheirs,
    after: number,
    limit: number,
    now: number,
    dry: boolean,
  ): Promise<{ erased: Erased; next: number | null }>;
  /** Removes the person's rows from quarantine and conflicts. With `dry` it only counts them. */
  eraseAsides(isTheirs: IsTheirs, dry: boolean): Promise<Erased>;
}

/** The number of rows from which a person's data was removed. */
export interface Erased {
  events: number;
  /** Waiting tasks that became skipped, because the body of their event is gone. */
  skipped: number;
  /** Errors of tasks, which may quote the body. */
  errors: number;
  quarantined: number;
  conflicts: number;
}

/** Whether a body, as received, belongs to the person whose data is to be erased. */
export type IsTheirs = (body: Uint8Array) => boolean;
