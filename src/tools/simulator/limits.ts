// How many calls a minute the account may make (contract 8). All calls of a kind count together.
import type { Clock } from '../../base/clock.ts';
import { Refusal } from './refusal.ts';

const LIMITS = { rpc: 120, quotes: 60, media: 60, events: 10, ping: 1 };
const MINUTE_MS = 60_000;

export type Kind = keyof typeof LIMITS;
export type Limits = ReturnType<typeof createLimits>;

export function createLimits(clock: Clock) {
  const windows = new Map<Kind, { since: number; calls: number }>();

  /** Counts a call. Throws Refusal 429 above the limit. */
  return (kind: Kind, reason?: string): void => {
    const now = clock.now();
    const known = windows.get(kind);
    const window = known && now - known.since < MINUTE_MS ? known : { since: now, calls: 0 };
    windows.set(kind, window);
    if (++window.calls > LIMITS[kind]) throw new Refusal(429, reason);
  };
}
