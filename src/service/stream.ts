// Reads GET /events (contract 4.4, 6.1, 8): the domain events after a cursor, over as many connections as needed. It
// reconnects at the pace that the contract asks for, and ends only if another connection cannot help. The payloads
// are passed on as text.
import { setTimeout as sleep } from 'node:timers/promises';
import { isBehind, parseCursor, type Cursor } from '../wire/cursor.ts';
import { LAST_EVENT_ID } from '../wire/headers.ts';
import { messagesOf, readText, type Message } from './answers.ts';
import { errorOf, ServiceError } from './errors.ts';
import type { Fetch } from './exchange.ts';

export interface StreamItem {
  cursor: Cursor;
  /** The text of `{ "<EventType>": { … } }`; its bytes if they are not UTF-8. */
  payload: string | Buffer;
}

/**
 * `ping`: a sign of life. `open`: later items come after this cursor; null: only new items come. `refresh`: the stream
 * leaves out events, which must be fetched elsewhere. `unreadable`: an item cannot be used. `lost`: the reader
 * reconnects after `waitMs`.
 */
export type StreamNews =
  | { kind: 'ping' }
  | { kind: 'open'; after: Cursor | null }
  | { kind: 'refresh' | 'unreadable'; reason: string }
  | { kind: 'lost'; reason: string; waitMs: number };

export interface StreamOptions {
  baseUrl: string;
  apiKey: string;
  /** The last cursor that was processed. Null: begin with new events. */
  after: Cursor | null;
  /** Default: the global fetch. */
  fetch?: Fetch | undefined;
  /** Asks for campaign and warm-up events, too. A key restricted to some numbers may not read them (contract 4.4). */
  product?: boolean;
  signal: AbortSignal;
  onNews?: (news: StreamNews) => void;
  /** After this many milliseconds without data, the reader reconnects. Pings come every 25 s. Default: 60 000. */
  silentMs?: number;
  /** The first wait before a new connection, in milliseconds. It doubles up to thirty times this value. */
  firstWaitMs?: number | undefined;
}

const WHAT = 'GET /events';
/** Codes after which a new connection does not help (contract 7.2). */
const FINAL = new Set(['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND', 'VALIDATION_FAILED']);
/** Only a connection longer than this resets the waits, because 10 opens a minute are allowed (contract 8). */
const GOOD_MS = 30_000;

/**
 * Yields the items that arrived together, in order. Items count as processed when the next ones are requested, and a
 * new connection continues after them. Ends when the signal aborts. Throws ServiceError if the service refuses the key
 * or the cursor.
 */
export async function* readStream(options: StreamOptions): AsyncGenerator<StreamItem[], void, void> {
  const { signal, onNews, firstWaitMs = 1_000 } = options;
  let { after } = options;
  for (let failures = 0; !signal.aborted; failures++) {
    const openedAt = performance.now();
    let reason = 'the service ended it';
    let limited = false;
    try {
      for await (const items of connect(options, after)) {
        yield items;
        for (const { cursor } of items) if (isBehind(after, cursor)) after = cursor;
      }
    } catch (error) {
      if (error instanceof ServiceError && FINAL.has(error.code)) throw error;
      reason = error instanceof ServiceError ? error.message : 'the connection broke';
      limited = error instanceof ServiceError && error.code === 'RATE_LIMITED';
    }
    if (performance.now() - openedAt > GOOD_MS) failures = 0;
    // After a 429 the waits vary, so that several clients do not come back together (contract 8).
    const waitMs = firstWaitMs * Math.min(30, 2 ** failures) * (limited ? 1 + Math.random() / 2 : 1);
    if (signal.aborted) return;
    onNews?.({ kind: 'lost', reason, waitMs });
    await sleep(waitMs, undefined, { signal }).catch(() => {});
  }
}

async function* connect(options: StreamOptions, after: Cursor | null): AsyncGenerator<StreamItem[], void, void> {
  const { baseUrl, apiKey, onNews, product = false, silentMs = 60_000, fetch = globalThis.fetch } = options;
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(), silentMs);
  try {
    const response = await fetch(`${baseUrl.replace(/\/+$/, '')}/events${product ? '?include_product=true' : ''}`, {
      redirect: 'error',
      headers: {
        authorization: `Bearer ${apiKey}`,
        accept: 'text/event-stream',
        'accept-encoding': 'identity',
        ...(after === null ? {} : { [LAST_EVENT_ID]: after }),
      },
      signal: AbortSignal.any([options.signal, silence.signal]),
    });
    if (!response.ok) throw errorOf(WHAT, response, await readText(response, WHAT));
    if (!response.headers.get('content-type')?.startsWith('text/event-stream'))
      throw failure('the answer is not an event stream');
    onNews?.({ kind: 'open', after });
    for await (const messages of messagesOf(response.body ?? [], WHAT)) {
      timer.refresh();
      let items: StreamItem[] = [];
      for (const message of messages) {
        const item = itemOf(message);
        if (item) items.push(item);
        else if (message.event === 'ping') onNews?.({ kind: 'ping' });
        else {
          // Items that came before this message are yielded before `onNews` is called for the message.
          if (items.length > 0) yield items;
          items = [];
          if (message.event === 'end') return;
          tell(message, onNews);
        }
      }
      if (items.length > 0) yield items;
    }
  } catch (error) {
    throw silence.signal.aborted ? failure(`no data for ${silentMs} ms`) : error;
  } finally {
    clearTimeout(timer);
    // Closes the connection, even if the reader stops early.
    silence.abort();
  }
}

function itemOf({ event, id, data, bytes }: Message): StreamItem | undefined {
  const cursor = event === 'domain' ? parseCursor(id) : undefined;
  return cursor && { cursor, payload: bytes ?? data };
}

function tell({ event, data }: Message, onNews: StreamOptions['onNews']): void {
  if (event === 'error') throw errorOf(WHAT, new Response(null), data);
  if (event === 'refresh')
    onNews?.({ kind: 'refresh', reason: /"reason"\s*:\s*"(\w{1,40})"/.exec(data)?.[1] ?? 'unknown' });
  if (event === 'domain') onNews?.({ kind: 'unreadable', reason: 'an event without a decimal cursor' });
}

function failure(what: string): ServiceError {
  return new ServiceError({ code: 'unreadable', message: `${WHAT}: ${what}` });
}
