// The service as a test scripts it: the handler's own client, and in place of the network answers by name, each call
// written down. Nothing leaves the process.
import type { Fetch } from '../../service/exchange.ts';

/** One call that a handler made. */
export interface Call {
  /** The operation; `send`, `quote`, or the method and path of any other route. */
  name: string;
  request: Record<string, unknown>;
  /** Of a paid call. */
  quoteId: string | null;
}

export interface Failure {
  failure: { code: string; reason: string | null };
}

export type Answer = Record<string, unknown> | Failure;
/** By the call's name; a function may count, and do as the service would before it fails. */
export type Answers = Record<string, Answer | ((request: Call['request'], call: Call) => Answer | Promise<Answer>)>;

export interface Recorder {
  calls: Call[];
  /** In place of the network. */
  fetch: Fetch;
}

/** The process dies while the call is under way: the service has it, and nobody hears the answer. Only in `deliver`. */
export const crash: Record<string, never> = Object.freeze({});

/** Contract 7.2; another code, like `unreachable`, is no answer at all. */
const STATUS: Record<string, number> = {
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  VALIDATION_FAILED: 400,
  CONFLICT: 409,
  PAYMENT_REQUIRED: 402,
  RATE_LIMITED: 429,
  UNAVAILABLE: 503,
  INTERNAL: 500,
};
/** Contract 7.4: reasons whose status is not their category's. */
const STATUS_OF_REASON: Record<string, number> = { RPC_DEADLINE_EXCEEDED: 504, BILLING_QUOTE_REQUIRED: 428 };

const NAMES: Record<string, string> = { 'POST /messages/send': 'send', 'POST /billing/quotes': 'quote' };

/** An answer that makes the client throw ServiceError: by the contract's code and reason (7.2, 7.4). */
export function serviceError(code: string, reason: string | null = null): Failure {
  return { failure: { code, reason } };
}

export function recorder(answers: Answers = {}): Recorder {
  const calls: Call[] = [];
  return {
    calls,
    async fetch(url, { method = 'GET', body = null }) {
      const { pathname } = new URL(url);
      const path = pathname.replace(/^\/v1/, '');
      const route = `${method} ${path}`;
      const sent = (typeof body === 'string' ? JSON.parse(body) : {}) as Record<string, never>;
      const name = /^\/rpc\/(\w+)$/.exec(path)?.[1] ?? NAMES[route] ?? route;
      const call: Call = {
        name,
        request: sent['request'] ?? sent,
        quoteId: sent['billing']?.['quoteId'] ?? null,
      };
      calls.push(call);
      const scripted = answers[name] ?? serviceError('NOT_FOUND', 'NO_ANSWER_IN_RECORDER');
      const answer = typeof scripted === 'function' ? await scripted(call.request, call) : scripted;
      if (answer === crash) throw new Crashed();
      return responseOf(answer);
    },
  };
}

/** How `deliver` hears of it. */
export class Crashed extends Error {}

function responseOf(answer: Record<string, unknown> | Failure): Response {
  if (!isFailure(answer)) return Response.json(answer);
  const { code, reason } = answer.failure;
  const status = STATUS_OF_REASON[reason ?? ''] ?? STATUS[code];
  if (status === undefined) throw new TypeError('fetch failed');
  const error = { code, message: 'a scripted error', requestId: 'request-1', ...(reason && { reason }) };
  return Response.json({ error }, { status, headers: { 'x-request-id': 'request-1' } });
}

function isFailure(answer: object): answer is Failure {
  return 'failure' in answer;
}
