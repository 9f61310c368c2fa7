// How a stretch to verify is asked for, by the command line and by the page; `keep` does the reading.
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import type { EventStore, KeepStore, VerifyAccount } from './store.ts';

/**
 * Where a stretch begins: behind a cursor that is known; for a time, behind the newest received before it. Null where
 * nothing that old is stored, undefined where the text is neither.
 */
export async function beginningOf(store: Pick<KeepStore, 'anchors'>, text: string): Promise<Cursor | null | undefined> {
  const cursor = parseCursor(text);
  if (cursor) return cursor;
  // Without a zone it is UTC, as everywhere.
  const zoned = /T.*(Z|[+-]\d\d:?\d\d)$|^[\d-]+$/.test(text) ? text : `${text}Z`;
  const time = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(zoned) : NaN;
  if (Number.isNaN(time)) return undefined;
  const { older, lowest } = await store.anchors(time);
  return older ?? lowest;
}

export async function askToVerify(store: Pick<EventStore, 'note'>, from: Cursor, asked: number): Promise<void> {
  const fresh: VerifyAccount = {
    state: 'running',
    reason: null,
    asked,
    from,
    at: from,
    pages: 0,
    events: 0,
    types: [],
  };
  await store.note({}, { verify: JSON.stringify(fresh) });
}
