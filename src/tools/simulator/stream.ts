// GET /events (contract 3.4, 4.4, 6.1). Each stream gets missed events, then new ones, if its key may read them. It
// also gets pings, and ends after an hour.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { LAST_EVENT_ID, REQUEST_ID } from '../../wire/headers.ts';
import type { History, SimulatedEvent } from './history.ts';
import type { Key, Keys } from './keys.ts';
import { envelopeOf, Refusal } from './refusal.ts';

export type RefreshReason =
  | 'cursor_expired'
  | 'buffer_limit'
  | 'replay_limit'
  | 'replay_incomplete'
  | 'replay_unavailable';

export interface Streams {
  /** Answers with a stream that stays open, or throws Refusal before anything is sent. */
  open(key: Key, request: IncomingMessage, response: ServerResponse, requestId: string): void;
  publish(event: SimulatedEvent): void;
  /** Sends a refresh on every open stream. */
  refresh(reason: RefreshReason): void;
  /** The next stream that resumes gets this refresh instead of the events that it missed. */
  refuseNext(reason: RefreshReason): void;
  /** Ends every stream with an `end` message, as the service does. */
  end(): void;
  count(): number;
}

type Wants = (event: SimulatedEvent) => boolean;
type Stream = ReturnType<typeof createStream>;

const PING_MS = 25_000;
const LIFETIME_MS = 3_600_000;
const RESENT_AT_MOST = 20_000;
const SESSIONS_AT_MOST = 1_000;
/** At most this many bytes are buffered for a slow reader. The contract names no figure. */
const BUFFERED_AT_MOST = 8 * 1024 * 1024;

// oxlint-disable-next-line max-lines-per-function -- a stream's events depend on the history, its key and its query
export function createStreams(options: { history: History; keys: Keys; clock: Clock; speed: number }): Streams {
  const { history, keys, clock, speed } = options;
  const open = new Set<Stream>();
  const refusals: RefreshReason[] = [];
  keys.onChange(() => open.forEach((stream) => stream.check()));

  /** A filter for the events that the query asks for. Throws Refusal. */
  function filterOf(key: Key, query: URLSearchParams): Wants {
    const { numbers } = key.attributes;
    const asked = query.getAll('session_id');
    if (asked.length > SESSIONS_AT_MOST || asked.some((id) => !z.uuid().safeParse(id).success))
      throw new Refusal(400, 'EVENT_SESSION_INVALID');
    for (const id of asked) keys.reach(key, id);
    const product = query.get('include_product') === 'true';
    if (product && numbers) throw new Refusal(403, undefined, 'include_product needs a key without number restriction');
    return (event) => {
      const { sessionId, cursor } = event;
      // A test event is no part of the history (contract 6.3).
      if (cursor === null) return false;
      const wanted = sessionId === null ? product : asked.length === 0 || asked.includes(sessionId);
      return wanted && keys.reads(key, event);
    };
  }

  function missed(cursor: string | null, wants: Wants): SimulatedEvent[] | RefreshReason {
    if (cursor === null) return [];
    const page = history.after(cursor, RESENT_AT_MOST, wants);
    if (page === 'unknown') throw new Refusal(400, 'EVENT_CURSOR_INVALID');
    const refused = refusals.shift();
    if (refused) return refused;
    if (page === 'expired') return 'cursor_expired';
    return page.hasMore ? 'replay_limit' : page.events;
  }

  return {
    open(key, request, response, requestId) {
      const { searchParams: query } = new URL(request.url ?? '', 'http://localhost');
      const header = request.headers[LAST_EVENT_ID];
      const wants = filterOf(key, query);
      const before = missed(typeof header === 'string' ? header : query.get('after_cursor'), wants);

      const stream = createStream(response, {
        speed,
        clock,
        wants,
        refusal() {
          try {
            keys.require(key, ['events:read']);
            return undefined;
          } catch (error) {
            if (!(error instanceof Refusal)) throw error;
            return envelopeOf(error, requestId);
          }
        },
        onEnd: () => open.delete(stream),
      });
      response.writeHead(200, {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        [REQUEST_ID]: requestId,
      });
      response.flushHeaders();
      open.add(stream);
      if (typeof before === 'string') stream.say('refresh', { reason: before });
      else for (const event of before) stream.tell(event);
    },
    publish: (event) => open.forEach((stream) => stream.publish(event)),
    refresh: (reason) => open.forEach((stream) => stream.say('refresh', { reason })),
    refuseNext: (reason) => void refusals.push(reason),
    end: () => open.forEach((stream) => stream.end()),
    count: () => open.size,
  };
}

interface StreamOptions {
  wants: Wants;
  /** The error that ends the stream if its key may no longer read. Undefined: the key may read. */
  refusal: () => object | undefined;
  onEnd: () => void;
  clock: Clock;
  speed: number;
}

/** An open stream. It sends pings, checks its key, and ends after an hour. */
function createStream(response: ServerResponse, { wants, refusal, onEnd, clock, speed }: StreamOptions) {
  let ended = false;
  let lagging = false;
  const pings = setInterval(() => {
    check();
    if (!ended) say('ping', { t: clock.now() });
  }, PING_MS / speed);
  const lifetime = setTimeout(end, LIFETIME_MS / speed);
  response.once('close', forget);

  function forget(): void {
    ended = true;
    clearInterval(pings);
    clearTimeout(lifetime);
    onEnd();
  }

  function say(event: string, data: object, id?: string): void {
    response.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  function tell({ cursor, type, data }: SimulatedEvent): void {
    say('domain', { [type]: data }, cursor ?? '');
  }

  function close(event: string, data: object): void {
    forget();
    say(event, data);
    response.end();
  }

  function end(): void {
    close('end', {});
  }

  function check(): void {
    const error = ended ? undefined : refusal();
    if (error) close('error', error);
  }

  function publish(event: SimulatedEvent): void {
    check();
    if (ended || lagging || !wants(event)) return;
    if (response.writableLength <= BUFFERED_AT_MOST) return tell(event);
    lagging = true;
    response.once('drain', () => {
      lagging = false;
      if (!ended) say('refresh', { reason: 'buffer_limit' });
    });
  }

  return { say, tell, publish, check, end };
}
