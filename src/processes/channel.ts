// What the main process and its children say to each other. Everything else they learn from the store.

/** From a child. */
export type Report =
  /** Each second. `suspects`: lanes that wait for a process of their own. */
  | { type: 'alive'; rss: number; suspects: number }
  /** The next silence may last this long: a setup, a migration, a backup, a checkpoint. 0: no longer. */
  | { type: 'longer'; ms: number }
  /** `run` begins to load or to set up this file. */
  | { type: 'loading'; file: string }
  /** It works. */
  | { type: 'ready' }
  /** Another handler than before begins. From the first on, a death brings the task that caused it nearer to its end. */
  | { type: 'began'; handler: string }
  /** Another process has work: `keep`, because strict tasks wait. */
  | { type: 'wake' };

/** What `run` is given as JSON: new handlers begin after event `newest`; files in `without` ended a process, and how. */
export interface RunArgs {
  role: 'live' | `suspect-${number}`;
  restart: boolean;
  newest: number;
  without: Record<string, string>;
}

/** Tells the main process. A child without one, in a test, says it to nobody. */
export function say(report: Report): Promise<void> {
  return new Promise((sent) => {
    if (!process.connected || !process.send) return sent();
    process.send(report, undefined, undefined, () => sent());
  });
}
