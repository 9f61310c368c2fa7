// The HTTP API of the simulated service, as far as a receiver calls it (contract 4, 5.1, 7, 8): routes, limits, bodies
// and errors.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { z } from 'zod';
import { REQUEST_ID } from '../../wire/headers.ts';
import type { Billing } from './billing.ts';
import type { Chaos } from './chaos.ts';
import type { Answer, Fault } from './faults.ts';
import type { Key, Keys } from './keys.ts';
import { ACCOUNT_LIMITS, type Limits } from './limits.ts';
import type { Operation } from './operations.ts';
import { envelopeOf, Refusal } from './refusal.ts';
import { fields, INVENTED, pathOf, type Route } from './routes.ts';
import type { Streams } from './stream.ts';
import { transmit } from './transmit.ts';
import { valid } from './valid.ts';

export interface ServiceApi {
  /** Resolves to the base URL, which ends in /v1. Port 0 takes a free port. */
  listen(port?: number): Promise<string>;
  close(): Promise<void>;
  /** The number of requests, including refused ones. */
  calls(): number;
}

const MIB = 1024 * 1024;
/** Request line and headers, in bytes: the query of a stream can name 1000 numbers (contract 4.4). */
const LONGEST = 128 * 1024;

const jsonObject = z.record(z.string(), z.unknown());
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
  routes: Route[];
  billing: Billing;
  streams: Streams;
  limits: Limits;
  chaos: Chaos;
  speed: number;
}

/** Returns the function that answers requests. The function throws Refusal. */
function createAnswering({ keys, operations, routes, billing, streams, limits, chaos }: ApiOptions) {
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
      const opened = ok({});
      const fault = chaos.fault('events')?.(opened, null);
      if (fault instanceof Refusal) throw fault;
      if (fault && fault !== opened) return fault;
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
    const after = call.request['after_cursor'];
    const work = (): Answer => ok(operation.answer(call.request, key), operation.invented ? INVENTED : {});
    return carryOut(chaos.fault(name), work, {
      after: typeof after === 'string' ? after : null,
      ...(operation.paid && { pay: () => billing.pay(call.billing, [name], call.request) }),
    });
  }

  async function other(path: string, key: Key, request: IncomingMessage): Promise<Answer> {
    const asked = path.replace(/(?<=\/media\/)[^/]+$/, '{id}');
    const route = routes.find(({ route: named }) => named === asked);
    if (!route) throw new Refusal(404);
    keys.require(key, route.scopes);
    count(route.of);
    const call = route.bytes === 0 ? {} : await readJson(request, route.bytes);
    route.check?.(call, key);
    const { paid } = route;
    const pay = paid && { pay: () => billing.pay(call['billing'], paid, call['request']) };
    return carryOut(chaos.fault(pathOf(route)), () => route.answer(call, path, key), { ...pay });
  }

  function count(what: keyof typeof ACCOUNT_LIMITS): void {
    if (!limits.take(what, ACCOUNT_LIMITS[what])) throw new Refusal(429, 'RATE_LIMITED');
  }

  return answer;
}

/**
 * Carries out the call and answers it with the fault, if there is one. A fault may say that the call is not carried out.
 * A refusal then costs nothing, but an uncertain outcome uses the quote (contract 7.3).
 */
function carryOut(
  fault: Fault | undefined,
  work: () => Answer,
  { pay, after = null }: { pay?: () => void; after?: string | null },
): Answer {
  const unmade = fault?.undone ? fault(ok({}), after) : undefined;
  if (unmade instanceof Refusal && unmade.status < 500) throw unmade;
  pay?.();
  const truth = unmade ?? work();
  const told = truth instanceof Refusal ? truth : (fault?.(truth, after) ?? truth);
  if (told instanceof Refusal) throw told;
  return told;
}

export function createServiceApi(options: ApiOptions): ServiceApi {
  const { speed } = options;
  const answer = createAnswering(options);
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

  const server = createServer({ maxHeaderSize: LONGEST }, (incoming, response) => void respond(incoming, response));
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

function ok(body: object, headers: Record<string, string> = {}): Answer {
  return { status: 200, headers, body };
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
