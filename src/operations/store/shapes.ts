// The shapes of what people, metrics and alarms read from a store, and of their filters.
import type { z } from 'zod';
import type { eventFilter, stateArg, taskFilter } from '../arguments.ts';
import type { Cursor } from '../../wire/cursor.ts';
import type { Origin } from '../../wire/event.ts';
import type { HandlerState } from '../../store/work.ts';

export type TaskState = z.infer<typeof stateArg>;

export interface HandlerFacts {
  id: number;
  name: string;
  file: string;
  state: HandlerState;
  fault: string | null;
  position: number;
  /** How many events it has not taken up. From a thousand on, an upper bound. */
  behind: number;
  paused: boolean;
  waiting: number;
  done: number;
  skipped: number;
  dead: number;
  /** Attempts that failed. */
  failed: number;
  /** Lanes of the first thousand failing tasks, without those of one task alone, and since when tasks fail. */
  failing: { lanes: number; since: number } | null;
  /** Tasks around its newest dead letter that ended within an hour, and how many are dead. 0 while these rerun. */
  recent: { ended: number; dead: number };
  /** Lanes whose task was running when its process died, and runs again in a process of its own. */
  suspects: number;
  /** When its longest wait began: a due lane, failing task or event to take up. Null: none. */
  dueSince: number | null;
  /** When the event of its first task that waits for the watermark was received. Null: no task waits for it. */
  heldSince: number | null;
}

export interface Alarm {
  name: string;
  /** The handler, or empty. */
  about: string;
  level: 'warning' | 'critical';
  text: string;
}

/** The store's folder. Bytes: the size of its WAL file, and what is free on its disk. */
export interface Disk {
  folder: string;
  logBytes: number;
  freeBytes: number;
}

/** One snapshot, cheap with any number of rows. */
export interface Facts {
  at: number;
  /** Counters, and what the processes report, by name. */
  state: Record<string, unknown>;
  watermark: Cursor | null;
  floor: Cursor | null;
  newestCursor: Cursor | null;
  /** When the newest event was received. */
  newestAt: number | null;
  handlers: HandlerFacts[];
  /** Kits that run handlers on this store. On SQLite one, even if it is stopped. */
  instances: number;
  running: number;
  /** Open gaps, at most a hundred. `upTo` null: the end is not known until the next event comes. */
  gaps: { after: Cursor; upTo: Cursor | null }[];
  alarms: (Alarm & { raisedAt: number; postedAt: number | null })[];
  /** When the newest contradiction in quarantine was received. */
  conflictAt: number | null;
  reruns: { handler: string; only: 'all' | 'dead'; tasks: number }[];
}

export type EventFilter = z.infer<typeof eventFilter>;

export interface EventLine {
  seq: number;
  key: string;
  id: string | null;
  cursor: Cursor | null;
  type: string;
  session: string | null;
  createdAt: number | null;
  receivedAt: number;
  origin: Origin;
  origins: Origin[];
  deliveries: number;
  erased: boolean;
  /** The state of each handler's task, by the handler's name. */
  outcomes: Record<string, TaskState>;
}

export type TaskFilter = z.infer<typeof taskFilter>;

export interface TaskLine {
  handler: string;
  event: number;
  key: string;
  type: string;
  state: TaskState;
  running: boolean;
  attempts: number;
  crashes: number;
  /** Null: the task waits for the watermark, or has ended. */
  dueAt: number | null;
  firstFailedAt: number | null;
  endedAt: number | null;
  late: boolean;
  error: string | null;
}

/** Tasks whose errors begin with the same line. */
export interface Cause {
  handler: string;
  state: TaskState;
  error: string;
  tasks: number;
  newestAt: number;
  /** The key of the newest event among them. */
  example: string;
}

/** Sums since the store began; but for `waiting` and `dead`, the number of such tasks at that time. */
export type Sample = Record<'events' | 'duplicates' | 'refused' | 'done' | 'failed' | 'waiting' | 'dead', number>;

export interface Rerun {
  handler: string;
  only: 'all' | 'dead';
  filter: { type?: string | undefined; session?: string | undefined; error?: string | undefined };
  /** Null: from the first event, or to the newest. */
  from: Cursor | null;
  to: Cursor | null;
  perMinute: number | null;
}
