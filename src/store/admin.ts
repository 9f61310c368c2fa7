// What people fix by hand.
import type { Accepted } from './ingest.ts';
import type { Range, Rerun, TaskFilter } from './read.ts';

export interface AdminStore {
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
