// The alarm role of the store: keeps raised alarms, and what people were notified of, over restarts.
import type { FailingHead } from './shown.ts';

export interface RaisedAlarm {
  name: string;
  detail: string;
  /** Unix milliseconds. */
  since: number;
  /** When people were last notified, Unix milliseconds; null: never. `level` and `news` are of that notification. */
  toldAt: number | null;
  level: number;
  news: number;
  /** The condition of the alarm no longer holds; the all-clear message is still to be sent. */
  cleared: boolean;
}

export interface AlarmStore {
  raise(name: string, detail: string, now: number): Promise<void>;
  /** The condition of the alarm no longer holds. `raised` still returns the alarm until it is forgotten. */
  clear(name: string): Promise<void>;
  /** Notes that people were notified of the alarm at this level. `news`: the number of the newest detail they got. */
  told(name: string, level: number, news: number, now: number): Promise<void>;
  forget(name: string): Promise<void>;
  /** Alarms that are raised, and cleared alarms whose all-clear was not sent yet. */
  raised(): Promise<RaisedAlarm[]>;
  /** The newest group of dead letters. Ids of groups grow. */
  newestDeadGroup(): Promise<{ id: number; handler: string; error: string } | null>;
  /** The key of the event that was contradicted last. */
  lastContradicted(): Promise<string | null>;
  /** Handler files that could not be loaded or set up, and the handlers that wait for each. */
  brokenHandlers(): Promise<{ fault: string; waiting: string[] }[]>;
  /** Among the first thousand lanes with waiting tasks; the one that has failed longest is the first. */
  failingHeads(limit: number): Promise<FailingHead[]>;
}
