// What people change in a store, and what `keep` does to it.
import type { Cursor } from '../../wire/cursor.ts';
import type { Alarm, TaskFilter } from './read.ts';

export interface Rerun {
  handler: string;
  only: 'all' | 'dead';
  filter: { type?: string | undefined; session?: string | undefined; error?: string | undefined };
  /** Cursors. Null: from the first event; to the newest. */
  from: Cursor | null;
  to: Cursor | null;
  perMinute: number | null;
}

export type Sample = Record<'events' | 'duplicates' | 'refused' | 'done' | 'failed' | 'waiting' | 'dead', number>;

export interface AdminStore {
  /** False: no handler has this name. */
  pause(handler: string, paused: boolean): Promise<boolean>;
  /** Ends a handler that will not come back: its waiting tasks are skipped, its rows deleted. */
  forget(handler: string): Promise<'forgotten' | 'loaded' | 'unknown'>;
  /** Waiting tasks end as skipped. `event` is a number. Resolves with how many. */
  discard(filter: Partial<TaskFilter>): Promise<number>;
  /** One task is due now, with all its attempts. False: there is none that waits or is dead. */
  retry(handler: string, event: number): Promise<boolean>;
  /** Resolves with its number. Null: no handler has this name. */
  rerun(rerun: Rerun): Promise<number | null>;
  /** Leaves a word for a process. */
  tell(name: string, value: unknown): Promise<void>;
  /** These alarms stand, and no others. Resolves with those that were raised and cleared. */
  alarms(list: Alarm[]): Promise<{ raised: Alarm[]; cleared: Alarm[] }>;
  /** Keeps one sample a minute for a week. */
  sample(sample: Sample): Promise<void>;
  /**
   * Looks at a page of events after the number `after`, and removes those that were received before this time, are passed
   * by replay and every handler, and have no waiting task. Resolves with the number that it came to. Null: to the end.
   */
  prune(before: number, after?: number): Promise<number | null>;
  /**
   * Copies the log into the store. `restart` and `truncate` wait shortly for writers and readers. Resolves to the bytes
   * that were in use in the log's file, which may be longer. Null: in vain.
   */
  checkpoint(how: 'passive' | 'restart' | 'truncate'): Promise<number | null>;
}
