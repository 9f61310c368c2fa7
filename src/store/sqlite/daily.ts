// How events came first, and how late: what webhooks lose. Rows of the table `daily`, counted for a whole batch.
import { iso } from '../../base/clock.ts';
import type { Arrival } from '../../wire/event.ts';
import { ORIGINS } from './rows.ts';

export type Days = Map<string, { row: (string | number | undefined)[]; count: number }>;

const MINUTE_MS = 60_000;
/** Minutes. An event counts at the highest that it reaches. */
const LATE = [1_440, 60, 5, 1, 0];

export function noteDay({ type, origin, createdAt }: Arrival, now: number, days: Days): void {
  const late = createdAt === null ? -1 : (LATE.find((least) => now - createdAt >= least * MINUTE_MS) ?? 0);
  const key = `${type} ${origin} ${late}`;
  const known = days.get(key);
  if (known) known.count++;
  else days.set(key, { row: [iso(now)?.slice(0, 10), type, ORIGINS[origin], late], count: 1 });
}
