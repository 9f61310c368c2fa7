// Answers of the simulated account: quotes, sent messages, quick replies, a media file, and the reconnection of
// numbers. If the contract does not show the shape of an answer (4.3), the simulator uses the simplest shape that the
// contract allows.
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Answer } from './faults.ts';
import { valid, type Operation } from './operations.ts';
import type { Random } from '../random.ts';
import { Refusal } from './refusal.ts';

export interface Account {
  /** ListMessages, paged by cursor, and ListQuickReplies, paged by page number (contract 4.2). */
  operations: [string, Operation][];
  /** POST /billing/quotes (4.1, 4.3). */
  quote(call: Record<string, unknown>): object;
  /** Throws Refusal if the quote is missing, was used, or is for another request (4.1, 7.3, 7.4). */
  pay(billing: unknown, request: unknown): void;
  /** POST /messages/send (4.3), once it is paid. */
  send(call: Record<string, unknown>): object;
  /** GET /media/{id} (4.3, 7.4). */
  media(id: string): Answer;
  /** POST /sessions/resume (2.14, 4.3). */
  resume(call: Record<string, unknown>): Answer;
}

const QUICK_REPLIES = 450;
const MEDIA_ID = 'a-picture';

const MOST_PER_PAGE = 200;
const size = z.int().min(1).max(MOST_PER_PAGE).default(50);
const byCursor = z.looseObject({ limit: size, cursor: z.string().default('') });
const byPage = z.looseObject({
  pagination: z.strictObject({ page: z.int().min(1).default(1), page_size: size }).default({ page: 1, page_size: 50 }),
});
const billing = z.looseObject({ quoteId: z.string() });
const resuming = z.object({ request: z.object({ session_id: z.string() }) });

export function createAccount(options: {
  numbers: string[];
  random: Random;
  onSent: (message: { message_id: string }) => void;
}): Account {
  const { numbers, random, onSent } = options;
  const messages: object[] = [];
  const quotes = new Map<string, unknown>();
  const replies = Array.from({ length: QUICK_REPLIES }, (_, i) => ({ id: String(i + 1), label: `reply ${i + 1}` }));

  function listMessages(request: Record<string, unknown>): object {
    const { limit, cursor } = valid(byCursor, request, 'REQUEST_INVALID');
    const end = Number(cursor) + limit;
    return { messages: messages.slice(Number(cursor), end), next_cursor: end < messages.length ? String(end) : '' };
  }

  function listQuickReplies(request: Record<string, unknown>): object {
    const { page, page_size } = valid(byPage, request, 'REQUEST_INVALID').pagination;
    const total_pages = Math.ceil(replies.length / page_size);
    return {
      messages: replies.slice((page - 1) * page_size, page * page_size),
      page: { page, page_size, total_pages, total_items: String(replies.length), has_next_page: page < total_pages },
    };
  }

  return {
    operations: [
      ['ListMessages', { scopes: ['product:inbox'], answer: listMessages }],
      ['ListQuickReplies', { scopes: ['product:inbox'], answer: listQuickReplies }],
    ],
    quote({ request }) {
      const quoteId = random.uuid();
      quotes.set(quoteId, request);
      return { quoteId };
    },
    pay(paying, request) {
      const quoteId = billing.safeParse(paying).data?.quoteId;
      if (quoteId === undefined) throw new Refusal(428, 'BILLING_QUOTE_REQUIRED');
      const isMade = quotes.has(quoteId) && isDeepStrictEqual(quotes.get(quoteId), request);
      if (!isMade) throw new Refusal(409, 'BILLING_QUOTE_EXPIRED');
      quotes.delete(quoteId);
    },
    send({ request }) {
      const id = random.uuid();
      messages.push({ id, from_me: true, ...(request as object) });
      onSent({ message_id: id });
      return { message: { id } };
    },
    media(id) {
      if (id !== MEDIA_ID) throw new Refusal(404, 'MEDIA_NOT_FOUND');
      return { status: 200, headers: { 'content-type': 'image/png' }, body: 'not much of a picture' };
    },
    resume(call) {
      const { session_id } = valid(resuming, call, 'REQUEST_INVALID').request;
      if (!numbers.includes(session_id)) throw new Refusal(404, 'SESSION_NOT_FOUND');
      return { status: 200, headers: { 'content-type': 'text/event-stream' }, body: progressOf(session_id) };
    },
  };
}

/** The stream that reports the progress of a number's reconnection. */
function progressOf(session_id: string): string {
  const messages: [string, object][] = [
    ['message', { event: 'progress', progress: { stage: 'connecting', session_id } }],
    ['message', { event: 'connected', connected: { phone: '15550100', connected_at_unix_ms: '1767225600000' } }],
    ['end', {}],
  ];
  return messages.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join('');
}
