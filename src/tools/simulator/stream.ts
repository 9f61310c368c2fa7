// GET /events (contract 3.4, 4.4, 6.1): what was missed, then what happens, to every stream whose key may see it; pings
// and the end of each after an hour.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
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
  /** Answers with a stream that stays open. Throws Refusal before anything is sent. */
  open(key: Key, request: IncomingMessage, response: ServerResponse, requestId: string): void;
  publish(event: SimulatedEvent): void;
  /** Says so on every open stream. */
  refresh(reason: RefreshReason): void;
  /** The next resuming is answered with this refresh instead of what was missed. */
  refuseNext(reason: RefreshReason): void;
  /** Ends every stream as the server does. */
  end(): void;
  /** How many are open. */
  count(): number;
}

interface Stream {
  key: Key;
  wants(event: SimulatedEvent): boolean;
  say(event: string, data: object, id?: string): void;
  check(): void;
  end(): void;
  response: ServerResponse;
  lagging: boolean;
}

const PING_MS = 25_000;
const LIFETIME_MS = 3_600_000;
const RESENT_AT_MOST = 20_000;
const SESSIONS_AT_MOST = 1_000;
/** What a slow reader may have waiting; the contract names no figure. */
const BUFFERED_AT_MOST = 8 * 1024 * 1024;

export function createStreams(options: { history: History; keys: Keys; clock: Clock; speed: number }): Streams {
  const { history, keys, clock, speed } = options;
  const open = new Set<Stream>();
  const refusals: RefreshReason[] = [];
  keys.onChange(() => open.forEach((stream) => stream.check()));

  /** What the query lets through; throws Refusal. */
  function filterOf(key: Key, query: URLSearchParams): Stream['wants'] {
    const { numbers } = key.attributes;
    const asked = query.getAll('session_id');
    if (asked.length > SESSIONS_AT_MOST || asked.some((id) => !z.uuid().safeParse(id).success))
      throw new Refusal(400, 'EVENT_SESSION_INVALID');
    if (asked.some((id) => !(numbers ?? history.numbers).includes(id))) throw new Refusal(404, 'SESSION_NOT_FOUND');
    const product = query.get('include_product') === 'true';
    if (product && numbers) throw new Refusal(403, undefined, 'include_product needs a key without number restriction');
    return (event) => {
      const { sessionId } = event;
      const wanted = sessionId === null ? product : asked.length === 0 || asked.includes(sessionId);
      return wanted && keys.reads(key, event);
    };
  }

  function missed(cursor: string | null, wants: Stream['wants']): SimulatedEvent[] | RefreshReason {
    if (cursor === null) return [];
    const page = history.after(cursor, RESENT_AT_MOST, wants);
    if (page === 'unknown') throw new Refusal(400, 'EVENT_CURSOR_INVALID');
    const refused = refusals.shift();
    if (refused) return refused;
    if (page === 'expired') return 'cursor_expired';
    return page.hasMore ? 'replay_limit' : page.events;
  }

  function tell(stream: Stream, { cursor, type, data }: SimulatedEvent): void {
    stream.say('domain', { [type]: data }, cursor ?? '');
  }

  function send(stream: Stream, event: SimulatedEvent): void {
    stream.check();
    if (!open.has(stream) || stream.lagging || !stream.wants(event)) return;
    if (stream.response.writableLength <= BUFFERED_AT_MOST) return tell(stream, event);
    stream.lagging = true;
    stream.response.once('drain', () => {
      stream.lagging = false;
      if (open.has(stream)) stream.say('refresh', { reason: 'buffer_limit' });
    });
  }

  return {
    open(key, request, response, requestId) {
      const { searchParams: query } = new URL(request.url ?? '', 'http://localhost');
      const header = request.headers['last-event-id'];
      const wants = filterOf(key, query);
      const before = missed(typeof header === 'string' ? header : query.get('after_cursor'), wants);

      const stream: Stream = {
        key,
        wants,
        response,
        lagging: false,
        say(event, data, id) {
          response.write(`${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
        },
        check() {
          try {
            if (open.has(stream)) keys.require(key, ['events:read']);
          } catch (error) {
            if (!(error instanceof Refusal)) throw error;
            close('error', envelopeOf(error, requestId));
          }
        },
        end: () => close('end', {}),
      };
      const pings = setInterval(() => {
        stream.check();
        if (open.has(stream)) stream.say('ping', { t: clock.now() });
      }, PING_MS / speed);
      const lifetime = setTimeout(() => stream.end(), LIFETIME_MS / speed);
      const forget = (): void => {
        clearInterval(pings);
        clearTimeout(lifetime);
        open.delete(stream);
      };
      function close(event: string, data: object): void {
        forget();
        stream.say(event, data);
        response.end();
      }

      response.writeHead(200, {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        'x-request-id': requestId,
      });
      response.flushHeaders();
      response.once('close', forget);
      open.add(stream);
      if (typeof before === 'string') stream.say('refresh', { reason: before });
      else for (const event of before) tell(stream, event);
    },
    publish: (event) => open.forEach((stream) => send(stream, event)),
    refresh: (reason) => open.forEach((stream) => stream.say('refresh', { reason })),
    refuseNext: (reason) => void refusals.push(reason),
    end: () => open.forEach((stream) => stream.end()),
    count: () => open.size,
  };
}
