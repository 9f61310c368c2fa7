// The one source of time. Tests set it; nothing else calls Date.now.

export interface Clock {
  /** Milliseconds since 1970, UTC: for moments that are stored, shown or compared with the service's. It can be set. */
  now(): number;
  /** Milliseconds since a moment that only this process knows: for durations. It never steps. */
  monotonic(): number;
}

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

/** ISO 8601 in UTC, or null where there is no time, or none that a date can hold. */
export function iso(ms: number | null): string | null {
  if (ms === null) return null;
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}

/** Unix milliseconds of `2026-01-31` or `2026-01-31T12:00:00Z`; without a zone it is UTC. Undefined where it is none. */
export function timeOf(text: string): number | undefined {
  const zoned = /T.*(Z|[+-]\d\d:?\d\d)$|^[\d-]+$/.test(text) ? text : `${text}Z`;
  const time = isDay(text.slice(0, 10)) ? Date.parse(zoned) : NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** Date.parse takes 2026-02-31 for a day of March. */
function isDay(text: string): boolean {
  return /^\d{4}-\d\d-\d\d$/.test(text) && iso(Date.parse(text))?.startsWith(text) === true;
}
