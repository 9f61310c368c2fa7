// GET /events (contract 4.4, 6.1, 8): the domain events of one connection after another, from a cursor on. Reconnects as
// the contract asks, and ends only where repeating cannot help. Knows nothing of what the events are.
import { setTimeout as sleep } from 'node:timers/promises';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { compareCursors, parseCursor, type Cursor } from '../wire/cursor.ts';
import { errorOf, ServiceError } from './errors.ts';
import { readText } from './exchange.ts';

export interface StreamItem {
  cursor: Cursor;
  /** The text of `{ "<EventType>": { … } }`. */
  payload: string;
}

/**
 * `ping`: a sign of life. `open`: what comes now comes after this cursor, null: from now on. `refresh`: what the stream cannot bring must be
 * fetched otherwise. `lost`: it connects again after `waitMs`.
 */
export type StreamNews =
  | { kind: 'ping' }
  | { kind: 'open'; after: Cursor | null }
  | { kind: 'refresh' | 'unreadable'; reason: string }
  | { kind: 'lost'; reason: string; waitMs: number };

export interface StreamOptions {
  baseUrl: string;
  apiKey: string;
  /** The last cursor that was processed; null begins at now. */
  after: Cursor | null;
  /** Campaign and warm-up events, too: only for keys without number restriction (contract 4.4). */
  product?: boolean;
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
 * Items that came together, in their order. They count as processed when the next are asked for: a new connection goes on
 * behind them. Ends when the signal says so; throws ServiceError where the key or the cursor is refused.
 */
export async function* readStream(options: StreamOptions): AsyncGenerator<StreamItem[], void, void> {
  const { signal, onNews, firstWaitMs = 1_000 } = options;
  let { after } = options;
  for (let failures = 0; !signal.aborted; failures++) {
    const openedAt = performance.now();
    let reason = 'the service ended it';
    try {
      for await (const items of connect(options, after)) {
        yield items;
        after = items.reduce((last, { cursor }) => (last && compareCursors(cursor, last) < 0 ? last : cursor), after);
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
async function* connect(options: StreamOptions, after: Cursor | null): AsyncGenerator<StreamItem[], void, void> {
  const { baseUrl, apiKey, onNews, product = false, silentMs = 60_000, longest = 16 * 1024 * 1024 } = options;
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
    const response = await fetch(`${baseUrl.replace(/\/+$/, '')}/events${product ? '?include_product=true' : ''}`, {
      redirect: 'error',
      headers: {
        authorization: `Bearer ${apiKey}`,
        accept: 'text/event-stream',
        'accept-encoding': 'identity',
        ...(after === null ? {} : { 'last-event-id': after }),
      },
      signal: AbortSignal.any([options.signal, silence.signal]),
    });
    if (!response.ok) throw errorOf('GET /events', response, await readText(response, 'GET /events'));
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) throw failure('it is no event stream');
    onNews?.({ kind: 'open', after });
    const utf8 = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      timer.refresh();
      parser.feed(utf8.decode(chunk as Uint8Array, { stream: true }));
      const whole = messages;
      messages = [];
      let items: StreamItem[] = [];
      for (const message of whole) {
        const item = read(message);
        if (item) items.push(item);
        if (message.event === 'ping') onNews?.({ kind: 'ping' });
        // Its place among the items matters: what comes before it is handed over before it is told.
        if (item || message.event === 'ping') continue;
        if (items.length > 0) yield items;
        items = [];
        if (message.event === 'end') return;
        tell(message);
      }
      if (items.length > 0) yield items;
    }
  } catch (error) {
    throw silence.signal.aborted ? failure(`nothing came for ${silentMs} ms`) : error;
  } finally {
    clearTimeout(timer);
    // Also where whoever reads has had enough: the connection goes with it.
    silence.abort();
  }

  function read({ event, id, data }: EventSourceMessage): StreamItem | undefined {
    const cursor = event === 'domain' ? parseCursor(id) : undefined;
    return cursor && { cursor, payload: data };
  }

  function tell({ event, data }: EventSourceMessage): void {
    if (event === 'error') throw errorOf('GET /events', new Response(null), data);
    if (event === 'refresh')
      onNews?.({ kind: 'refresh', reason: /"reason"\s*:\s*"(\w{1,40})"/.exec(data)?.[1] ?? 'unknown' });
    if (event === 'domain') onNews?.({ kind: 'unreadable', reason: 'an event without a decimal cursor' });
  }
}

function failure(what: string): ServiceError {
  return new ServiceError({ code: 'unreadable', message: `GET /events: ${what}` });
}
