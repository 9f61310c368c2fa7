// A start, timed from the first word to the kit until it takes deliveries.
import { availableParallelism, loadavg } from 'node:os';
import type { Kit } from '../../system/kit.ts';

/** What a release is held to. A test's machine may be busy with others: there the time is shown, and no violation. */
const LIMIT_MS = 2_000;

/** Milliseconds; rejects where it ended instead. */
export async function timedStart(kit: Kit): Promise<number> {
  const began = performance.now();
  await kit.start();
  return performance.now() - began;
}

/** Of the slowest start; with the load, because a machine that does other things proves nothing about a start. */
export function tooSlow(ms: number, short: boolean): string[] {
  if (ms <= LIMIT_MS || short) return [];
  const load = `${Math.round(loadavg()[0] ?? 0)} on ${availableParallelism()} processors`;
  return [`ready only after ${Math.round(ms)} ms, at a load of ${load}`];
}
