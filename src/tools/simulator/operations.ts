// The operations that the simulator answers (contract 4.2), and the schema of their requests.
import { z } from 'zod';
import type { History, SimulatedEvent } from './history.ts';
import type { Key, Keys } from './keys.ts';
import { Refusal } from './refusal.ts';

export interface Operation {
  /** The key needs one of these scopes. Empty: every valid key is accepted. */
  scopes: string[];
  /** Needs a quote (contract 7.4, BILLING_QUOTE_REQUIRED). */
  paid?: boolean;
  /** The response object. Throws Refusal. */
  answer(request: Record<string, unknown>, key: Key): object;
}

const EVENTS_PER_CALL = 1_000;
const replayRequest = z.strictObject({
  after_cursor: z.string().optional(),
  limit: z.int().min(1).max(EVENTS_PER_CALL).optional(),
});

/** The contract does not say how ReplayEvents filters for a key that is restricted to some numbers. */
export interface ReplayRules {
  /** True: `limit` is applied before the filter, so a page can be short or empty although more events follow. */
  filterAfterLimit: boolean;
}

export function createOperations(options: {
  history: History;
  keys: Keys;
  replay: ReplayRules;
}): Map<string, Operation> {
  const { history, keys, replay } = options;

  function replayEvents(request: unknown, key: Key): object {
    const { after_cursor: after = null, limit = EVENTS_PER_CALL } = valid(replayRequest, request, 'REQUEST_INVALID');
    const sees = (event: SimulatedEvent): boolean => keys.reads(key, event);
    const page = history.after(after, limit, replay.filterAfterLimit ? undefined : sees);
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
  }

  return new Map<string, Operation>([
    // The contract does not show the fields of this response.
    ['GetApiKeyIdentity', { scopes: [], answer: () => ({}) }],
    ['ReplayEvents', { scopes: ['events:read'], answer: replayEvents }],
    ['ResumeCampaign', { scopes: ['product:campaigns'], paid: true, answer: () => ({ ok: true }) }],
  ]);
}

/** Throws Refusal 400 with this reason if the schema rejects the value. */
export function valid<Shape>(schema: z.ZodType<Shape>, value: unknown, reason: string): Shape {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Refusal(400, reason);
  return parsed.data;
}
