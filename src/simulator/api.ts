// The service's operations over HTTP (contract 4, 5.1, 7, 8), as far as a receiver calls them.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { z } from 'zod';
import { systemClock, type Clock } from '../clock.ts';
import type { History } from './history.ts';

export interface ServiceApi {
  /** The base URL, which ends in /v1. Port 0 takes a free one. */
  listen(port?: number): Promise<string>;
  close(): Promise<void>;
  /** How many requests came, refused ones too. */
  calls(): number;
  /** The next request is answered with this error; several are answered in their order. */
  failNext(status: number, code: string, reason?: string): void;
}

class Refusal extends Error {
  readonly status: number;
  readonly code: string;
  readonly reason: string | undefined;
  constructor(status: number, code: string, reason?: string) {
    super('A chamada foi recusada.');
    this.status = status;
    this.code = code;
    this.reason = reason;
  }
}

const CALLS_PER_MINUTE = 120;
const MINUTE_MS = 60_000;
const BODY_LIMIT = 12 * 1024 * 1024;
const EVENTS_PER_CALL = 1_000;

const jsonObject = z.record(z.string(), z.unknown());
const envelope = z.strictObject({
  request: jsonObject,
  billing: jsonObject.optional(),
  deadlineMs: z.unknown().optional(),
});
const deadline = z.int().min(1).max(30_000).optional();
const replayRequest = z.strictObject({
  after_cursor: z.string().optional(),
  limit: z.int().min(1).max(EVENTS_PER_CALL).optional(),
});

export function createServiceApi(options: { history: History; apiKey: string; clock?: Clock }): ServiceApi {
  const { history, apiKey, clock = systemClock } = options;
  const failures: Refusal[] = [];
  let calls = 0;
  let minute = { from: -Infinity, calls: 0 };

  const operations = new Map([
    ['GetApiKeyIdentity', () => ({})],
    ['ReplayEvents', replayEvents],
  ]);

  function replayEvents(request: unknown): object {
    const { after_cursor: after = null, limit = EVENTS_PER_CALL } = valid(replayRequest, request, 'REQUEST_INVALID');
    const page = history.after(after, limit);
    if (page === 'unknown') throw new Refusal(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID');
    const { events, hasMore } = page === 'expired' ? { events: [], hasMore: false } : page;
    return {
      events: events.map(({ cursor, type, data }) => ({ cursor, json_payload: JSON.stringify({ [type]: data }) })),
      next_cursor: events.at(-1)?.cursor ?? after ?? '',
      has_more: hasMore,
      reset_required: page === 'expired',
    };
  }

  async function answer(request: IncomingMessage): Promise<object> {
    calls++;
    const failure = failures.shift();
    if (failure) throw failure;
    if (request.headers.authorization !== `Bearer ${apiKey}`)
      throw new Refusal(401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED');
    const name = /^\/v1\/rpc\/(\w+)$/.exec(request.url ?? '')?.[1];
    if (name === undefined || request.method !== 'POST') throw new Refusal(404, 'NOT_FOUND');
    countTowardsLimit();
    const operation = operations.get(name);
    if (!operation) throw new Refusal(404, 'NOT_FOUND', 'RPC_METHOD_NOT_FOUND');
    const call = valid(envelope, await readJson(request), 'RPC_REQUEST_INVALID');
    valid(deadline, call.deadlineMs, 'RPC_DEADLINE_INVALID');
    return operation(call.request);
  }

  function countTowardsLimit(): void {
    if (clock.now() - minute.from >= MINUTE_MS) minute = { from: clock.now(), calls: 0 };
    if (++minute.calls > CALLS_PER_MINUTE) throw new Refusal(429, 'RATE_LIMITED', 'RATE_LIMITED');
  }

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = randomUUID();
    let status = 200;
    let body: object;
    try {
      body = await answer(request);
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal(500, 'INTERNAL');
      const { code, message, reason } = refusal;
      status = refusal.status;
      body = { error: { code, message, requestId, reason } };
    }
    response
      .writeHead(status, { 'content-type': 'application/json', 'x-request-id': requestId })
      .end(JSON.stringify(body));
  }

  const server = createServer((request, response) => void respond(request, response));

  return {
    async listen(port = 0) {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
      const address = server.address();
      return `http://127.0.0.1:${typeof address === 'object' && address ? address.port : port}/v1`;
    },
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
    calls: () => calls,
    failNext: (status, code, reason) => void failures.push(new Refusal(status, code, reason)),
  };
}

function valid<Shape>(schema: z.ZodType<Shape>, value: unknown, reason: string): Shape {
  const parsed = schema.safeParse(value);
  if (!parsed.success) throw new Refusal(400, 'VALIDATION_FAILED', reason);
  return parsed.data;
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= BODY_LIMIT) chunks.push(chunk);
  }
  if (bytes > BODY_LIMIT) throw new Refusal(413, 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE');
  const isJson = request.headers['content-type']?.startsWith('application/json');
  try {
    if (isJson) return jsonObject.parse(JSON.parse(Buffer.concat(chunks).toString('utf8')));
  } catch {
    // The same answer as to what does not call itself JSON.
  }
  throw new Refusal(400, 'VALIDATION_FAILED', 'JSON_INVALID');
}
