// What people, metrics and alarms read of a store, and ask of it.
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
  paused: boolean;
  waiting: number;
  done: number;
  skipped: number;
  dead: number;
  /** Attempts that failed. */
  failed: number;
  /** Lanes whose tasks fail now (of the first thousand tasks; those that stepped aside are one), and since when. */
  failing: { lanes: number; since: number } | null;
  /** Tasks around its newest dead letter that ended within the last hour, and how many of them as dead letters. */
  recent: { ended: number; dead: number };
  /** Lanes whose task ran when its process died, and runs again apart. */
  suspects: number;
  /** Since when its longest waiting lane or event is due. Null: none is. */
  dueSince: number | null;
  /** When its first task that waits for the watermark was received. Null: none waits for it. */
  heldSince: number | null;
}

export interface Alarm {
  name: string;
  /** The handler, or empty. */
  about: string;
  level: 'warning' | 'critical';
  text: string;
}

/** Bytes: of the store's log, and free on its disk. */
export interface Disk {
  logBytes: number;
  freeBytes: number;
}

/** One snapshot, cheap with any number of rows. */
export interface Facts {
  at: number;
  /** Of `state`, those that are numbers. */
  counters: Record<string, number>;
  /** Counters, and what the processes report, by name. */
  state: Record<string, unknown>;
  watermark: Cursor | null;
  floor: Cursor | null;
  newestCursor: Cursor | null;
  /** Of the newest event; its number. */
  newestAt: number | null;
  newest: number;
  handlers: HandlerFacts[];
  running: number;
  /** Open ones, at most a hundred. `upTo` null: until the next event comes. */
  gaps: { after: Cursor; upTo: Cursor | null }[];
  alarms: (Alarm & { raisedAt: number; postedAt: number | null })[];
  /** The newest contradiction in quarantine. */
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
  /** By handler. */
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
  /** Null: it waits for the watermark. */
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
  /** The key of the newest event. */
  example: string;
}

/** The sums since the store began; of `waiting` and `dead`, what stands. */
export type Sample = Record<'events' | 'duplicates' | 'refused' | 'done' | 'failed' | 'waiting' | 'dead', number>;

export interface Rerun {
  handler: string;
  only: 'all' | 'dead';
  filter: { type?: string | undefined; session?: string | undefined; error?: string | undefined };
  /** Cursors. Null: from the first event; to the newest. */
  from: Cursor | null;
  to: Cursor | null;
  perMinute: number | null;
}
