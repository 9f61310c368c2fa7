// Reads GET /events (contract 4.4, 6.1), which brings events as they happen. The stream may leave events out, so it
// proves nothing: replay shows the missing ones.
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { describe } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { startLoop, type Loop } from '../base/loop.ts';
import { ServiceError } from '../service/errors.ts';
import type { Exchange } from '../service/exchange.ts';
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import { readItem } from '../wire/event.ts';
import { LAST_EVENT_ID } from '../wire/headers.ts';
import { isLost } from './page.ts';
import type { IngestStore } from '../store/store.ts';

/** The waits between connections. The service allows 10 connections a minute (contract 8). */
const WAIT_MS = { first: 1_000, most: 30_000 };
/** A connection that is silent for this long is closed: the service sends a ping every 25 s. */
const SILENT_MS = 60_000;
/** A minute longer than the service keeps a connection open. */
const LONGEST_MS = 3_660_000;

export function startStream(ingest: IngestStore, log: Logger, exchange: Exchange): Loop {
  const abort = new AbortController();
  let failures = 0;
  let after: Cursor | null = null;

  /** One connection. Returns the milliseconds until the next one. */
  async function step(): Promise<number> {
    try {
      await connect();
    } catch (error) {
      const why = describe(error).message;
      const status = error instanceof ServiceError ? error.status : 0;
      if (isLost(error)) after = null;
      else if (status === 401 || status === 403) {
        log.error({ why }, 'the stream is refused: events come only by webhook and replay');
        return Infinity;
      }
      log.debug({ why }, 'the stream was lost');
    }
    return Math.min(WAIT_MS.most, WAIT_MS.first * 2 ** failures++);
  }

  /** Resolves when the stream ends. */
  async function connect(): Promise<void> {
    const silence = new AbortController();
    const timer = setTimeout(() => silence.abort(), SILENT_MS);
    const headers = after === null ? {} : { [LAST_EVENT_ID]: after };
    const signal = AbortSignal.any([abort.signal, silence.signal]);
    const ask = { what: 'GET /events', path: '/events', headers, limitMs: LONGEST_MS, safe: true, signal };
    const found: EventSourceMessage[] = [];
    const parser = createParser({ onEvent: (message) => void found.push(message) });
    const decoder = new TextDecoder();
    try {
      const { body } = await exchange(ask, (answer) => answer);
      for await (const part of body ?? []) {
        timer.refresh();
        parser.feed(decoder.decode(part, { stream: true }));
        if (await take(found.splice(0))) return;
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** True: the service has ended the stream. */
  async function take(messages: EventSourceMessage[]): Promise<boolean> {
    if (messages.length > 0) failures = 0;
    const items = messages.flatMap(({ event, id, data }) => {
      const cursor = event === 'domain' ? parseCursor(id) : undefined;
      return cursor === undefined ? [] : { cursor, reading: readItem('stream', cursor, data) };
    });
    if (items.length > 0) await ingest.accept({ readings: items.map(({ reading }) => reading) });
    after = items.at(-1)?.cursor ?? after;
    return messages.some(({ event }) => event === 'end' || event === 'error');
  }

  const loop = startLoop(step);
  return { ...loop, stop: () => (abort.abort(), loop.stop()) };
}
