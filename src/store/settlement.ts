// What the end of an attempt changes: the progress of the lane, and the counters.
import type { Counts } from './state.ts';
import type { Settlement } from './work.ts';

/** The cursor of the task if it has ended; null: the task waits again, or has no cursor. */
export function endOf({ claim, state }: Settlement): bigint | null {
  return state === 'ready' || claim.event.cursor === null ? null : BigInt(claim.event.cursor);
}

/** What the settlements change in the counters. */
export function countsOf(settlements: Settlement[], nameOf: (handler: number) => string): Counts {
  const counts: Counts = {};
  const add = (name: keyof Counts, by: number): void => void (counts[name] = (counts[name] ?? 0) + by);
  add('tasks.running', -settlements.length);
  for (const settlement of settlements) {
    add(`tasks.${settlement.state}`, 1);
    const verdict = verdictOf(settlement);
    if (verdict) add(`attempts.${verdict}.${nameOf(settlement.claim.handler)}`, 1);
  }
  return counts;
}

/** Null: the attempt was interrupted and does not count. */
function verdictOf(settlement: Settlement): 'done' | 'skipped' | 'dead' | 'retry' | 'deferred' | null {
  if (settlement.state !== 'ready') return settlement.state;
  if (settlement.spent ?? true) return 'retry';
  return settlement.deferredMs ? 'deferred' : null;
}
