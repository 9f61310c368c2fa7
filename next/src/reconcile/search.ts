// Looks by halving for the oldest cursor that the service still accepts.
import { isBehind, parseCursor, type Cursor } from '../wire/cursor.ts';
import { ReplayFault, type Page } from './page.ts';
import type { ReplayStore } from './store.ts';

type Read = (after: Cursor | null, limit: number) => Promise<Page>;
type Stored = Pick<ReplayStore, 'count' | 'nth'>;

/** Above `refused`, up to `newest`. Null: the service accepts none of them. Throws ReplayFault. */
export async function findOldest(
  read: Read,
  stored: Stored,
  refused: Cursor,
  newest: Cursor | null,
): Promise<Cursor | null> {
  if (newest === null || !isBehind(refused, newest)) return null;
  if ((await ask(read, newest)) !== 'accepted') return null;
  let low = BigInt(refused);
  let high = newest;
  while (BigInt(high) - low > 1n) {
    const middle = parseCursor(String((low + BigInt(high)) / 2n));
    const answer = middle === undefined ? 'unknown' : await ask(read, middle);
    // It refuses numbers that were never events: only stored ones are tried.
    if (middle === undefined || answer === 'unknown')
      return amongStored(read, stored, parseCursor(String(low)) ?? refused, high);
    if (answer === 'accepted') high = middle;
    else low = BigInt(middle);
  }
  return high;
}

/** Above `low`, up to `high`, which is accepted. */
async function amongStored(read: Read, stored: Stored, low: Cursor, high: Cursor): Promise<Cursor> {
  let first = 0;
  let last = (await stored.count(low, high)) - 1;
  while (first < last) {
    const middle = Math.floor((first + last) / 2);
    const cursor = await stored.nth(low, middle);
    if (cursor !== null && (await ask(read, cursor)) === 'accepted') last = middle;
    else first = middle + 1;
  }
  return (await stored.nth(low, last)) ?? high;
}

async function ask(read: Read, after: Cursor): Promise<'accepted' | 'expired' | 'unknown'> {
  try {
    return (await read(after, 1)).reset ? 'expired' : 'accepted';
  } catch (error) {
    if (error instanceof ReplayFault && error.kind === 'cursor') return 'unknown';
    throw error;
  }
}
