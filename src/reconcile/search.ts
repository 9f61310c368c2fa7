// Finds where the service's history begins now, when it no longer accepts the watermark.
import { ServiceError } from '../service/errors.ts';
import { isBehind, parseCursor, type Cursor } from '../wire/cursor.ts';
import { isLost, type Page, type Read } from './page.ts';
import type { Database } from '../store/sql.ts';
import { middleStored } from './store.ts';

/** `upTo`: everything up to here is gone. `readings`: what comes then, up to `start`, after which history is read on. */
type Beginning = { upTo: Cursor; readings: Page['readings']; start: Cursor };

/** `newest`: the highest stored cursor. Null: nothing above `refused` was found. Throws ServiceError. */
export async function findBeginning(
  read: Read,
  db: Database,
  refused: Cursor,
  newest: Cursor | null,
): Promise<Beginning | null> {
  const { cursors: [start] = [], readings = [] } = (await ask(read, null)) ?? {};
  const upTo = start && parseCursor(String(BigInt(start) - 1n));
  // A service that counts anew shows lower cursors: each pass would read all of them again.
  if (upTo && !isBehind(upTo, refused)) return { upTo, readings, start };
  // A service that wants a cursor accepts only those of its events: the lowest stored one is searched by halving.
  if (newest === null || !isBehind(refused, newest) || !(await ask(read, newest))) return null;
  let [low, high] = [refused, newest];
  for (;;) {
    const middle = await middleStored(db, low, high);
    if (middle === null) return { upTo: high, readings: [], start: high };
    if (await ask(read, middle)) high = middle;
    else low = middle;
  }
}

/** Null: the service refuses the cursor, or a call without one. */
async function ask(read: Read, after: Cursor | null): Promise<Page | null> {
  const page = await read(after, 1).catch((error: unknown) => {
    if (isLost(error) || (after === null && error instanceof ServiceError && error.status === 400)) return null;
    throw error;
  });
  return page?.reset ? null : page;
}
