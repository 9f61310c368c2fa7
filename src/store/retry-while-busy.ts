// Retries writes that must succeed although another process holds the lock of the store for a while.
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from './store.ts';

const PAUSE_MS = 20;
const PASSING = new Set<StoreError['code']>(['busy', 'unwritable']);

/** Retries while the store is locked or failing, until the limit. Errors that need a person are thrown at once. */
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
