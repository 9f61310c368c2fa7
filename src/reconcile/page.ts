// One call of ReplayEvents (contract 4.2), read strictly. A page that breaks the contract is refused as a whole. An
// item that breaks it goes to quarantine alone.
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { ServiceError, unfit } from '../service/errors.ts';
import { readObject, type Exchange, type Plain } from '../service/exchange.ts';
import { compareCursors, isBehind, parseCursor, type Cursor } from '../wire/cursor.ts';
import { readItem, type Reading } from '../wire/event.ts';

export const LIMIT = 1_000;
const DEADLINE_MS = 30_000;
/** The service's reason when it refuses a cursor (contract 7.4). */
export const LOST = 'EVENT_CURSOR_INVALID';
export const what = 'ReplayEvents';

export interface Page {
  /** In cursor order, each above `after`; then at most ten items without a readable cursor. */
  readings: Reading[];
  cursors: Cursor[];
  /** `next_cursor`: the cursor that the service proposes for the next call. */
  next: Cursor | null;
  hasMore: boolean;
  reset: boolean;
}

const shape = z.object({
  events: z.array(z.unknown()),
  next_cursor: z.string().nullish(),
  has_more: z.boolean(),
  reset_required: z.boolean().default(false),
});

/** Reads the events above `after`. Null: from the oldest that the service has. Throws ServiceError. */
export type Read = (after: Cursor | null, limit: number) => Promise<Page>;

/** Each call waits until the budget allows it. */
export function createRead(exchange: Exchange, budget: { take: () => number }, signal: AbortSignal): Read {
  return async (after, limit) => {
    for (let ms = budget.take(); ms > 0; ms = budget.take()) await sleep(ms, undefined, { signal });
    const body = { request: { ...(after !== null && { after_cursor: after }), limit }, deadlineMs: DEADLINE_MS };
    const ask = { what, path: `/rpc/${what}`, body, limitMs: DEADLINE_MS, safe: true, signal };
    return pageOf(await exchange(ask, readObject), after, limit);
  };
}

/** True: the service no longer accepts the cursor, or never did. */
export function isLost(error: unknown): boolean {
  return error instanceof ServiceError && error.reason === LOST;
}

function pageOf(answer: Plain, after: Cursor | null, limit: number): Page {
  const parsed = shape.safeParse(answer);
  if (!parsed.success) throw unfit(what, 'its answer does not fit the contract, and was refused as a whole');
  const { events, next_cursor, has_more, reset_required } = parsed.data;
  const items = new Map<Cursor, unknown>();
  const aside: Reading[] = [];
  for (const item of events) {
    const cursor = parseCursor((item as { cursor?: unknown } | null)?.cursor);
    if (cursor === undefined && aside.length < 10)
      aside.push(unreadable(item, null, 'the replay item has no readable cursor'));
    if (cursor !== undefined && (after === null || isBehind(after, cursor))) items.set(cursor, item);
  }
  // Events beyond `limit` are dropped: the next call reads them again.
  const cursors = [...items.keys()].toSorted(compareCursors).slice(0, limit);
  const readings = cursors.map((cursor) => readOne(items.get(cursor), cursor));
  const hasMore = has_more || items.size > limit;
  return {
    readings: [...readings, ...aside],
    cursors,
    next: parseCursor(next_cursor) ?? null,
    hasMore,
    reset: reset_required,
  };
}

function readOne(item: unknown, cursor: Cursor): Reading {
  const { json_payload: payload } = item as { json_payload?: unknown };
  if (typeof payload === 'string') return readItem('replay', cursor, payload);
  return unreadable(item, cursor, 'the replay item has no json_payload');
}

function unreadable(item: unknown, cursor: Cursor | null, reason: string): Reading {
  return { unreadable: { origin: 'replay', cursor, body: Buffer.from(JSON.stringify(item) ?? ''), reason } };
}
