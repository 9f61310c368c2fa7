// The store's role for alarms: what is raised, and what people were told of it, outlasts the process.
export interface RaisedAlarm {
  name: string;
  detail: string;
  /** Unix milliseconds. */
  since: number;
  /** Of the last notification, Unix milliseconds; null: none was sent. `level` and `news` are what it said. */
  toldAt: number | null;
  level: number;
  news: number;
  /** The alarm holds no more; its all-clear is still due. */
  cleared: boolean;
}

/** Where alarms outlast the process. */
export interface AlarmStore {
  raise(name: string, detail: string, now: number): Promise<void>;
  /** It holds no more; it stays in `raised` until it is forgotten. */
  clear(name: string): Promise<void>;
  /** People were told of it, at this level of gravity, with news up to here. */
  told(name: string, level: number, news: number, now: number): Promise<void>;
  forget(name: string): Promise<void>;
}
