// What the main process and its children say to each other. They learn everything else from the store.
import type { Role } from '../store/work.ts';

/** What a child tells the main process. */
export type Report =
  /** Each second: the child lives. `suspects`: how many processes for suspects must run. */
  | { type: 'alive'; rss: number; suspects: number }
  /** `run` may now be silent for `ms`, while it sets up a handler. 0: that work is over. */
  | { type: 'longer'; ms: number }
  /** `run` begins to load or to set up this file. */
  | { type: 'loading'; file: string }
  /** The child has started, and works. */
  | { type: 'ready' }
  /** A task of `handler` begins; the task before was of another. From now on, a death counts against running tasks. */
  | { type: 'began'; handler: string }
  /** `keep` has work, because strict tasks wait for the watermark. */
  | { type: 'wake' };

/** For `run`, as JSON. New handlers begin after event `newest`. `without`: how each file to leave out ended `run`. */
export type RunArgs = {
  instance: string;
  role: Role;
  restart: boolean;
  newest: number;
  without: Record<string, string>;
};

/** Tells the main process. In a test there may be none: then the report is dropped. */
export function say(report: Report): Promise<void> {
  return new Promise((sent) => {
    if (!process.connected || !process.send) return sent();
    process.send(report, undefined, undefined, () => sent());
  });
}
