// For the bookkeeping that must happen, whoever holds the lock just now.
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from './store.ts';

const PAUSE_MS = 20;
const PASSING = new Set<StoreError['code']>(['busy', 'unwritable']);

/** Tried again for as long as the store is locked or failing, or until the limit; not where it needs a person. */
export async function retryWhileBusy<Result>(work: () => Promise<Result>, limitMs = Infinity): Promise<Result> {
  const end = performance.now() + limitMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof StoreError) || !PASSING.has(error.code) || performance.now() > end) throw error;
      await sleep(PAUSE_MS);
    }
  }
}
