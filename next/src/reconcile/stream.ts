// GET /events as a further origin of events (contract 4.4, 6.1). It brings them as they happen, and proves nothing: what it
// leaves out, replay shows.
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe } from '../base/errors.ts';
import { parseCursor, type Cursor } from '../wire/cursor.ts';
import { readItem, type Reading } from '../wire/event.ts';
import { LAST_EVENT_ID } from '../wire/headers.ts';
import type { ReconcilerOptions } from './reconciler.ts';

/** At most 10 opens a minute (contract 8). */
const WAIT_MS = { first: 1_000, most: 30_000 };
/** Pings come every 25 s. */
const SILENT_MS = 60_000;
/** A connection that lasted this long was good. */
const GOOD_MS = 30_000;

/** Refused: another connection does not help. */
class Refused extends Error {}

export class Stream {
  readonly #options: ReconcilerOptions;
  readonly #abort = new AbortController();
  readonly #running: Promise<void>;
  #after: Cursor | null = null;
  /** Campaign and warm-up events, which a key that is restricted to some numbers may not read. */
  #product = true;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#abort;
    for (let failures = 0; !signal.aborted; failures++) {
      const since = clock.monotonic();
      try {
        await this.#connect();
      } catch (error) {
        if (signal.aborted) return;
        const why = describe(error).message;
        if (error instanceof Refused) return log.error({ why }, 'the stream is refused: replay goes on alone');
        log.debug({ why }, 'the stream was lost');
      }
      if (clock.monotonic() - since > GOOD_MS) failures = 0;
      const waitMs = Math.min(WAIT_MS.most, WAIT_MS.first * 2 ** failures);
      await sleep(waitMs, undefined, { signal }).catch(() => {});
    }
  }

  async #connect(): Promise<void> {
    const { API_BASE_URL: base = '', API_KEY: key } = this.#options.config;
    const url = new URL(`${base.replace(/\/$/, '')}/events`);
    if (this.#product) url.searchParams.set('include_product', 'true');
    const silence = new AbortController();
    const timer = setTimeout(() => silence.abort(), SILENT_MS);
    const headers = { authorization: `Bearer ${key}`, 'accept-encoding': 'identity' };
    try {
      const response = await fetch(url, {
        redirect: 'error',
        headers: { ...headers, ...(this.#after !== null && { [LAST_EVENT_ID]: this.#after }) },
        signal: AbortSignal.any([this.#abort.signal, silence.signal]),
      });
      if (!response.ok) await this.#refused(response);
      const found: EventSourceMessage[] = [];
      const parser = createParser({ onEvent: (message) => void found.push(message) });
      const decoder = new TextDecoder();
      for await (const part of response.body ?? []) {
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
    const readings: Reading[] = [];
    for (const { event, id, data } of messages) {
      const cursor = event === 'domain' ? parseCursor(id) : undefined;
      if (cursor === undefined) continue;
      readings.push(readItem('stream', cursor, data));
      this.#after = cursor;
    }
    if (readings.length > 0) await this.#options.store.ingest.accept({ readings });
    return messages.some(({ event }) => event === 'end' || event === 'error');
  }

  async #refused(response: Response): Promise<never> {
    const { status } = response;
    if ((await response.text()).includes('EVENT_CURSOR_INVALID')) this.#after = null;
    else if (status === 403 && this.#product) this.#product = false;
    else if (status === 401 || status === 403) throw new Refused(`GET /events: ${status}`);
    throw new Error(`GET /events: ${status}`);
  }
}
