// What the end of an attempt changes: the progress of the lane, and the counters.
import type { Counts } from './ingest.ts';
import type { Settlement } from './work.ts';

/** The cursor of the task if it has ended; null: the task waits again, or has no cursor. */
export function endOf({ claim, state }: Settlement): bigint | null {
  return state === 'ready' || claim.event.cursor === null ? null : BigInt(claim.event.cursor);
}

/** What the settlement changes in the counters. */
export function countsOf(settlement: Settlement, handlerName: string): Counts {
  const verdict = verdictOf(settlement);
  return {
    'tasks.running': -1,
    [`tasks.${settlement.state}`]: 1,
    ...(verdict && { [`attempts.${verdict}.${handlerName}`]: 1 }),
  };
}

/** Null: the attempt was interrupted and does not count. */
function verdictOf(settlement: Settlement): 'done' | 'skipped' | 'dead' | 'retry' | 'deferred' | null {
  if (settlement.state !== 'ready') return settlement.state;
  if (settlement.spent ?? true) return 'retry';
  return settlement.deferredMs ? 'deferred' : null;
}
