// Reads GET /events (contract 4.4, 6.1), which brings events as they happen. The stream may leave events out, so it proves
// nothing: replay shows the missing ones.
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { describe } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { startLoop } from '../base/loop.ts';
import { ServiceError } from '../service/errors.ts';
import type { Exchange } from '../service/exchange.ts';
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import { readItem, type Reading } from '../wire/event.ts';
import { LAST_EVENT_ID } from '../wire/headers.ts';
import { isLost } from './page.ts';
import type { IngestStore } from '../store/store.ts';

/** The waits between connections. The service allows 10 of them a minute (contract 8). */
const WAIT_MS = { first: 1_000, most: 30_000 };
/** A connection that is silent for this long is closed: the service sends a ping every 25 s. */
const SILENT_MS = 60_000;
/** The service keeps a connection open for an hour at most. */
const LONGEST_MS = 3_660_000;

export class Stream {
  readonly #ingest: IngestStore;
  readonly #log: Logger;
  readonly #exchange: Exchange;
  readonly #abort = new AbortController();
  readonly #loop = startLoop(() => this.#step());
  #failures = 0;
  #after: Cursor | null = null;

  constructor(ingest: IngestStore, log: Logger, exchange: Exchange) {
    this.#ingest = ingest;
    this.#log = log;
    this.#exchange = exchange;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#loop.stop();
  }

  /** One connection. Returns the milliseconds until the next. */
  async #step(): Promise<number> {
    try {
      await this.#connect();
    } catch (error) {
      const why = describe(error).message;
      const status = error instanceof ServiceError ? error.status : 0;
      if (isLost(error)) this.#after = null;
      else if (status === 401 || status === 403) {
        this.#log.error({ why }, 'the stream is refused: events come only by webhook and replay');
        return Infinity;
      }
      this.#log.debug({ why }, 'the stream was lost');
    }
    return Math.min(WAIT_MS.most, WAIT_MS.first * 2 ** this.#failures++);
  }

  /** Resolves when the stream ends. */
  async #connect(): Promise<void> {
    const silence = new AbortController();
    const timer = setTimeout(() => silence.abort(), SILENT_MS);
    const signal = AbortSignal.any([this.#abort.signal, silence.signal]);
    const headers = this.#after === null ? {} : { [LAST_EVENT_ID]: this.#after };
    const found: EventSourceMessage[] = [];
    const parser = createParser({ onEvent: (message) => void found.push(message) });
    const decoder = new TextDecoder();
    try {
      const ask = { what: 'GET /events', path: '/events', headers, limitMs: LONGEST_MS, safe: true, signal };
      const { body } = await this.#exchange(ask, (answer) => answer);
      for await (const part of body ?? []) {
        timer.refresh();
        parser.feed(decoder.decode(part, { stream: true }));
        if (await this.#take(found.splice(0))) return;
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** True: the server has ended the stream. */
  async #take(messages: EventSourceMessage[]): Promise<boolean> {
    if (messages.length > 0) this.#failures = 0;
    const readings: Reading[] = [];
    for (const { event, id, data } of messages) {
      const cursor = event === 'domain' ? parseCursor(id) : undefined;
      if (cursor === undefined) continue;
      readings.push(readItem('stream', cursor, data));
      this.#after = cursor;
    }
    if (readings.length > 0) await this.#ingest.accept({ readings });
    return messages.some(({ event }) => event === 'end' || event === 'error');
  }
}
