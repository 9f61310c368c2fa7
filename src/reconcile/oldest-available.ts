// Finds the oldest event that the service still has, after our cursor has expired. A bisection finds the lowest known
// cursor that the service accepts. A request without a cursor may show an even earlier event. The gap ends at the
// earlier of the two, so that it is as small as possible.
import type { ReplayStore } from '../store/replay.ts';
import { isBehind, type Cursor } from '../wire/cursor.ts';
import type { Page } from './page.ts';

export interface OldestAvailable {
  /** The first cursor after the gap, and the page that was read there. Null: the service accepted no cursor. */
  found: { upTo: Cursor; page: Page } | null;
  /** The service refused every known cursor up to here. */
  refused: Cursor | null;
}

export interface SearchOptions {
  replay: Pick<ReplayStore, 'cursorAbove' | 'cursorBelow'>;
  /** The expired cursor. Null: the service refused even the beginning of history. */
  expired: Cursor | null;
  /** The cursor that the service suggested in place of `expired`. Null: none. */
  hint: Cursor | null;
  /** True: also ask without a cursor, for the first event that the service shows. */
  beginning: boolean;
}

/** Yields each cursor to ask for; null: no cursor. `next` gets the page, or null if the service refused the cursor. */
export async function* findOldestAvailable(
  options: SearchOptions,
): AsyncGenerator<Cursor | null, OldestAvailable, Page | null> {
  const { replay, expired, hint, beginning } = options;
  let found: OldestAvailable['found'] = null;

  /** The lowest cursor above the bound, among stored cursors and the suggested one. */
  async function lowestAbove(bound: Cursor | null): Promise<Cursor | null> {
    const stored = await replay.cursorAbove(bound);
    if (!isBehind(bound, hint)) return stored;
    return stored === null || isBehind(hint, stored) ? hint : stored;
  }

  const first = beginning ? yield null : null;
  if (isAccepted(first) && first.first && isBehind(expired, first.first)) found = { upTo: first.first, page: first };
  const lowest = await lowestAbove(expired);
  // If no known cursor is below the first event that the service shows, there is nothing left to try.
  if (lowest === null || (found && !isBehind(lowest, found.upTo))) return { found, refused: expired };
  const atLowest = yield lowest;
  if (isAccepted(atLowest)) return { found: { upTo: lowest, page: atLowest }, refused: expired };
  const highest = await replay.cursorBelow(found?.upTo ?? null);
  if (highest === null || !isBehind(lowest, highest)) return { found, refused: lowest };
  const atHighest = yield highest;
  if (!isAccepted(atHighest)) return { found, refused: highest };
  found = { upTo: highest, page: atHighest };

  let refused = lowest;
  /** From here up to `found`, no known cursor is left to try. */
  let high = BigInt(highest);
  while (BigInt(refused) + 1n < high) {
    const middle = (BigInt(refused) + high) / 2n;
    const cursor = await lowestAbove(middle === 0n ? null : (String(middle - 1n) as Cursor));
    if (cursor === null || BigInt(cursor) >= high) {
      high = middle;
      continue;
    }
    const page = yield cursor;
    if (isAccepted(page)) {
      found = { upTo: cursor, page };
      high = BigInt(cursor);
    } else refused = cursor;
  }
  return { found, refused };
}

function isAccepted(page: Page | null): page is Page {
  return page !== null && !page.reset;
}
