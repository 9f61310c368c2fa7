// Decides when the forward pass is due: at start, after each interval, soon after an event arrives above the
// watermark, and when a person asks. If replay does not show the event yet, the pass looks again after 1, 2, 4 … s.
// All times are by the monotonic clock.
import type { PassContext } from './pass.ts';

/** The longest interval between forward passes while webhooks are silent. */
const SILENT_INTERVAL_MS = 60_000;
/** Events that arrive within this time share one call. An open stream gets more time, because it may save the call. */
const DEBOUNCE_MS = { alone: 100, streaming: 2_000 };
/** The pause before the next look for an event that replay does not show yet. It doubles, up to the interval. */
const AGAIN_MS = 1_000;

/** When a forward pass began, and the number of the newest event at that time. */
export interface Begun {
  at: number;
  event: number;
}

// oxlint-disable-next-line max-lines-per-function -- one state: the times and requests that decide the next pass
export function createSchedule({ clock, budget, intervalMs, silent, streaming }: PassContext) {
  let endedAt = -Infinity;
  let begun: Begun | null = null;
  /** True: `now` was called during a pass. Another pass follows, because pages that were read before may be too old. */
  let again = false;
  /** When to read although the interval is not over, because an event is above the watermark. Infinity: no event is. */
  let proveAt = Infinity;
  /** Consecutive passes that did not raise the watermark although an event is above it. */
  let vain = 0;

  function interval(): number {
    return silent?.() ? Math.min(intervalMs, SILENT_INTERVAL_MS) : intervalMs;
  }

  return {
    dueAt: () => (begun ? -Infinity : Math.min(endedAt + interval(), proveAt)),
    /** True if the interval is not over. An event above the watermark is then the only reason to read. */
    isEarly: () => !begun && clock.monotonic() < endedAt + interval(),
    intervalIsOver: (since: number) => clock.monotonic() - since >= interval(),
    /** The start of the running pass. Null: no pass is running. */
    begun: () => begun,
    begin: (event: number): void => {
      begun = { at: clock.monotonic(), event };
    },
    /** Ends the pass. `goOn`: the next one begins at once. */
    rest: (goOn = again): void => {
      endedAt = goOn ? -Infinity : clock.monotonic();
      begun = null;
      again = false;
    },
    /** Makes the pass due after `ms`. */
    wait: (ms: number): void => {
      endedAt = clock.monotonic() - interval() + ms;
    },
    now: (): void => {
      endedAt = -Infinity;
      again = begun !== null;
    },
    /** Call it when an event arrives above the watermark. Once half of the budget is used, calls are spread out. */
    prove: (): void => {
      const debounce = streaming?.() ? DEBOUNCE_MS.streaming : DEBOUNCE_MS.alone;
      proveAt = Math.min(proveAt, Math.max(clock.monotonic() + debounce, endedAt + budget.spacing()));
    },
    /** Call it when no event is above the watermark. */
    proved: (): void => {
      proveAt = Infinity;
    },
    /** Call it when the pass has ended and an event is still above the watermark. */
    notShown: (): void => {
      const pause = Math.max(budget.spacing(), AGAIN_MS * 2 ** Math.min(vain++, 20));
      if (proveAt < Infinity) proveAt = clock.monotonic() + Math.min(interval(), pause);
    },
    /** Call it when the watermark has moved. */
    moved: (): void => {
      vain = 0;
    },
  };
}
