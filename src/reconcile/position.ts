// The position of a pass after empty pages that promise more. They occur because the service applies the limit before
// it filters, if a key is restricted to some numbers. The position is only in memory. Empty pages do not move the
// watermark, because only items prove something.
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
      // A lower base means that the pass was sent back. A higher base means that it has passed the empty pages.
      if (position && !isBehind(base, position.base) && isBehind(base, position.at)) return position.at;
      positions.delete(pass);
      return base;
    },
    pauseUntil: (pass: Pass): number => positions.get(pass)?.pauseUntil ?? -Infinity,
    /** An empty page named `next`. True: there were too many, so the pass pauses until `pauseUntil`. */
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
