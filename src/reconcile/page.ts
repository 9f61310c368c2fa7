// What a page of ReplayEvents says, and how much of it can be trusted. A page that cannot be read whole moves nothing;
// one that lies about where it ends is believed only as far as its own items go (contract 4.2).
import { parseCursor, compareCursors, type Cursor } from '../wire/cursor.ts';
import { readItem, type Reading } from '../wire/event.ts';
import { REPLAY_LIMIT, replayItem, replayPage } from '../wire/replay.ts';
import { choose, isAbove } from './choose.ts';

export interface Page {
  /** In cursor order. */
  readings: Reading[];
  /** The lowest cursor shown; null where there is none. */
  first: Cursor | null;
  /** The highest cursor shown, `after` if there is none: how far replay has proved that nothing is missing. */
  proved: Cursor | null;
  /** A page without items says that there is more behind this cursor; null: it does not. */
  onward: Cursor | null;
  /** When the youngest of its events happened, Unix milliseconds; null where none tells. */
  youngest: number | null;
  /** Where the service says to read on. */
  next: Cursor | null;
  hasMore: boolean;
  reset: boolean;
  /** Events of types that EVENT_TYPES leaves out. */
  otherTypes: number;
  /** What was wrong, though the page could be used. */
  oddities: string[];
}

/** Throws PageError where nothing of it may be used. */
export class PageError extends Error {
  constructor(reason: string) {
    super(`a page of ReplayEvents was refused: ${reason}`);
    this.name = 'PageError';
  }
}

export interface PageOptions {
  /** How many items were asked for. */
  limit?: number;
  /** What is proved already: `after`, unless reading has followed empty pages. */
  known?: Cursor | null;
  /** An item at or above it proves nothing. */
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
  const { next_cursor, has_more, reset_required } = parsed.data;
  const oddities: string[] = [];
  const { items: events, more, withoutCursor } = choose(parsed.data.events, after, limit);
  const placed: { cursor: Cursor; reading: Reading }[] = [];
  const floating: Reading[] = [];
  let otherTypes = 0;
  for (const item of events) {
    const { cursor, reading } = readOne(item);
    if (!cursor) floating.push(reading);
    else if ('event' in reading && !wanted(reading.event.type, types)) {
      otherTypes++;
      placed.push({ cursor, reading: SKIPPED });
    } else placed.push({ cursor, reading });
  }
  const ordered = placed.toSorted((a, b) => compareCursors(a.cursor, b.cursor));
  const first = ordered[0]?.cursor ?? null;
  const odd = (holds: boolean, words: string): void => void (holds && oddities.push(words));
  odd(
    ordered.some((one, i) => one !== placed[i]),
    'items out of order',
  );
  odd(
    ordered.some(({ cursor }, i) => cursor === ordered[i + 1]?.cursor),
    'items shown twice',
  );
  odd(first !== null && after !== null && compareCursors(first, after) <= 0, 'items that were not asked for');
  odd(parsed.data.events.length > limit, `more than ${limit} items`);
  odd(withoutCursor > 0, 'items without a cursor');
  odd(
    placed.some(({ reading }) => 'unreadable' in reading && reading !== SKIPPED),
    'items that cannot be read',
  );
  const last = ordered.at(-1)?.cursor ?? null;
  const below = ordered.findLast(({ cursor }) => ceiling === null || isAbove(ceiling, cursor))?.cursor ?? null;
  const proved = isAbove(below, known) ? below : known;
  const next = parseCursor(next_cursor) ?? null;
  const empty = parsed.data.events.length === 0;
  const onward = has_more && empty && next !== null && isAbove(next, after) ? next : null;
  if (proved === null && has_more && onward === null) throw new PageError('it is empty, and yet there is more');
  if (next_cursor && next === null) oddities.push('next_cursor is no cursor');
  // Above it is where a filter has come to.
  if (next !== null && last !== null && !more && isAbove(last, next)) oddities.push('next_cursor is not the last item');
  const readings = [...ordered.flatMap(({ reading }) => (reading === SKIPPED ? [] : [reading])), ...floating];
  const times = readings.flatMap((one) =>
    'event' in one && one.event.createdAt !== null ? [one.event.createdAt] : [],
  );
  const youngest = times.length === 0 ? null : times.reduce((a, b) => Math.max(a, b));
  const rest = { reset: reset_required, otherTypes, oddities };
  return { readings, first, proved, onward, youngest, next, hasMore: has_more || more, ...rest };
}

/** Stands for an event that is counted, not stored. */
const SKIPPED: Reading = { unreadable: { origin: 'replay', cursor: null, body: new Uint8Array(), reason: '' } };

function readOne(item: unknown): { cursor: Cursor | null; reading: Reading } {
  const parsed = replayItem.safeParse(item);
  const cursor = parsed.success ? parseCursor(parsed.data.cursor) : undefined;
  if (parsed.success && cursor) return { cursor, reading: readItem('replay', cursor, parsed.data.json_payload) };
  const known = parseCursor((item as { cursor?: unknown } | null)?.cursor) ?? null;
  const reason = known ? 'the replay item has no json_payload' : 'the replay item has no readable cursor';
  const body = Buffer.from(JSON.stringify(item) ?? '');
  return { cursor: known, reading: { unreadable: { origin: 'replay', cursor: known, body, reason } } };
}

function wanted(type: string, types: string[]): boolean {
  return types.includes('*') || types.includes(type);
}
