// Decides when a handler with a rate limit may begin an attempt: at most `perMinute` in any minute, spread over the
// minute. It reads no clock, because the caller passes the time. The bucket starts empty, so that a restart cannot
// exceed the limit.

export function createRate({ perMinute }: { perMinute: number }, now: number) {
  // Turns are a few milliseconds apart, so attempts that fall due within a tenth of a second begin together.
  const burst = Math.max(1, Math.floor(perMinute / 600));
  const everyMs = 60_000 / (perMinute - burst + 1);
  /** When a whole burst may begin at once, as a time of the caller's clock. */
  let fullAt = now + burst * everyMs;
  const free = (at: number) => {
    // If the caller's time jumps back, attempts must neither be saved up nor blocked.
    fullAt = Math.min(fullAt, at + burst * everyMs);
    // Rounding errors in the sums stay below a millionth.
    return Math.floor(burst - Math.max(0, fullAt - at) / everyMs + 1e-6);
  };
  return {
    free,
    begin(at: number) {
      fullAt = Math.max(fullAt, at) + everyMs;
    },
    /** When the next attempt may begin. Null: now. */
    nextAt: (at: number) => (free(at) > 0 ? null : Math.ceil(fullAt - (burst - 1) * everyMs)),
  };
}
