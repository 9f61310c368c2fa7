// GET /events as a third origin (STREAM=on): brings events as they happen, and moves the watermark as far as it is whole.
// It is whole from the cursor that it resumed at, or from its first event after a hole that it told of; replay fills what
// lies before. Without campaign and warm-up events it leaves something out, and proves nothing.
import { setTimeout as sleep } from 'node:timers/promises';
import { iso, type Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { ServiceError } from '../service/errors.ts';
import { readStream, type StreamItem, type StreamNews } from '../service/stream.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import type { KeepStore, StreamState } from '../store/keep.ts';
import { compareCursors, isBehind, type Cursor } from '../wire/cursor.ts';
import { readItem, type Reading } from '../wire/event.ts';
import { createLiveness } from './liveness.ts';
import type { Ended } from './pass.ts';

export interface FollowerOptions {
  store: KeepStore;
  clock: Clock;
  log: Logger;
  baseUrl: string;
  apiKey: string;
  types: string[];
  /** After events were committed, or proved. */
  onEvents: () => void;
  /** The stream cannot bring all: replay has to read forward now. */
  onHole: () => void;
  /** Whether what happens now could have been delivered. */
  fresh: () => boolean;
  /** The last time that replay was read to its end. Default: never. */
  ended?: () => Ended | null;
}

export interface Follower {
  /** Until it is stopped; resolves at once when the key is refused, and may be called again. */
  follow(signal: AbortSignal): Promise<void>;
  /** It is open, and proves. */
  proves(): boolean;
}

export function createFollower(options: FollowerOptions): Follower {
  const { store, clock, log, baseUrl, apiKey, types, onEvents, onHole, fresh, ended = () => null } = options;
  const liveness = createLiveness(clock, ended);
  let state: StreamState = { state: 'off', since: null, reason: null };
  let product = true;
  /** It brings all that comes after this cursor; null: all from the next event on. */
  let wholeFrom: Cursor | null = null;
  /** The watermark as it was seen last. */
  let reached: Cursor | null = null;
  let holed = false;

  async function follow(signal: AbortSignal): Promise<void> {
    let after = await retryWhileBusy(() => store.watermark());
    let refusals = 0;
    product = true;
    while (!signal.aborted) {
      try {
        const common = { baseUrl, apiKey, after, product, signal };
        for await (const items of readStream({ ...common, onNews: (news) => void hear(news) }))
          after = await take(items, signal);
        return;
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        const { status, code, reason } = error;
        if (status === 400 && reason === 'EVENT_CURSOR_INVALID' && after !== null) {
          log.warn(
            { status, code, reason },
            'the stream does not know our cursor: it goes on at now, and replay fills the rest',
          );
          after = null;
          wholeFrom = null;
          onHole();
          // A service that does so again and again is not opened more often than it allows (contract 8).
          if (refusals++ > 0)
            await sleep(Math.min(30_000, 1_000 * 2 ** refusals), undefined, { signal }).catch(() => {});
        } else if (product && status !== 401 && code !== 'NOT_FOUND' && reason !== 'API_KEY_IP_FORBIDDEN') {
          // A key with number restriction may not ask for them (contract 4.4).
          product = false;
        } else {
          log.error({ status, code, reason }, 'the stream stopped: the service refuses it; replay is asked as well');
          onHole();
          return say('stopped', error.message);
        }
      }
    }
  }

  /** Resolves to the last cursor. */
  async function take(items: StreamItem[], signal: AbortSignal): Promise<Cursor | null> {
    const readings = items.map(({ cursor, payload }) => read(cursor, payload));
    const wanted = readings.filter((one) => !('event' in one) || types.includes('*') || types.includes(one.event.type));
    const [first] = items;
    holed = false;
    wholeFrom ??= first?.cursor ?? null;
    const watermark = await retryWhileBusy(() => store.watermark());
    // It went down: what lies between was not brought by this stream.
    if (isBehind(watermark, reached)) wholeFrom = first?.cursor ?? null;
    reached = watermark;
    const ceiling = await retryWhileBusy(() => store.ceiling());
    const top = highest(items.filter(({ cursor }) => ceiling === null || isBehind(cursor, ceiling)));
    const proved = product && top && watermark && isWhole(watermark) ? { watermark: top, after: watermark } : {};
    const counts = { other_types: readings.length - wanted.length };
    await retryWhileBusy(() => {
      // Nothing is lost: it resumes at the watermark.
      if (signal.aborted) return Promise.resolve();
      return store.accept({ readings: wanted, now: clock.now(), fresh: fresh(), counts, ...proved }).then(onEvents);
    });
    if (isBehind(reached, proved.watermark ?? null)) reached = proved.watermark ?? null;
    return highest(items) ?? null;
  }

  function read(cursor: Cursor, payload: string): Reading {
    const live = liveness.isLive(cursor);
    const reading = readItem('stream', cursor, payload);
    return live && 'event' in reading ? { event: { ...reading.event, live } } : reading;
  }

  function isWhole(watermark: Cursor): boolean {
    return wholeFrom !== null && !isBehind(watermark, wholeFrom);
  }

  async function hear(news: StreamNews): Promise<void> {
    if (news.kind === 'ping') return liveness.heard();
    if (news.kind === 'open') {
      liveness.opened(news.after);
      wholeFrom ??= news.after;
      holed = false;
      const left =
        'without campaign and warm-up events, which this key may not read: it brings events, and proves nothing';
      await say('open', product ? null : left);
    }
    if (news.kind === 'lost') await say('lost', news.reason);
    if (news.kind === 'refresh' || news.kind === 'unreadable') {
      liveness.broken();
      wholeFrom = null;
      // Told once, until events come again.
      if (holed) return;
      holed = true;
      const what = news.kind === 'refresh' ? `refresh, ${news.reason}` : news.reason;
      log.warn({ reason: what }, 'the stream cannot bring all: replay fills what is missing');
      onHole();
    }
  }

  async function say(now: StreamState['state'], reason: string | null): Promise<void> {
    if (now === state.state && reason === state.reason) return;
    if (now === 'lost') log.debug({ reason }, 'the stream is lost, and opened again');
    state = { state: now, since: iso(clock.now()), reason };
    await retryWhileBusy(() => store.note({}, { stream: JSON.stringify(state) }));
  }

  return { follow, proves: () => state.state === 'open' && product };
}

function highest(items: StreamItem[]): Cursor | undefined {
  return items
    .map(({ cursor }) => cursor)
    .toSorted(compareCursors)
    .at(-1);
}
