// Finds the oldest cursor that the service still accepts, by halving the range.
import { isBehind, parseCursor, type Cursor } from '../wire/cursor.ts';
import { isLost, type Read } from './page.ts';
import type { Database } from '../store/sql.ts';
import { middleStored } from './store.ts';

/** Searches above `refused`, up to `newest`. Null: `newest` is not above it, or refused too. Throws ServiceError. */
export async function findOldest(
  read: Read,
  db: Database,
  refused: Cursor,
  newest: Cursor | null,
): Promise<Cursor | null> {
  if (newest === null || !isBehind(refused, newest)) return null;
  if ((await ask(read, newest)) !== 'accepted') return null;
  let low = refused;
  let high = newest;
  let amongStored = false;
  for (;;) {
    const middle = amongStored ? await middleStored(db, low, high) : half(low, high);
    if (middle === null) return high;
    const answer = await ask(read, middle);
    if (answer === 'accepted') high = middle;
    // The service refuses cursors that no event ever had: from here on, only stored cursors are tried.
    else if (answer === 'unknown' && !amongStored) amongStored = true;
    else low = middle;
  }
}

/** The number halfway between the two. Null: no number lies between them. */
function half(low: Cursor, high: Cursor): Cursor | null {
  const middle = parseCursor(String((BigInt(low) + BigInt(high)) / 2n));
  return middle === undefined || middle === low ? null : middle;
}

async function ask(read: Read, after: Cursor): Promise<'accepted' | 'expired' | 'unknown'> {
  try {
    return (await read(after, 1)).reset ? 'expired' : 'accepted';
  } catch (error) {
    if (isLost(error)) return 'unknown';
    throw error;
  }
}
