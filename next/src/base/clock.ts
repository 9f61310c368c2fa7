// The only source of time. Tests replace it; no other code calls Date.now.

export interface Clock {
  /**
   * Milliseconds since 1970, UTC: for times that are stored, shown or compared with the service's. It steps when
   * somebody sets the machine's clock.
   */
  now(): number;
  /** Milliseconds since an arbitrary moment: for durations. It never steps. */
  monotonic(): number;
}

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

/** The latest time that a Date can hold. */
export const LATEST_MS = 8.64e15;
/** The texts of the last seconds. Events that arrive together share a second, and making the text costs much more. */
const SECONDS: { second: number; text: string }[] = [];
const KEPT = 64;

/** ISO 8601 in UTC. Null if there is no time, or if a Date cannot hold it. */
export function iso(ms: number | null): string | null {
  if (ms === null || !(Math.abs(ms) <= LATEST_MS)) return null;
  const second = Math.floor(ms / 1_000);
  const place = Math.abs(second % KEPT);
  let known = SECONDS[place];
  if (known?.second !== second) {
    known = { second, text: new Date(second * 1_000).toISOString().slice(0, -4) };
    SECONDS[place] = known;
  }
  return `${known.text}${String(Math.trunc(ms - second * 1_000)).padStart(3, '0')}Z`;
}

/**
 * Unix milliseconds of `2026-01-31` or `2026-01-31T12:00:00Z`. Without a zone the text is UTC. Undefined if it is no
 * time.
 */
export function timeOf(text: string): number | undefined {
  const zoned = /T.*(Z|[+-]\d\d:?\d\d)$|^[\d-]+$/.test(text) ? text : `${text}Z`;
  const time = isDay(text.slice(0, 10)) ? Date.parse(zoned) : NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** Whether the day exists. Date.parse would read 2026-02-31 as a day of March. */
function isDay(text: string): boolean {
  return /^\d{4}-\d\d-\d\d$/.test(text) && iso(Date.parse(text))?.startsWith(text) === true;
}
