// ReplayEvents (contract 4.2, 6.2): the events after a cursor that the key may read.
import { z } from 'zod';
import type { History, SimulatedEvent } from './history.ts';
import type { Key, Keys } from './keys.ts';
import { Refusal } from './refusal.ts';
import { valid } from './valid.ts';

export interface ReplayOptions {
  history: History;
  keys: Keys;
  /**
   * True: `limit` is applied before the filter for a restricted key, so a page can be short or empty although more
   * events follow. The contract does not say which.
   */
  filtersAfterLimit: () => boolean;
}

const MOST = 1_000;
const replaying = z.strictObject({
  after_cursor: z.string().optional(),
  limit: z.int().min(1).max(MOST).optional(),
});

export function createReplay({ history, keys, filtersAfterLimit }: ReplayOptions) {
  return (request: unknown, key: Key): object => {
    const { after_cursor: after = null, limit = MOST } = valid(replaying, request, 'REQUEST_INVALID');
    const sees = (event: SimulatedEvent): boolean => keys.reads(key, event);
    const page = history.after(after, limit, filtersAfterLimit() ? undefined : sees);
    if (page === 'unknown') throw new Refusal(400, 'EVENT_CURSOR_INVALID');
    const { events, hasMore } = page === 'expired' ? { events: [], hasMore: false } : page;
    return {
      events: events
        .filter(sees)
        .map(({ cursor, type, data }) => ({ cursor, json_payload: JSON.stringify({ [type]: data }) })),
      next_cursor: events.at(-1)?.cursor ?? after ?? '',
      has_more: hasMore,
      reset_required: page === 'expired',
    };
  };
}
