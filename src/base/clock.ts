// The source of time. Tests replace it. Outside of the page in the browser, no other code of the kit calls Date.now.

export interface Clock {
  /**
   * Milliseconds since 1970, UTC: for times that are stored, shown or compared with times of the service. This
   * time jumps when somebody sets the machine's clock.
   */
  now(): number;
  /** Milliseconds since an arbitrary moment: for durations. This time never jumps. */
  monotonic(): number;
}

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

/** The latest time that a Date can hold, in Unix milliseconds. */
export const LATEST_MS = 8.64e15;

/** ISO 8601 in UTC. Null if `ms` is null, or if a Date cannot hold it. */
export function iso(ms: number | null): string | null {
  return ms === null || !(Math.abs(ms) <= LATEST_MS) ? null : new Date(ms).toISOString();
}
