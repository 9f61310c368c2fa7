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

/** Of the slowest start. A machine whose processors are taken by other work proves nothing about a start. */
export function tooSlow(ms: number, short: boolean): string[] {
  const [load = 0] = loadavg();
  if (ms <= LIMIT_MS || short || load > availableParallelism()) return [];
  return [`ready only after ${Math.round(ms)} ms`];
}
