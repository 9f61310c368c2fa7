// Where a reading goes on behind empty pages that say that there is more (a key sees less than its account has, and is
// filtered after the limit). A place in memory, apart from the watermark, which follows items alone.
import { compareCursors, type Cursor } from '../wire/cursor.ts';

/** Empty pages in a row, after which reading pauses for an interval. */
export const EMPTY_PAGES = 100;

interface Position {
  /** What the reading itself asks for. */
  base: Cursor | null;
  at: Cursor;
  pages: number;
  /** Refused once: asked once more. */
  refused: boolean;
  /** By the monotonic clock: not before. */
  pauseUntil: number;
}

export interface Positions<Reading> {
  /** Where to ask, for a reading that would ask for `base`. */
  of(reading: Reading, base: Cursor | null): Cursor | null;
  pauseUntil(reading: Reading): number;
  /** An empty page has named `next`. True: after so many of them, reading is to pause until then. */
  follow(reading: Reading, base: Cursor | null, next: Cursor, pauseUntil: number): boolean;
  /** The service refuses the position. True: it was asked once more already, and is left. */
  refused(reading: Reading): boolean;
  leave(reading: Reading): void;
  /** Nobody waits for an interval any more. */
  hurry(): void;
}

export function createPositions<Reading>(): Positions<Reading> {
  const positions = new Map<Reading, Position>();
  return {
    of(reading, base) {
      const position = positions.get(reading);
      // One that asks for less than before has been sent back; one that asks for more has got there otherwise.
      if (position && isAtMost(position.base, base) && base !== position.at && isAtMost(base, position.at))
        return position.at;
      positions.delete(reading);
      return base;
    },
    pauseUntil: (reading) => positions.get(reading)?.pauseUntil ?? -Infinity,
    follow(reading, base, next, pauseUntil) {
      const pages = (positions.get(reading)?.pages ?? 0) + 1;
      const full = pages >= EMPTY_PAGES;
      const until = full ? pauseUntil : -Infinity;
      positions.set(reading, { base, at: next, pages: full ? 0 : pages, refused: false, pauseUntil: until });
      return full;
    },
    refused(reading) {
      const position = positions.get(reading);
      if (!position || position.refused) {
        positions.delete(reading);
        return true;
      }
      position.refused = true;
      return false;
    },
    leave: (reading) => void positions.delete(reading),
    hurry() {
      for (const position of positions.values()) position.pauseUntil = -Infinity;
    },
  };
}

function isAtMost(a: Cursor | null, b: Cursor | null): boolean {
  return a === null || (b !== null && compareCursors(a, b) <= 0);
}
