// When the watermark rises, when it is lowered, and what proves it too high. Replay and stream raise it. Deliveries that
// prove it too high, a lower first delivery, or a person lower it. It is pure: the store looks up the facts.
import type { Cursor } from '../wire/cursor.ts';
import type { Batch } from './ingest.ts';
import type { Ahead, Lowered, Lowering } from './keep.ts';

/** This many deliveries below the watermark that replay has not shown prove the watermark too high. */
export const WITNESSES = 3;
/** Maximum milliseconds from an event to the signature of its delivery. A later signature is that of a redelivery. */
export const PROMPT_MS = 60_000;
/** Maximum milliseconds that the service's clock may be ahead of ours. */
const SKEW_MS = 300_000;

/**
 * What a batch does to the watermark. `again`: the service knows it again after a gap that began there. `ceiling`: the
 * watermark that deliveries proved too high; the same item does not raise it to there again.
 */
export function riseOf(
  { watermark, after }: Pick<Batch, 'watermark' | 'after'>,
  before: Cursor | null,
  ceiling: Cursor | null,
): 'none' | 'again' | 'rises' {
  if (!watermark) return 'none';
  const to = BigInt(watermark);
  if (before !== null && to < BigInt(before)) return 'none';
  // The watermark was lowered while the page was read, so nothing has read the range from there to `after`.
  if (before !== null && after !== undefined && BigInt(after) > BigInt(before)) return 'none';
  if (ceiling !== null && to >= BigInt(ceiling)) return 'none';
  return before !== null && to === BigInt(before) ? 'again' : 'rises';
}

/** The time that a witness must have happened after. `at`: when the event at the watermark happened. */
export function witnessedAfter(at: number | null, now: number): number {
  return at !== null && at <= now + SKEW_MS ? at : Number.MIN_SAFE_INTEGER;
}

/** The lowest of these cursors, which begin with it. Undefined: so few witnesses prove nothing. */
export function lowestOf(witnesses: string[]): string | undefined {
  return witnesses.length < WITNESSES ? undefined : witnesses[0];
}

/** `shown`: the highest cursor below the lowest witness that replay has shown; without one, the witness itself. */
export function aheadOf(watermark: Cursor, shown: string, floor: bigint | null): Ahead {
  const to = BigInt(shown);
  return { from: watermark, to: String(floor !== null && to < floor ? floor : to) as Cursor };
}

/** Null: the watermark may be lowered. */
export function refusalOf({ to }: Lowering, watermark: Cursor | null, floor: bigint | null): Lowered | null {
  if (watermark === null) return { done: false, why: 'none' };
  const refused = { done: false, watermark, floor: (floor?.toString() ?? null) as Cursor | null } as const;
  if (BigInt(to) >= BigInt(watermark)) return { ...refused, why: 'not_lower' };
  return floor !== null && BigInt(to) < floor ? { ...refused, why: 'floor' } : null;
}
