// The progress of a long catch-up: pages, events, rate and estimated end. The estimate compares how much history was
// read in how much time, because cursors are not proportional to time.
import { iso, type Clock } from '../base/clock.ts';
import type { Progress } from '../store/keep.ts';

const MINUTE_MS = 60_000;
/** If a catch-up comes no closer to the present for this long, the call budget is too small. */
const BEHIND_MS = 300_000;

export function createCatchUp(clock: Clock) {
  let since = 0;
  /** The wall clock minus the monotonic clock at the first page. Kept, so that setting the clock changes no lag. */
  let offset = 0;
  let pages = 0;
  let events = 0;
  /** For each page: when it was read, and how long before that its newest event happened. */
  let lags: { at: number; lagMs: number }[] = [];

  return {
    /** Call it for each page. `youngest`: when its newest event happened, Unix milliseconds. */
    page(more: number, youngest: number | null): void {
      const now = clock.monotonic();
      if (pages === 0) [since, offset] = [now, clock.now() - now];
      pages++;
      events += more;
      if (youngest === null) return;
      lags.push({ at: now, lagMs: now + offset - youngest });
      while ((lags[1]?.at ?? now) < now - BEHIND_MS) lags.shift();
    },
    /** Call it when the end of history is reached. */
    end(): void {
      pages = 0;
      events = 0;
      lags = [];
    },
    /** Null until the second page. */
    show(): Progress | null {
      if (pages < 2) return null;
      const now = clock.monotonic();
      const [first] = lags;
      const last = lags.at(-1);
      const gained = first && last ? (first.lagMs - last.lagMs) / Math.max(1, last.at - first.at) : 0;
      const span = first && last ? last.at - first.at : 0;
      return {
        pages,
        events,
        perMinute: Math.round((events * MINUTE_MS) / Math.max(MINUTE_MS, now - since)),
        endsAt: last && gained > 0 ? iso(Math.round(clock.now() + Math.max(0, last.lagMs) / gained)) : null,
        behind: first ? span >= BEHIND_MS && gained <= 0 : now - since >= 2 * BEHIND_MS,
      };
    },
  };
}

export function wordsOf({ pages, events, perMinute, endsAt }: Progress): string {
  const end = endsAt === null ? 'end not known yet' : `done about ${endsAt}`;
  return `catching up: ${pages} pages, ${events} events, ${perMinute} a minute, ${end}`;
}
