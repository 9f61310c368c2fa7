// GET /events (contract 4.4, 6.1): sends the missed events, then new ones, and pings, until a command ends the stream.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { systemClock as clock } from '../../base/clock.ts';
import { LAST_EVENT_ID } from '../../wire/headers.ts';
import type { History, SimulatedEvent } from './history.ts';

const PING_MS = 25_000;
const RESENT = 20_000;

export type Streams = ReturnType<typeof createStreams>;

export function createStreams(history: History, speed: number) {
  const open = new Set<ServerResponse>();

  /** What the reader has missed since its last cursor, or why it cannot be shown. Throws Refusal. */
  function missed({ url = '', headers }: IncomingMessage): SimulatedEvent[] | string {
    const after = new URL(url, 'http://localhost').searchParams.get('after_cursor');
    const cursor = headers[LAST_EVENT_ID]?.toString() ?? after;
    if (cursor === null) return [];
    const { events, hasMore, isExpired } = history.after(cursor, RESENT);
    return isExpired ? 'cursor_expired' : hasMore ? 'replay_limit' : events;
  }

  return {
    open(request: IncomingMessage, response: ServerResponse): undefined {
      const before = missed(request);
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' }).flushHeaders();
      if (typeof before === 'string') say(response, 'refresh', { reason: before });
      else for (const event of before) tell(response, event);
      open.add(response);
      const pings = setInterval(() => say(response, 'ping', { t: clock.now() }), PING_MS / speed);
      response.once('close', () => {
        open.delete(response);
        clearInterval(pings);
      });
    },
    publish: (event: SimulatedEvent): void => open.forEach((response) => tell(response, event)),
    refresh: (reason: string): void => open.forEach((response) => say(response, 'refresh', { reason })),
    end: (): void => open.forEach((response) => say(response, 'end', {}).end()),
    /** Ends the streams, because the key was revoked. `error`: the envelope of contract 7.1. */
    fail: (error: object): void => open.forEach((response) => say(response, 'error', error).end()),
  };
}

function say(response: ServerResponse, event: string, data: object, id?: string): ServerResponse {
  response.write(`${id ? `id: ${id}\n` : ''}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  return response;
}

/** Sends an event. A test event is not sent, because it is not part of the history. */
function tell(response: ServerResponse, { cursor, type, data }: SimulatedEvent): void {
  if (cursor !== null) say(response, 'domain', { [type]: data }, cursor);
}
