// Reads a page of ReplayEvents and decides up to which cursor it proves that no event is missing (contract 4.2). A page
// that does not fit the contract is refused. If a page is wrong about where it ends, only its own items count.
import { compareCursors, isBehind, parseCursor, type Cursor } from '../wire/cursor.ts';
import { readItem, type Reading } from '../wire/event.ts';
import { REPLAY_LIMIT, replayItem, replayPage } from '../service/shapes.ts';

export interface Page {
  /** In cursor order. */
  readings: Reading[];
  /** The lowest cursor shown. Null: the page has no items. */
  first: Cursor | null;
  /** No event is missing up to this cursor. It is the highest cursor shown, or `known` if `known` is higher. */
  proved: Cursor | null;
  /** The cursor to continue after, if the page is empty but promises more. Otherwise null. */
  onward: Cursor | null;
  /** When the newest event of the page happened, Unix milliseconds. Null: unknown. */
  youngest: number | null;
  /** The cursor to continue after, according to the service. */
  next: Cursor | null;
  hasMore: boolean;
  reset: boolean;
  /** The number of events whose type EVENT_TYPES leaves out. */
  otherTypes: number;
  /** Faults of a page that is still usable. */
  oddities: string[];
}

/** The page cannot be used at all. */
export class PageError extends Error {
  constructor(reason: string) {
    super(`a page of ReplayEvents was refused: ${reason}`);
    this.name = 'PageError';
  }
}

export interface PageOptions {
  /** The number of items that was asked for. */
  limit?: number;
  /** No event is missing up to this cursor. It is `after`, or lower if empty pages led to `after`. */
  known?: Cursor | null;
  /** Items at or above this cursor do not raise `proved`. Null: no limit. */
  ceiling?: Cursor | null;
}

export function readPage(
  response: unknown,
  after: Cursor | null,
  types: string[],
  { limit = REPLAY_LIMIT, known = after, ceiling = null }: PageOptions = {},
): Page {
  const parsed = replayPage.safeParse(response);
  if (!parsed.success) throw new PageError(`${parsed.error.issues[0]?.path.join('.')} does not fit the contract`);
  const { events, next_cursor, has_more, reset_required: reset } = parsed.data;
  const { placed, aside, withoutCursor, more } = choose(events, after, limit);
  const hasMore = has_more || more;
  const shown = placed.map(({ cursor, item }) => ({ cursor, reading: readOne(item, cursor) }));
  const ordered = shown.toSorted((a, b) => compareCursors(a.cursor, b.cursor));
  const first = ordered[0]?.cursor ?? null;
  const last = ordered.at(-1)?.cursor ?? null;
  const top = ordered.findLast(({ cursor }) => ceiling === null || isBehind(cursor, ceiling))?.cursor ?? null;
  const proved = isBehind(known, top) ? top : known;
  const next = parseCursor(next_cursor) ?? null;
  const onward = has_more && events.length === 0 && isBehind(after, next) ? next : null;
  if (proved === null && has_more && onward === null) throw new PageError('it is empty, and yet there is more');

  const kept = ordered.map(({ reading }) => reading).filter((one) => !('event' in one) || wants(types, one.event.type));
  const readings = [...kept, ...aside.map((item) => readOne(item, null))];
  const otherTypes = ordered.length - kept.length;
  const times = readings.map((one) => ('event' in one ? one.event.createdAt : null)).filter((time) => time !== null);
  const youngest = times.length > 0 ? Math.max(...times) : null;
  const odd = {
    'items out of order': ordered.some((one, i) => one !== shown[i]),
    'items shown twice': ordered.some(({ cursor }, i) => cursor === ordered[i + 1]?.cursor),
    'items that were not asked for': first !== null && !isBehind(after, first),
    [`more than ${limit} items`]: events.length > limit,
    'items without a cursor': withoutCursor > 0,
    'items that cannot be read': kept.some((reading) => 'unreadable' in reading),
    'next_cursor is no cursor': Boolean(next_cursor) && next === null,
    // A higher next_cursor is correct, because the service may have filtered out later events.
    'a next_cursor that is not the last item': next !== null && !more && isBehind(next, last),
  };
  const oddities = Object.entries(odd).flatMap(([words, holds]) => (holds ? [words] : []));
  return { readings, first, proved, onward, youngest, next, hasMore, reset, otherTypes, oddities };
}

/** At most this many items without a cursor are kept from a page: enough to see what they are. */
const KEPT_WITHOUT_CURSOR = 10;

/** Keeps up to `limit` items, those with the lowest cursors. `more`: items were dropped and must be read again. */
export function choose(events: unknown[], after: Cursor | null, limit: number) {
  const items = events.map((item) => ({ cursor: parseCursor((item as { cursor?: unknown } | null)?.cursor), item }));
  const floating = items.filter(({ cursor }) => !cursor).map(({ item }) => item);
  const aside = floating.slice(0, KEPT_WITHOUT_CURSOR);
  const placed = items.filter((one): one is { cursor: Cursor; item: unknown } => one.cursor !== undefined);
  if (placed.length <= limit) return { placed, aside, withoutCursor: floating.length, more: false };
  const wanted = placed
    .filter(({ cursor }) => isBehind(after, cursor))
    .toSorted((a, b) => compareCursors(a.cursor, b.cursor))
    .filter(({ cursor }, i, sorted) => cursor !== sorted[i - 1]?.cursor);
  return { placed: wanted.slice(0, limit), aside, withoutCursor: floating.length, more: wanted.length > limit };
}

function readOne(item: unknown, cursor: Cursor | null): Reading {
  const { bytes } = (item ?? {}) as { bytes?: unknown };
  if (bytes instanceof Uint8Array)
    return { unreadable: { origin: 'replay', cursor, body: bytes, reason: 'the replay item is not UTF-8' } };
  const parsed = replayItem.safeParse(item);
  if (parsed.success && cursor) return readItem('replay', cursor, parsed.data.json_payload);
  const reason = cursor ? 'the replay item has no json_payload' : 'the replay item has no readable cursor';
  return { unreadable: { origin: 'replay', cursor, body: Buffer.from(JSON.stringify(item) ?? ''), reason } };
}

/** True if EVENT_TYPES includes the type. */
export function wants(types: string[], type: string): boolean {
  return types.includes('*') || types.includes(type);
}
