// Where reading can go on after the service has forgotten our cursor: at the lowest cursor known here that it still
// accepts, found by bisection; or before that, at the beginning of what it shows without a cursor. One question at a time.
import { compareCursors, type Cursor } from '../wire/cursor.ts';
import type { Page } from './page.ts';

export interface OldestAvailable {
  /** What to ask for next: a cursor, or null for the beginning. Undefined: the search has ended. */
  next(): Promise<Cursor | null | undefined>;
  /** What was answered; null where the service refused it. */
  learn(page: Page | null): Promise<void>;
  /** The first cursor behind the gap, and the page that was read there; null while, or where, none is found. */
  found(): { upTo: Cursor; page: Page } | null;
  /** Everything known up to here was refused. */
  refused(): Cursor | null;
}

export interface HorizonOptions {
  /** The cursor that the service has forgotten; null: even the beginning. */
  expired: Cursor | null;
  /** What it has named instead. */
  hint: Cursor | null;
  /** Whether to ask for the beginning of what it shows. */
  beginning: boolean;
  /** The lowest cursor known here above this one. */
  known: (above: Cursor | null) => Promise<Cursor | null>;
  /** The highest cursor known here below this one; null: of all. */
  below: (bound: Cursor | null) => Promise<Cursor | null>;
}

export function createOldestAvailable({ expired, hint, beginning, known, below }: HorizonOptions): OldestAvailable {
  let stage: 'beginning' | 'lowest' | 'highest' | 'between' | 'over' = beginning ? 'beginning' : 'lowest';
  /** Refused, as is everything below it. */
  let low = expired;
  let best: { upTo: Cursor; page: Page } | null = null;
  /** Nothing known lies from here up to `best`. */
  let high = 0n;
  let asked: Cursor | null = null;

  /** A stored cursor, or the one that the service has named. */
  async function lowestAbove(bound: Cursor | null): Promise<Cursor | null> {
    const stored = await known(bound);
    if (hint === null || !isAbove(hint, bound)) return stored;
    return stored === null || isAbove(stored, hint) ? hint : stored;
  }

  async function candidate(): Promise<Cursor | null> {
    if (stage === 'lowest') return lowestAbove(low);
    const top = stage === 'highest' ? await below(best?.upTo ?? null) : null;
    if (top !== null && isAbove(top, low)) return top;
    return stage === 'between' ? half() : null;
  }

  async function half(): Promise<Cursor | null> {
    for (let bottom = low === null ? -1n : BigInt(low); bottom + 1n < high;) {
      const middle = (bottom + high) / 2n;
      const found = await lowestAbove(middle === 0n ? null : (String(middle - 1n) as Cursor));
      if (found !== null && BigInt(found) < high) return found;
      // Nothing known in the upper half.
      high = middle;
    }
    return null;
  }

  return {
    async next() {
      if (stage === 'beginning') return null;
      asked = await candidate();
      return asked ?? undefined;
    },
    async learn(page) {
      const accepted = page !== null && !page.reset;
      if (stage === 'beginning') {
        stage = 'lowest';
        if (!accepted || page.first === null || !isAbove(page.first, expired)) return;
        best = { upTo: page.first, page };
        high = BigInt(page.first);
        const lowest = await lowestAbove(low);
        // Where something known lies before it, it may be no beginning at all: that is asked first.
        if (lowest === null || !isAbove(page.first, lowest)) stage = 'over';
      } else if (asked !== null && accepted) {
        best = { upTo: asked, page };
        high = BigInt(asked);
        stage = stage === 'lowest' ? 'over' : 'between';
      } else {
        low = asked;
        stage = stage === 'lowest' ? 'highest' : stage === 'highest' ? 'over' : 'between';
      }
    },
    found: () => best,
    refused: () => low,
  };
}

function isAbove(a: Cursor, b: Cursor | null): boolean {
  return b === null || compareCursors(a, b) > 0;
}
