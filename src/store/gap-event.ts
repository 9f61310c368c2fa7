// The event that handlers get for a gap: a range of history that replay can no longer show.
import type { Incoming } from '../wire/event.ts';
import type { Batch } from './ingest.ts';

/** No delivery can have such an id: ids of the service are ASCII. */
export function gapId(gap: number | string): string {
  return `kit.gap\u00b7${gap}`;
}

export function gapEvent(gap: number, { after, upTo, reason }: NonNullable<Batch['gap']>, now: number): Incoming {
  const body = Buffer.from(JSON.stringify({ 'kit.gap': { gap, after, upTo, reason } }));
  const rest = { cursor: null, type: 'kit.gap', sessionId: null, createdAt: now, flags: [] };
  return { origin: 'kit', id: gapId(gap), body, ...rest };
}
