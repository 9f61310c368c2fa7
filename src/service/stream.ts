// GET /events (contract 4.4, 6.1, 8): the domain events of one connection after another, from a cursor on. Reconnects as
// the contract asks, and ends only where repeating cannot help. Knows nothing of what the events are.
import { setTimeout as sleep } from 'node:timers/promises';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import { errorOf, readText, ServiceError } from './service.ts';

export interface StreamItem {
  cursor: Cursor;
  /** The text of `{ "<EventType>": { … } }`. */
  payload: string;
}

/** `refresh`: what the stream cannot bring must be fetched otherwise. `lost`: it connects again after `waitMs`. */
export type StreamNews =
  | { kind: 'open' | 'ping' }
  | { kind: 'refresh' | 'unreadable'; reason: string }
  | { kind: 'lost'; reason: string; waitMs: number };

export interface StreamOptions {
  baseUrl: string;
  apiKey: string;
  /** The last cursor that was processed; null begins at now. */
  after: Cursor | null;
  signal: AbortSignal;
  onNews?: (news: StreamNews) => void;
  /** Milliseconds without a sign of life; pings come every 25 s. */
  silentMs?: number;
  /** The first wait before connecting again; it doubles up to thirty times as long. */
  firstWaitMs?: number;
  /** The longest event, in characters. */
  longest?: number;
}

/** Contract 7.2: codes after which the same call does no better. */
const FINAL = new Set(['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND', 'VALIDATION_FAILED']);
/** A connection that lasted as long was a good one. A shorter one must not lead past 10 opens a minute (contract 8). */
const GOOD_MS = 30_000;

/**
 * An item counts as processed when the next is asked for: a new connection goes on behind it. Ends when the signal says
 * so; throws ServiceError where the key or the cursor is refused.
 */
export async function* readStream(options: StreamOptions): AsyncGenerator<StreamItem, void, void> {
  const { signal, onNews, firstWaitMs = 1_000 } = options;
  let { after } = options;
  for (let failures = 0; !signal.aborted; failures++) {
    const openedAt = performance.now();
    let reason = 'the service ended it';
    try {
      for await (const item of connect(options, after)) {
        yield item;
        after = item.cursor;
      }
    } catch (error) {
      if (error instanceof ServiceError && FINAL.has(error.code)) throw error;
      reason = error instanceof ServiceError ? error.message : 'the connection broke';
    }
    if (performance.now() - openedAt > GOOD_MS) failures = 0;
    const waitMs = firstWaitMs * Math.min(30, 2 ** failures);
    if (signal.aborted) return;
    onNews?.({ kind: 'lost', reason, waitMs });
    await sleep(waitMs, undefined, { signal }).catch(() => {});
  }
}

/** One connection, until it ends. */
async function* connect(options: StreamOptions, after: Cursor | null): AsyncGenerator<StreamItem, void, void> {
  const { baseUrl, apiKey, onNews, silentMs = 60_000, longest = 16 * 1024 * 1024 } = options;
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(), silentMs);
  let messages: EventSourceMessage[] = [];
  const parser = createParser({
    maxBufferSize: longest,
    onEvent: (message) => messages.push(message),
    onError(error) {
      if (error.type === 'max-buffer-size-exceeded') throw failure(`an event has more than ${longest} characters`);
    },
  });
  try {
    const response = await fetch(`${baseUrl.replace(/\/+$/, '')}/events`, {
      redirect: 'error',
      headers: {
        authorization: `Bearer ${apiKey}`,
        accept: 'text/event-stream',
        'accept-encoding': 'identity',
        ...(after === null ? {} : { 'last-event-id': after }),
      },
      signal: AbortSignal.any([options.signal, silence.signal]),
    });
    if (!response.ok) throw errorOf('GET /events', response, await readText(response));
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) throw failure('it is no event stream');
    onNews?.({ kind: 'open' });
    const utf8 = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      timer.refresh();
      parser.feed(utf8.decode(chunk as Uint8Array, { stream: true }));
      const whole = messages;
      messages = [];
      for (const message of whole) {
        if (message.event === 'end') return;
        const item = read(message);
        if (item) yield item;
      }
    }
  } catch (error) {
    throw silence.signal.aborted ? failure(`nothing came for ${silentMs} ms`) : error;
  } finally {
    clearTimeout(timer);
    // Also where whoever reads has had enough: the connection goes with it.
    silence.abort();
  }

  function read({ event, id, data }: EventSourceMessage): StreamItem | undefined {
    if (event === 'error') throw errorOf('GET /events', new Response(null), data);
    if (event === 'ping') onNews?.({ kind: 'ping' });
    if (event === 'refresh')
      onNews?.({ kind: 'refresh', reason: /"reason"\s*:\s*"(\w{1,40})"/.exec(data)?.[1] ?? 'unknown' });
    if (event !== 'domain') return undefined;
    const cursor = parseCursor(id);
    if (cursor) return { cursor, payload: data };
    onNews?.({ kind: 'unreadable', reason: 'an event without a decimal cursor' });
    return undefined;
  }
}

function failure(what: string): ServiceError {
  return new ServiceError({ code: 'unreadable', message: `GET /events: ${what}` });
}
