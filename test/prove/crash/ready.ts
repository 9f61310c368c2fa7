// Measures the time from the start of the kit until it accepts deliveries.
import { availableParallelism, loadavg } from 'node:os';
import type { Kit } from '../../system/kit.ts';

/** How long a kit may take to start. With `--short`, no start is too slow, because a test's machine may be busy. */
const LIMIT_MS = 2_000;

/** Resolves to milliseconds. Rejects if the kit exits instead. */
export async function timedStart(kit: Kit): Promise<number> {
  const began = performance.now();
  await kit.start();
  return performance.now() - began;
}

/** The violation if the slowest start exceeds the limit. On an overloaded machine a slow start proves nothing. */
export function tooSlow(ms: number, short: boolean): string[] {
  const [load = 0] = loadavg();
  if (ms <= LIMIT_MS || short || load > availableParallelism()) return [];
  return [`ready only after ${Math.round(ms)} ms`];
}
