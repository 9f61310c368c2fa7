// What a receiver asks of the service: replay, the history of messages, quotes and sends (contract 4.2, 4.3). Where the
// contract does not show a shape, it is the simplest that the contract allows.
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { History, SimulatedEvent } from './history.ts';
import { Refusal } from './refusal.ts';

type Fields = Record<string, unknown>;
export type Calls = ReturnType<typeof createCalls>;

const replaying = z.strictObject({
  after_cursor: z.string().nullable().default(null),
  limit: z.int().min(1).max(1_000).default(1_000),
});
const listing = z.looseObject({ cursor: z.string().default(''), limit: z.int().min(1).max(200).default(50) });
const quoting = z.looseObject({ operation: z.string(), request: z.looseObject({}) });

/** Throws Refusal 400 with the reason. */
export function valid<Shape>(schema: z.ZodType<Shape>, value: unknown, reason?: string): Shape {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Refusal(400, reason);
  return parsed.data;
}

/** Each throws Refusal. `onSent`: a message is on its way. */
export function createCalls(history: History, onSent: (data: Fields) => void) {
  /** What was priced, by quote. */
  const quotes = new Map<unknown, Fields>();
  /** Requests by the id of their message. */
  const sent = new Map<unknown, Fields>();

  /** Contract 2.8. */
  function messageOf({ type, sessionId, data }: SimulatedEvent): Fields {
    const { message_id: id, timestamp_unix_ms: at, from, ...words } = data;
    const said: Fields = { ...words, ...sent.get(id) };
    const { conversation_id = `${sessionId}/${String(from ?? said['to'])}` } = said;
    const facts = { id, conversation_id, session_id: sessionId, from_me: type === 'MessageSent' };
    return { ...said, ...facts, created_at_unix_ms: String(at) };
  }

  return {
    replay(request: Fields): object {
      const { after_cursor: after, limit } = valid(replaying, request);
      const { events, hasMore, isExpired } = history.after(after, limit);
      return {
        events: events.map(({ cursor, type, data }) => ({ cursor, json_payload: JSON.stringify({ [type]: data }) })),
        next_cursor: events.at(-1)?.cursor ?? after ?? '',
        has_more: hasMore,
        reset_required: isExpired,
      };
    },
    /** How a message is found again after an uncertain outcome (contract 7.3). */
    list(request: Fields): object {
      const { cursor, limit, conversation_id: wanted } = valid(listing, request);
      const messages = history
        .all()
        .filter(({ type }) => type === 'MessageReceived' || type === 'MessageSent')
        .map(messageOf)
        .filter(({ conversation_id }) => wanted === undefined || conversation_id === wanted);
      const end = Number(cursor) + limit;
      return { messages: messages.slice(Number(cursor), end), next_cursor: end < messages.length ? String(end) : '' };
    },
    quote(body: Fields): object {
      const quoteId = randomUUID();
      quotes.set(quoteId, valid(quoting, body).request);
      return { quoteId };
    },
    /** A quote never fires twice, whether or not the message is sent (contract 7.3). */
    pay(billing: unknown, request: Fields): void {
      const quoteId = z.looseObject({ quoteId: z.string() }).safeParse(billing).data?.quoteId;
      if (quoteId === undefined) throw new Refusal(428);
      if (!isDeepStrictEqual(quotes.get(quoteId), request)) throw new Refusal(409);
      quotes.delete(quoteId);
    },
    send(request: Fields): object {
      const id = randomUUID();
      sent.set(id, request);
      onSent({ message_id: id, ...('session_id' in request && { session_id: request['session_id'] }) });
      return { message: { id } };
    },
  };
}
