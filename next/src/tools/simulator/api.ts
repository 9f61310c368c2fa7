// The service's API over HTTP (contract 4, 5.1, 7, 8): routes, the key, limits and errors.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { z } from 'zod';
import type { Clock } from '../../base/clock.ts';
import { REQUEST_ID } from '../../wire/headers.ts';
import { valid, type Calls } from './calls.ts';
import { Refusal } from './refusal.ts';
import type { Streams } from './stream.ts';

export interface Fault {
  status: number;
  reason?: string | undefined;
  /** Default: whichever comes next. */
  call?: string | undefined;
}

export interface ApiOptions {
  key: string;
  calls: Calls;
  streams: Streams;
  clock: Clock;
  /** Of calls to come. Each is used once. */
  faults: Fault[];
}

/** Calls a minute of the account (contract 8). */
const LIMITS = { rpc: 120, quotes: 60, events: 10 };
const ROUTES = new Map<string, keyof typeof LIMITS>([
  ['POST /v1/rpc/ReplayEvents', 'rpc'],
  ['POST /v1/rpc/ListMessages', 'rpc'],
  ['POST /v1/messages/send', 'rpc'],
  ['POST /v1/billing/quotes', 'quotes'],
  ['GET /v1/events', 'events'],
]);
const nameOf = (route: string): string => route.replace(/^.*\/v1\/(rpc\/)?/, '');
export const CALLS = [...ROUTES.keys()].map(nameOf);
const MINUTE_MS = 60_000;
const JSON_TYPE = { 'content-type': 'application/json' };

const object = z.record(z.string(), z.unknown());
const envelope = z.strictObject({
  request: z.record(z.string().regex(/^[a-z0-9_]+$/), z.unknown()),
  billing: z.unknown().optional(),
  deadlineMs: z.int().min(1).max(30_000).optional(),
});

export async function startApi(port: number, options: ApiOptions) {
  const answer = createAnswer(options);
  let requests = 0;

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    requests++;
    const id = randomUUID();
    response.setHeader(REQUEST_ID, id);
    try {
      const told = await answer(request, response);
      if (told) response.writeHead(200, JSON_TYPE).end(JSON.stringify(told));
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal(500);
      response.writeHead(refusal.status, JSON_TYPE).end(refusal.envelope(id));
    }
  }

  const server = createServer((request, response) => void respond(request, response));
  await once(server.listen(port, '127.0.0.1'), 'listening');
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : port}/v1`,
    /** So far, with those that were refused. */
    requests: () => requests,
    async stop(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** Returns what answers a request. Undefined: the answer is a stream. Throws Refusal. */
function createAnswer({ key, calls, streams, clock, faults }: ApiOptions) {
  const windows = new Map<string, { since: number; calls: number }>();

  function limit(what: keyof typeof LIMITS): void {
    const now = clock.now();
    const known = windows.get(what);
    const window = known && now - known.since < MINUTE_MS ? known : { since: now, calls: 0 };
    windows.set(what, window);
    if (++window.calls > LIMITS[what]) throw new Refusal(429);
  }

  function carryOut(name: string, body: Record<string, unknown>): object {
    if (name === 'billing/quotes') return calls.quote(body);
    const { request, billing } = valid(envelope, body, 'RPC_REQUEST_INVALID');
    if (name === 'ReplayEvents') return calls.replay(request);
    if (name === 'ListMessages') return calls.list(request);
    calls.pay(billing, request);
    return calls.send(request);
  }

  return async (request: IncomingMessage, response: ServerResponse): Promise<object | undefined> => {
    const route = `${request.method} ${request.url?.replace(/\?.*/, '')}`;
    if (request.headers.authorization !== `Bearer ${key}`) throw new Refusal(401);
    const of = ROUTES.get(route);
    if (!of) throw new Refusal(404, route.includes('/rpc/') ? 'RPC_METHOD_NOT_FOUND' : undefined);
    limit(of);
    const name = nameOf(route);
    const place = faults.findIndex(({ call = name }) => call === name);
    const fault = place < 0 ? undefined : faults.splice(place, 1)[0];
    const refused = fault && new Refusal(fault.status, fault.reason);
    // From 500 on, it fails after it was carried out: the uncertain outcome of contract 7.3.
    if (refused && (refused.status < 500 || of === 'events')) throw refused;
    if (of === 'events') return streams.open(request, response);
    const isJson = /^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? '');
    const body = await json(request).catch(() => undefined);
    const told = carryOut(name, valid(object, isJson && body, 'JSON_INVALID'));
    if (refused) throw refused;
    return told;
  };
}
