// A start, timed from the first word to the kit until it takes deliveries.
import type { Kit } from '../../system/kit.ts';

/** What a release is held to. A test's machine may be busy with others: there the time is shown, and no violation. */
const LIMIT_MS = 2_000;

/** Milliseconds; rejects where it ended instead. */
export async function timedStart(kit: Kit): Promise<number> {
  const began = performance.now();
  await kit.start();
  return performance.now() - began;
}

export function tooSlow(ms: number, short: boolean): string[] {
  return ms > LIMIT_MS && !short ? [`ready only after ${Math.round(ms)} ms`] : [];
}
