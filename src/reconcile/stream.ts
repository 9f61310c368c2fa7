// With STREAM=on, GET /events is an origin of events beside webhooks and replay. The stream brings events as they
// happen, and raises the watermark while it is complete. Replay fetches everything earlier. If the API key may not read
// campaign and warm-up events, the stream is incomplete and does not raise the watermark.
import { setTimeout as sleep } from 'node:timers/promises';
import { iso } from '../base/clock.ts';
import { ServiceError } from '../service/errors.ts';
import { readStream, type StreamItem, type StreamNews, type StreamOptions } from '../service/stream.ts';
import { retryWhileBusy } from '../store/retry-while-busy.ts';
import type { StreamState } from '../store/keep.ts';
import { compareCursors, isBehind, type Cursor } from '../wire/cursor.ts';
import { readItem, type Reading } from '../wire/event.ts';
import { createContinuity } from './continuity.ts';
import { wants } from './page.ts';
import type { Ended, ReconcilerOptions } from './pass.ts';

export interface FollowerOptions extends Pick<ReconcilerOptions, 'store' | 'clock' | 'log' | 'types' | 'onEvents'> {
  baseUrl: string;
  apiKey: string;
  fetch?: StreamOptions['fetch'];
  /** Called when the stream has left events out, so the forward pass must read now. */
  onHole: () => void;
  /** True if a forward pass ended recently, so that new events happened while deliveries could be accepted. */
  fresh: () => boolean;
  /** When the forward pass last ended. Default: never. */
  ended?: () => Ended | null;
  /** For tests: the first wait before a new connection, in milliseconds. Default: 1,000. */
  firstWaitMs?: number;
}

const RESTRICTED =
  'without campaign and warm-up events, which this key may not read: it brings events, but does not raise the watermark';

// oxlint-disable-next-line max-lines-per-function -- one connection: its items, its news and its errors share state
export function createFollower(options: FollowerOptions) {
  const { store, clock, log, types, onEvents, onHole, fresh, ended = () => null, firstWaitMs = 1_000 } = options;
  const continuity = createContinuity(clock, ended);
  let state: StreamState = { state: 'off', since: null, reason: null };
  let product = true;
  let holed = false;

  /** Ends when the signal aborts or when the service refuses the stream. It may then be called again. */
  async function follow(signal: AbortSignal): Promise<void> {
    let after = await retryWhileBusy(() => store.state.get('watermark'));
    let refusals = 0;
    product = true;
    while (!signal.aborted) {
      try {
        const { baseUrl, apiKey, fetch } = options;
        const onNews = (news: StreamNews): void => void hear(news);
        const stream = readStream({ baseUrl, apiKey, fetch, firstWaitMs, after, product, signal, onNews });
        for await (const items of stream) after = await take(items, signal);
        return;
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        const { status, code, reason } = error;
        if (reason === 'EVENT_CURSOR_INVALID' && after !== null) {
          log.warn(
            { status, code, reason },
            'the stream does not know our cursor: continuing with new events, and replay fetches the others',
          );
          after = null;
          continuity.broken();
          onHole();
          // If the service refuses repeatedly, the pauses keep the number of opens within its limit (contract 8).
          if (refusals++ > 0)
            await sleep(Math.min(30_000, firstWaitMs * 2 ** refusals), undefined, { signal }).catch(() => {});
        } else if (product && code !== 'UNAUTHENTICATED' && code !== 'NOT_FOUND' && reason !== 'API_KEY_IP_FORBIDDEN') {
          // A key that is restricted to some numbers may not ask for campaign and warm-up events (contract 4.4).
          product = false;
        } else {
          log.error(
            { status, code, reason },
            'the stream stopped: the service refuses it; replay continues without it',
          );
          onHole();
          return say('stopped', error.message);
        }
      }
    }
  }

  /** Resolves to the highest cursor of the items. */
  async function take(items: StreamItem[], signal: AbortSignal): Promise<Cursor | null> {
    const readings = items.map(({ cursor, payload }) => read(cursor, payload));
    const wanted = readings.filter((one) => !('event' in one) || wants(types, one.event.type));
    const cursors = items.map(({ cursor }) => cursor);
    holed = false;
    const watermark = await retryWhileBusy(() => store.state.get('watermark'));
    const whole = cursors[0] !== undefined && continuity.isWhole(cursors[0], watermark);
    const ceiling = await retryWhileBusy(() => store.replay.ceiling());
    const top = highest(cursors.filter((cursor) => ceiling === null || isBehind(cursor, ceiling)));
    const proved = product && top && watermark && whole ? { watermark: top, after: watermark } : {};
    const counts = { other_types: readings.length - wanted.length };
    await retryWhileBusy(() => {
      // After an abort the items are not stored. They are not lost, because the stream resumes at the watermark.
      if (signal.aborted) return Promise.resolve();
      return store.ingest
        .accept({ readings: wanted, now: clock.now(), fresh: fresh(), counts, ...proved })
        .then(onEvents);
    });
    if (proved.watermark) continuity.moved(proved.watermark);
    return highest(cursors) ?? null;
  }

  function read(cursor: Cursor, payload: StreamItem['payload']): Reading {
    const live = continuity.isLive(cursor);
    const reading = readItem('stream', cursor, payload);
    return live && 'event' in reading ? { event: { ...reading.event, live } } : reading;
  }

  async function hear(news: StreamNews): Promise<void> {
    if (news.kind === 'ping') return continuity.heard();
    if (news.kind === 'lost') return say('lost', news.reason);
    if (news.kind === 'open') {
      continuity.opened(news.after);
      holed = false;
      return say('open', product ? null : RESTRICTED);
    }
    continuity.broken();
    // Logged once until events arrive again.
    if (holed) return;
    holed = true;
    const reason = news.kind === 'refresh' ? `refresh, ${news.reason}` : news.reason;
    log.warn({ reason }, 'the stream left events out; replay fetches them');
    onHole();
  }

  async function say(now: StreamState['state'], reason: string | null): Promise<void> {
    if (now === state.state && reason === state.reason) return;
    if (now === 'lost') log.debug({ reason }, 'the stream was lost; reconnecting');
    state = { state: now, since: iso(clock.now()), reason };
    await retryWhileBusy(() => store.state.note({}, { stream: JSON.stringify(state) }));
  }

  /** True if the stream is open and may raise the watermark. */
  const proves = (): boolean => state.state === 'open' && product;
  return { follow, proves };
}

function highest(cursors: Cursor[]): Cursor | undefined {
  return cursors.toSorted(compareCursors).at(-1);
}
