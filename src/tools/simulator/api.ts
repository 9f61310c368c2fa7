// The HTTP API of the simulated service, as far as a receiver calls it (contract 4, 5.1, 7, 8): routes, limits, bodies
// and errors.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { z } from 'zod';
import { REQUEST_ID } from '../../wire/headers.ts';
import type { Account } from './account.ts';
import type { Chaos } from './chaos.ts';
import type { Answer } from './faults.ts';
import type { Key, Keys } from './keys.ts';
import { ACCOUNT_LIMITS, type Limits } from './limits.ts';
import { valid, type Operation } from './operations.ts';
import { envelopeOf, Refusal } from './refusal.ts';
import type { Streams } from './stream.ts';
import { transmit } from './transmit.ts';

export interface ServiceApi {
  /** Resolves to the base URL, which ends in /v1. Port 0 takes a free port. */
  listen(port?: number): Promise<string>;
  close(): Promise<void>;
  /** The number of requests, including refused ones. */
  calls(): number;
}

const MIB = 1024 * 1024;

type Body = Record<string, unknown>;

/** A route outside /rpc and /events (contract 4.3). */
interface Other {
  route: RegExp;
  of: keyof typeof ACCOUNT_LIMITS;
  scopes?: string[];
  /** The size limit of the body in bytes. Undefined: no body is read. */
  bytes?: number;
  answer(account: Account, call: Body, path: string): Answer;
}

const OTHERS: Other[] = [
  {
    route: /^POST \/v1\/messages\/send$/,
    of: 'rpc',
    scopes: ['messages:send'],
    bytes: 12 * MIB,
    answer(account, call) {
      account.pay(call['billing'], call['request']);
      return ok(account.send(call));
    },
  },
  {
    route: /^POST \/v1\/billing\/quotes$/,
    of: 'quotes',
    bytes: 12 * MIB,
    answer: (account, call) => ok(account.quote(call)),
  },
  {
    route: /^GET \/v1\/media\/[^/]+$/,
    of: 'media',
    answer: (account, _, path) => account.media(path.slice(path.lastIndexOf('/') + 1)),
  },
  {
    route: /^POST \/v1\/sessions\/resume$/,
    of: 'sessions',
    scopes: ['sessions:manage'],
    bytes: 4 * 1024,
    answer: (account, call) => account.resume(call),
  },
  {
    // The contract shows too little of this operation to simulate it.
    route: /^POST \/v1\/sessions\/create$/,
    of: 'sessions',
    scopes: ['sessions:manage'],
    bytes: 4 * 1024,
    answer() {
      throw new Refusal(503, 'PAIRING_UNAVAILABLE');
    },
  },
];

const jsonObject = z.record(z.string(), z.unknown());
/** Field names in snake_case (contract 7.4). */
const fields = z.record(z.string().regex(/^[a-z0-9_]+$/), z.unknown());
const envelope = z.strictObject({
  request: fields,
  // Ignored if the operation is not paid.
  billing: z.unknown().optional(),
  deadlineMs: z.unknown().optional(),
});
const deadline = z.int().min(1).max(30_000).optional();

export interface ApiOptions {
  keys: Keys;
  operations: Map<string, Operation>;
  account: Account;
  streams: Streams;
  limits: Limits;
  chaos: Chaos;
  speed: number;
}

