// How a long catch-up goes: pages, events, their rate, and when it will be at its end, told by how much history is read in
// how much time. Cursors say nothing of that.
import { iso, type Clock } from '../base/clock.ts';
import type { Progress } from '../store/keep.ts';

const MINUTE_MS = 60_000;
/** After so long without coming nearer to now, the budget does not suffice. */
const BEHIND_MS = 300_000;

export interface CatchUp {
  /** A page with so many events, of which the youngest happened then (Unix milliseconds). */
  page(events: number, youngest: number | null): void;
  /** It has reached the end. */
  end(): void;
  /** Null until there was a second page. */
  show(): Progress | null;
}

export function createCatchUp(clock: Clock): CatchUp {
  let since = 0;
  /** The wall clock less the monotonic one at the first page: a clock that is set on the way changes no lag. */
  let offset = 0;
  let pages = 0;
  let events = 0;
  /** How far what is read lies in the past, at which time. */
  let lags: { at: number; lagMs: number }[] = [];

  return {
    page(more, youngest) {
      const now = clock.monotonic();
      if (pages === 0) [since, offset] = [now, clock.now() - now];
      pages++;
      events += more;
      if (youngest === null) return;
      lags.push({ at: now, lagMs: now + offset - youngest });
      while ((lags[1]?.at ?? now) < now - BEHIND_MS) lags.shift();
    },
    end() {
      pages = 0;
      events = 0;
      lags = [];
    },
    show() {
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

/** In words, for people. */
export function wordsOf({ pages, events, perMinute, endsAt }: Progress): string {
  const end = endsAt === null ? 'its end cannot be told yet' : `at its end about ${endsAt}`;
  return `catching up: ${pages} pages, ${events} events, ${perMinute} a minute, ${end}`;
}
