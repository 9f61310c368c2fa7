// Which items of a page are used: as many as were asked for, the lowest cursors first.
import { compareCursors, parseCursor, type Cursor } from '../wire/cursor.ts';

/** Items without a cursor that are kept of a page: enough to see what they are. */
export const KEPT_WITHOUT_CURSOR = 10;

/** As many items as were asked for, the lowest cursors first; `more`: the rest is to be read again. */
export function choose(events: unknown[], after: Cursor | null, limit: number) {
  const floating: unknown[] = [];
  const placed: { cursor: Cursor; item: unknown }[] = [];
  for (const item of events) {
    const cursor = cursorOf(item);
    if (cursor) placed.push({ cursor, item });
    else floating.push(item);
  }
  const aside = floating.slice(0, KEPT_WITHOUT_CURSOR);
  const all = { items: [...placed.map(({ item }) => item), ...aside], more: false, withoutCursor: floating.length };
  if (placed.length <= limit) return all;
  const wanted = placed
    .filter(({ cursor }) => isAbove(cursor, after))
    .toSorted((a, b) => compareCursors(a.cursor, b.cursor))
    .filter(({ cursor }, i, sorted) => cursor !== sorted[i - 1]?.cursor);
  const items = [...wanted.slice(0, limit).map(({ item }) => item), ...aside];
  return { ...all, items, more: wanted.length > limit };
}

function cursorOf(item: unknown): Cursor | undefined {
  return parseCursor((item as { cursor?: unknown } | null)?.cursor);
}

/** Null lies below everything. */
export function isAbove(a: Cursor | null, b: Cursor | null): boolean {
  return a !== null && (b === null || compareCursors(a, b) > 0);
}
