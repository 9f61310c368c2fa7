// When a handler with a limit of its own may begin an attempt: at most so many in any minute, one by one over the minute.
// A pure matter of now. Begins with nothing saved up, so that the minute also holds over a restart.

export interface Rate {
  /** How many may begin now. */
  free(now: number): number;
  begin(now: number): void;
  /** When the next may begin, Unix milliseconds; null: now. */
  nextAt(now: number): number | null;
}

export function createRate({ perMinute }: { perMinute: number }, now: number): Rate {
  // Turns come a few milliseconds apart: what fell due between two of them, a tenth of a second's at most, begins together.
  const burst = Math.max(1, Math.floor(perMinute / 600));
  const everyMs = 60_000 / (perMinute - burst + 1);
  /** When all of a burst will be free. */
  let fullAt = now + burst * everyMs;
  // Sums of fractions fall short by less than a millionth.
  const freeAt = (at: number): number => {
    // A clock that was set back neither pays out nor locks it up.
    fullAt = Math.min(fullAt, at + burst * everyMs);
    return Math.floor(burst - Math.max(0, fullAt - at) / everyMs + 1e-6);
  };
  return {
    free: freeAt,
    begin(at) {
      fullAt = Math.max(fullAt, at) + everyMs;
    },
    nextAt: (at) => (freeAt(at) > 0 ? null : Math.ceil(fullAt - (burst - 1) * everyMs)),
  };
}
