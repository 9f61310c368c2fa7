// The service's API over HTTP (contract 4, 5.1, 7, 8): routes, the key, limits and errors.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { z } from 'zod';
import { REQUEST_ID } from '../../wire/headers.ts';
import { valid, type Calls } from './calls.ts';
import { spoiled, type Faults } from './faults.ts';
import type { Kind, Limits } from './limits.ts';
import { Lost, Refusal } from './refusal.ts';
import type { Streams } from './stream.ts';

/** The valid API key, and those that were revoked. */
export interface Keys {
  current: string;
  revoked: Set<string>;
}

export interface ApiOptions {
  keys: Keys;
  calls: Calls;
  streams: Streams;
  limits: Limits;
  faults: Faults;
}

const ROUTES = new Map<string, Kind>([
  ['POST /v1/rpc/ReplayEvents', 'rpc'],
  ['POST /v1/rpc/ListMessages', 'rpc'],
  ['POST /v1/rpc/ListConversations', 'rpc'],
  ['POST /v1/rpc/GetApiKeyIdentity', 'rpc'],
  ['POST /v1/messages/send', 'rpc'],
  ['POST /v1/billing/quotes', 'quotes'],
  ['GET /v1/media', 'media'],
  ['GET /v1/events', 'events'],
]);
const nameOf = (route: string): string => route.replace(/^.*\/v1\/(rpc\/)?/, '');
export const CALLS = [...ROUTES.keys()].map(nameOf);
/** The largest body that is accepted, in bytes (contract 8). */
const MOST_BYTES = 12 * 1024 * 1024;
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
      if (error instanceof Lost) return void response.destroy();
      const refusal = error instanceof Refusal ? error : new Refusal(500);
      response.writeHead(refusal.status, JSON_TYPE).end(refusal.envelope(id));
    }
  }

  const server = createServer((request, response) => void respond(request, response));
  await once(server.listen(port, '127.0.0.1'), 'listening');
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : port}/v1`,
    /** The number of requests so far, refused ones included. */
    requests: () => requests,
    async stop(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** The function that answers a request. Resolves with the answer. Undefined: it is already sent. Throws Refusal or Lost. */
function createAnswer({ keys, calls, streams, limits, faults }: ApiOptions) {
  function carryOut(name: string, body: Record<string, unknown>): object {
    if (name === 'billing/quotes') return calls.quote(body);
    const { request, billing } = valid(envelope, body, 'RPC_REQUEST_INVALID');
    if (name === 'ReplayEvents') return calls.replay(request);
    if (name === 'ListMessages') return calls.messages(request);
    if (name === 'ListConversations') return calls.conversations(request);
    // The contract does not show the answer of GetApiKeyIdentity.
    if (name === 'GetApiKeyIdentity') return {};
    calls.pay(billing, request);
    return calls.send(request);
  }

  /** Throws Refusal if the key is wrong or revoked. */
  function authenticate(authorization = ''): void {
    const key = authorization.replace(/^Bearer /, '');
    if (key !== keys.current) throw new Refusal(401, keys.revoked.has(key) ? 'API_AUTH_REVOKED' : undefined);
  }

  return async (request: IncomingMessage, response: ServerResponse): Promise<object | undefined> => {
    const [path = ''] = request.url?.split('?') ?? [];
    const [, media] = /^\/v1\/media\/([^/]+)$/.exec(path) ?? [];
    const route = `${request.method} ${media === undefined ? path : '/v1/media'}`;
    authenticate(request.headers.authorization);
    const kind = ROUTES.get(route);
    if (!kind) throw new Refusal(404, route.includes('/rpc/') ? 'RPC_METHOD_NOT_FOUND' : undefined);
    limits(kind);
    const name = nameOf(route);
    const fault = faults.take(name, route.startsWith('GET'));
    if (kind === 'events') return streams.open(request, response);
    if (kind === 'media') {
      const { mime, text } = calls.media(decodeURIComponent(media ?? ''));
      return void response.writeHead(200, { 'content-type': mime }).end(text);
    }
    if (Number(request.headers['content-length']) > MOST_BYTES) throw new Refusal(413);
    const isJson = /^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? '');
    const body = await json(request).catch(() => undefined);
    const told = carryOut(name, valid(object, isJson && body, 'JSON_INVALID'));
    return fault ? spoiled(fault, told) : told;
  };
}
