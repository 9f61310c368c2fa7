// The service's ReplayEvents over real HTTP, written from the contract alone (2.13, 4.1, 4.2, 6.1, 7). A test can
// order wrong answers. The server records requests and shown items, so that tests can check the kit against them.
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export const API_KEY = 'svc_test_key_of_the_replay_server';

export interface Item {
  cursor: string;
  json_payload: string;
}

export interface Request {
  operation: string;
  headers: IncomingHttpHeaders;
  body: unknown;
  /** `after_cursor` as it was sent. Undefined: it was left out. */
  after: string | undefined;
  limit: number | undefined;
  /** The time on the test's clock. */
  at: number;
}

export interface Answer {
  status?: number;
  headers?: Record<string, string>;
  /** Objects are sent as JSON. */
  body: string | Buffer | object;
}

/** A wrong answer. A function gets the correct answer and may change it. `destroy` cuts the connection. */
export type Lie = Answer | 'destroy' | ((request: Request, truth: Answer) => Answer);

export interface ReplayServer {
  /** For API_BASE_URL; ends in /v1. */
  url: string;
  requests: Request[];
  /** Every item with a cursor from answers with status 200. */
  shown: Map<string, Item>;
  /** Every next_cursor from answers with status 200. */
  named: Set<string>;
  publish: (...items: Item[]) => void;
  /** Expires the events up to this cursor. Requests after a lower cursor are then answered with `reset_required`. */
  forget: (cursor: string) => void;
  /** Sets the next answers, in this order. */
  lie: (...lies: Lie[]) => void;
  /** The next request gets this answer, but only after `letGo`. */
  hold: (answer: Answer) => void;
  held: () => boolean;
  letGo: () => void;
  /** Sets the answer for all requests. A call without an argument removes it. */
  lieAlways: (lie?: Lie) => void;
  close: () => Promise<void>;
}

export function item(cursor: number | bigint | string, type = 'MessageReceived', more: object = {}): Item {
  return { cursor: String(cursor), json_payload: JSON.stringify({ [type]: fields(cursor, more) }) };
}

/** The fields of one event, the same for webhook and replay. */
export function fields(cursor: number | bigint | string, more: object = {}): object {
  return {
    session_id: '5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11',
    from: '5511999990000@example',
    body: `message ${cursor}`,
    message_id: `m${cursor}`,
    is_group: false,
    timestamp_unix_ms: Date.UTC(2026, 0, 1),
    message_type: 'text',
    push_name: 'Ana',
    ...more,
  };
}

/** An error in the form of contract 7.1. */
export function failure(status: number, code: string, reason?: string): Answer {
  const error = { code, message: 'texto que pode mudar', requestId: `req-${status}`, ...(reason ? { reason } : {}) };
  return { status, headers: { 'x-request-id': `req-${status}` }, body: { error } };
}

export async function startReplayServer(now: () => number): Promise<ReplayServer> {
  const history: Item[] = [];
  const known = new Set<string>();
  let forgotten = -1n;
  const lies: Lie[] = [];
  let always: Lie | undefined;
  let holding: Answer | undefined;
  let letGo: (() => void) | undefined;
  const requests: Request[] = [];
  const shown = new Map<string, Item>();
  const named = new Set<string>();
  /** Answers whose items are in `shown`. A huge answer takes seconds to parse, and may be given many times. */
  const noted = new WeakSet<Answer>();

  function note(answer: Answer): void {
    if (noted.has(answer)) return;
    noted.add(answer);
    for (const one of itemsOf(answer)) shown.set(one.cursor, one);
    const { next_cursor: next } = (answer.body ?? {}) as { next_cursor?: unknown };
    if (/^\d+$/.test(String(next))) named.add(String(next));
  }

  function truth({ operation, headers, body, after, limit = 1_000 }: Request): Answer {
    if (headers.authorization !== `Bearer ${API_KEY}`) return failure(401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED');
    if (operation !== 'ReplayEvents') return failure(404, 'NOT_FOUND', 'RPC_METHOD_NOT_FOUND');
    if (typeof body !== 'object' || body === null) return failure(400, 'VALIDATION_FAILED', 'JSON_INVALID');
    if (!Number.isInteger(limit) || limit < 1 || limit > 1_000) return failure(400, 'VALIDATION_FAILED');
    if (after !== undefined && !known.has(after)) return failure(400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID');
    const from = after === undefined ? forgotten : BigInt(after);
    if (from < forgotten) return page([], { reset_required: true });
    const rest = history.filter(({ cursor }) => BigInt(cursor) > from);
    if (rest.length === 0) return page([], { next_cursor: after ?? '' });
    return page(rest.slice(0, limit), { has_more: rest.length > limit });
  }

  function reply(request: Request): Answer | 'destroy' {
    const lie = lies.shift() ?? always;
    if (lie === undefined) return truth(request);
    return typeof lie === 'function' ? lie(request, truth(request)) : lie;
  }

  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const body = parse(Buffer.concat(chunks).toString());
      const { after_cursor: after, limit } = inner(body);
      const operation = (req.url ?? '').replace('/v1/rpc/', '');
      const request = { operation, headers: req.headers, body, after, limit, at: now() };
      requests.push(request);
      if (holding) {
        const answer = holding;
        holding = undefined;
        letGo = () => send(res, answer);
        return;
      }
      const answer = reply(request);
      if (answer === 'destroy') req.socket.destroy();
      else {
        note(answer);
        send(res, answer);
      }
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    shown,
    named,
    publish(...items) {
      for (const one of items) {
        known.add(one.cursor);
        history.push(one);
      }
      history.sort((a, b) => (BigInt(a.cursor) < BigInt(b.cursor) ? -1 : 1));
    },
    forget(cursor) {
      forgotten = BigInt(cursor);
    },
    lie: (...more) => void lies.push(...more),
    hold(answer) {
      holding = answer;
    },
    held: () => letGo !== undefined,
    letGo: () => letGo?.(),
    lieAlways(lie) {
      always = lie;
    },
    close: () =>
      new Promise((done) => {
        server.close(() => done());
        server.closeAllConnections();
      }),
  };
}

/** A page in the form of the contract. By default, `next_cursor` is the cursor of the last item. */
export function page(events: unknown[], more: object = {}): Answer {
  const last = (events.at(-1) as Partial<Item> | null | undefined)?.cursor;
  return { body: { events, next_cursor: last ?? '', has_more: false, reset_required: false, ...more } };
}

function inner(body: unknown): { after_cursor?: string; limit?: number } {
  return (body as { request?: { after_cursor?: string; limit?: number } } | undefined)?.request ?? {};
}

function itemsOf({ status = 200, body }: Answer): Item[] {
  const parsed = typeof body === 'string' || Buffer.isBuffer(body) ? parse(body.toString()) : body;
  const events = (parsed as { events?: unknown } | undefined)?.events;
  return status === 200 && Array.isArray(events) ? events.filter(isPlaced) : [];
}

function isPlaced(value: unknown): value is Item {
  const cursor = (value as { cursor?: unknown } | null)?.cursor;
  return typeof cursor === 'string' && /^\d+$/.test(cursor);
}

function send(res: ServerResponse, { status = 200, headers = {}, body }: Answer): void {
  const plain = typeof body === 'string' || Buffer.isBuffer(body);
  res.writeHead(status, { 'content-type': plain ? 'text/html' : 'application/json', ...headers });
  res.end(plain ? body : JSON.stringify(body));
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
