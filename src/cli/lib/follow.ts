// Follows the work of another process, and prints each change of its progress once.
import { setTimeout as sleep } from 'node:timers/promises';
import { print } from './print.ts';

const LOOK_MS = 250;

export interface Look<Result> {
  /** The progress in words. */
  line?: string;
  /** Set when the work has ended. */
  result?: Result;
}

/** Calls `look` until the work has ended, and resolves to the result. If `json` is set, prints no progress. */
export async function follow<Result>(json: boolean, look: () => Promise<Look<Result>>): Promise<Result> {
  for (let said = ''; ;) {
    await sleep(LOOK_MS);
    const { line = said, result } = await look();
    if (line !== said && !json) print(line);
    said = line;
    if (result !== undefined) return result;
  }
}