/** Returns the function that answers requests. The function throws Refusal. */
function createRoutes({ keys, operations, account, streams, limits, chaos }: ApiOptions) {
  /** Resolves to undefined if the request opened a stream. */
  async function answer(request: IncomingMessage, response: ServerResponse, id: string): Promise<Answer | undefined> {
    const path = URL.parse(request.url ?? '', 'http://localhost')?.pathname;
    const route = `${request.method} ${path}`;
    // The only route without a key (contract 4.3).
    if (route === 'GET /v1/') return ok({ name: 'Messaging Automation Service API', version: 'v1', simulated: true });
    const key = keys.authorize(request.headers.authorization, request.socket.remoteAddress ?? '');
    if (route === 'GET /v1') return ok({ operations: [...operations.keys()] });
    if (route === 'GET /v1/events') {
      keys.require(key, ['events:read']);
      count('events');
      const fault = chaos.fault()?.(ok({}), null);
      if (fault instanceof Refusal) throw fault;
      if (fault && fault.manner !== undefined) return fault;
      streams.open(key, request, response, id);
      return undefined;
    }
    const name = /^POST \/v1\/rpc\/(\w+)$/.exec(route)?.[1];
    if (name === undefined) return other(route, key, request);
    count('rpc');
    const operation = operations.get(name);
    if (!operation) throw new Refusal(404, 'RPC_METHOD_NOT_FOUND');
    keys.require(key, operation.scopes, 'RPC_METHOD_FORBIDDEN');
    const call = valid(envelope, await readJson(request, 12 * MIB), 'RPC_REQUEST_INVALID');
    valid(deadline, call.deadlineMs, 'RPC_DEADLINE_INVALID');
    if (operation.paid) account.pay(call.billing, call.request);
    const after = call.request['after_cursor'];
    return bent(ok(operation.answer(call.request, key)), typeof after === 'string' ? after : null);
  }

  async function other(route: string, key: Key, request: IncomingMessage): Promise<Answer> {
    const one = OTHERS.find((candidate) => candidate.route.test(route));
    if (!one) throw new Refusal(404);
    keys.require(key, one.scopes ?? []);
    count(one.of);
    const call = one.bytes === undefined ? {} : await readJson(request, one.bytes);
    return bent(one.answer(account, call, route));
  }

  /** Applies the next fault to the answer. The operation itself has already been carried out. */
  function bent(truth: Answer, after: string | null = null): Answer {
    const told = chaos.fault()?.(truth, after) ?? truth;
    if (told instanceof Refusal) throw told;
    return told;
  }

  function count(what: keyof typeof ACCOUNT_LIMITS): void {
    if (!limits.take(what, ACCOUNT_LIMITS[what])) throw new Refusal(429, 'RATE_LIMITED');
  }

  return answer;
}

export function createServiceApi(options: ApiOptions): ServiceApi {
  const { speed } = options;
  const answer = createRoutes(options);
  let calls = 0;

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    calls++;
    const id = randomUUID();
    let told: Answer | undefined;
    try {
      told = await answer(request, response, id);
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal(500);
      told = { status: refusal.status, body: envelopeOf(refusal, id) };
    }
    if (told) await transmit(response, { ...told, headers: { [REQUEST_ID]: id, ...told.headers } }, speed);
  }

  const server = createServer((incoming, response) => void respond(incoming, response));
  // A request that is not valid HTTP gets the same error envelope (contract 7.1).
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    if (!socket.writable) return;
    const id = randomUUID();
    const tooLarge = error.code === 'HPE_HEADER_OVERFLOW';
    const body = JSON.stringify(envelopeOf(new Refusal(400), id));
    const status = tooLarge ? '431 Request Header Fields Too Large' : '400 Bad Request';
    socket.end(
      `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\n${REQUEST_ID}: ${id}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    );
  });

  return {
    async listen(port = 0) {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
      const address = server.address();
      return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : port}/v1`;
    },
    async close() {
      if (!server.listening) return;
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
    calls: () => calls,
  };
}

function ok(body: object): Answer {
  return { status: 200, body };
}

async function readJson(request: IncomingMessage, limit: number): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= limit) chunks.push(chunk);
  }
  if (bytes > limit) throw new Refusal(413, 'PAYLOAD_TOO_LARGE');
  const isJson = /^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? '');
  try {
    if (isJson) return jsonObject.parse(JSON.parse(Buffer.concat(chunks).toString('utf8')));
  } catch {
    // Invalid JSON gets the same answer as a body that is not declared as JSON.
  }
  throw new Refusal(400, 'JSON_INVALID');
}
