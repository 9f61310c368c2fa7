// What the end of an attempt changes: the progress of the lane, and the counters.
import { bucketOf } from '../base/latency-buckets.ts';
import { addTo, type Counts } from './state.ts';
import type { Settlement } from './work.ts';

/** The cursor of the task if it has ended; null: the task waits again, or has no cursor. */
export function endOf({ claim, state }: Settlement): bigint | null {
  return state === 'ready' || claim.event.cursor === null ? null : BigInt(claim.event.cursor);
}

/** What the settlements change in the counters. */
export function countsOf(settlements: Settlement[], nameOf: (handler: number) => string): Counts {
  const counts: Counts = {};
  addTo(counts, 'tasks.running', -settlements.length);
  for (const settlement of settlements) {
    const { state, claim } = settlement;
    const [handler, verdict] = [nameOf(claim.handler), verdictOf(settlement)];
    addTo(counts, `tasks.${state}`, 1);
    if (state !== 'ready') addTo(counts, `waiting.${handler}`, -1);
    if (!verdict) continue;
    addTo(counts, `attempts.${verdict}.${handler}`, 1);
    if (claim.tookMs === undefined) continue;
    addTo(counts, `took.${bucketOf(claim.tookMs)}.${handler}`, 1);
    addTo(counts, `took.sum_us.${handler}`, Math.round(claim.tookMs * 1_000));
  }
  return counts;
}

/** Null: the attempt was interrupted and does not count. */
function verdictOf(settlement: Settlement): 'done' | 'skipped' | 'dead' | 'retry' | 'deferred' | null {
  if (settlement.state !== 'ready') return settlement.state;
  if (settlement.spent ?? true) return 'retry';
  return settlement.deferredMs ? 'deferred' : null;
}
