// Where a pass continues after empty pages that promise more. If the API key is restricted to some phone numbers, pages
// can be empty, because the service applies the limit before it filters. The position is kept in memory only. Empty
// pages do not raise the watermark, because only items prove that no event is missing.
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { Pass } from './pass.ts';

/** After this many consecutive empty pages the pass pauses for an interval. */
export const EMPTY_PAGES = 100;

interface Position {
  /** The cursor that the pass would ask for without empty pages. */
  base: Cursor | null;
  at: Cursor;
  pages: number;
  /** The end of the pause, by the monotonic clock. */
  pauseUntil: number;
}

export type Positions = ReturnType<typeof createPositions>;

export function createPositions() {
  const positions = new Map<Pass, Position>();
  return {
    /** The cursor to ask for, if the pass itself would ask for `base`. */
    of(pass: Pass, base: Cursor | null): Cursor | null {
      const position = positions.get(pass);
      // The pages from `position.base` to `position.at` were empty. If `base` is in this range, the pass skips them.
      if (position && !isBehind(base, position.base) && isBehind(base, position.at)) return position.at;
      positions.delete(pass);
      return base;
    },
    pauseUntil: (pass: Pass): number => positions.get(pass)?.pauseUntil ?? -Infinity,
    /** Notes an empty page that names `next`. True: it was one too many, so the pass pauses until `pauseUntil`. */
    follow(pass: Pass, base: Cursor | null, next: Cursor, pauseUntil: number): boolean {
      const pages = (positions.get(pass)?.pages ?? 0) + 1;
      const full = pages >= EMPTY_PAGES;
      const until = full ? pauseUntil : -Infinity;
      positions.set(pass, { base, at: next, pages: full ? 0 : pages, pauseUntil: until });
      return full;
    },
    leave: (pass: Pass): void => void positions.delete(pass),
    /** Ends every pause. */
    hurry() {
      for (const position of positions.values()) position.pauseUntil = -Infinity;
    },
  };
}
