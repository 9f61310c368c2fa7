// The alarm role of the store: raised alarms, and what people were told of them, outlast the process.
export interface RaisedAlarm {
  name: string;
  detail: string;
  /** Unix milliseconds. */
  since: number;
  /** When the last notification was sent, Unix milliseconds; null: none. `level` and `news` are what it said. */
  toldAt: number | null;
  level: number;
  news: number;
  /** The alarm no longer holds; its all-clear is still to be sent. */
  cleared: boolean;
}

/** Keeps alarms over restarts. */
export interface AlarmStore {
  raise(name: string, detail: string, now: number): Promise<void>;
  /** The alarm no longer holds. It stays in `raised` until it is forgotten. */
  clear(name: string): Promise<void>;
  /** People were notified of the alarm, at this level, with news up to this number. */
  told(name: string, level: number, news: number, now: number): Promise<void>;
  forget(name: string): Promise<void>;
}
