// What a receiver asks of the service: replay, the history of messages, quotes, sends and media (contract 4.2, 4.3). Where
// the contract does not show a shape, it is the simplest that the contract allows.
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { History } from './history.ts';
import { createInbox, MEDIA, type Fields } from './inbox.ts';
import { Refusal } from './refusal.ts';

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

/** A call that is refused throws Refusal. `onSent` is called when a message is sent. */
export function createCalls(history: History, onSent: (data: Fields) => void) {
  /** Requests that were priced, by the id of their quote. */
  const quotes = new Map<unknown, Fields>();
  const inbox = createInbox(history);
  /** A page of a list (contract 4.5). If the request names a conversation or a session, the list has only its items. */
  function pageOf(field: string, all: Fields[], request: Fields): Fields {
    const { cursor, limit, ...wanted } = valid(listing, request);
    const asked = ['conversation_id', 'session_id'].filter((name) => wanted[name] !== undefined);
    const found = all.filter((one) => asked.every((name) => one[name] === wanted[name]));
    const end = Number(cursor) + limit;
    return { [field]: found.slice(Number(cursor), end), next_cursor: end < found.length ? String(end) : '' };
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
    /** After an uncertain outcome, a receiver finds its message here (contract 7.3). */
    messages: (request: Fields): object => pageOf('messages', inbox.messages(), request),
    conversations: (request: Fields): object => pageOf('conversations', inbox.conversations(), request),
    media(id: string): typeof MEDIA {
      const isThere = inbox.messages().some((message) => message['id'] === id && message['media']);
      if (!isThere) throw new Refusal(404, 'MEDIA_NOT_FOUND');
      return MEDIA;
    },
    quote(body: Fields): object {
      const quoteId = randomUUID();
      quotes.set(quoteId, valid(quoting, body).request);
      return { quoteId };
    },
    /** Uses up the quote, whether or not the message is then sent (contract 7.3). */
    pay(billing: unknown, request: Fields): void {
      const quoteId = z.looseObject({ quoteId: z.string() }).safeParse(billing).data?.quoteId;
      if (quoteId === undefined) throw new Refusal(428);
      if (!isDeepStrictEqual(quotes.get(quoteId), request)) throw new Refusal(409);
      quotes.delete(quoteId);
    },
    send(request: Fields): object {
      const id = randomUUID();
      inbox.sent(id, request);
      onSent({ message_id: id, ...('session_id' in request && { session_id: request['session_id'] }) });
      return { message: { id } };
    },
  };
}
