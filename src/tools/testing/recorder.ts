// A scripted service for tests. The handler uses its normal client, but answers come from the test instead of the
// network, and each call is recorded. Nothing leaves the process.
import type { Fetch } from '../../service/exchange.ts';
import { REQUEST_ID } from '../../wire/headers.ts';

export interface Call {
  /** The operation. For other routes: `send`, `quote`, or the method and path. */
  name: string;
  request: Record<string, unknown>;
  /** The quote of a paid call. */
  quoteId: string | null;
}

export interface Failure {
  failure: { code: string; reason: string | null };
}

export type Answer = Record<string, unknown> | Failure;
/** Answers by the call's name. A function may choose the answer, or carry the call out and then return an error. */
export type Answers = Record<string, Answer | ((request: Call['request'], call: Call) => Answer | Promise<Answer>)>;

export interface Recorder {
  calls: Call[];
  /** Replaces the network. */
  fetch: Fetch;
}

/**
 * An answer that crashes the process during the call. The service has received the call, and its answer is lost. Works
 * only in `deliver`.
 */
export const crash: Record<string, never> = Object.freeze({});

/** HTTP status of each code (contract 7.2). Any other code, like `unreachable`, stands for a lost answer. */
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
/** Reasons whose HTTP status differs from that of their code (contract 7.4). */
const STATUS_OF_REASON: Record<string, number> = { RPC_DEADLINE_EXCEEDED: 504, BILLING_QUOTE_REQUIRED: 428 };

const NAMES: Record<string, string> = { 'POST /messages/send': 'send', 'POST /billing/quotes': 'quote' };

/** An answer that makes the client throw a ServiceError with this code and reason (contract 7.2, 7.4). */
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

/** Thrown so that `deliver` crashes its process. */
export class Crashed extends Error {}

function responseOf(answer: Record<string, unknown> | Failure): Response {
  if (!isFailure(answer)) return Response.json(answer);
  const { code, reason } = answer.failure;
  const status = STATUS_OF_REASON[reason ?? ''] ?? STATUS[code];
  if (status === undefined) throw new TypeError('fetch failed');
  const error = { code, message: 'a scripted error', requestId: 'request-1', ...(reason && { reason }) };
  return Response.json({ error }, { status, headers: { [REQUEST_ID]: 'request-1' } });
}

function isFailure(answer: object): answer is Failure {
  return 'failure' in answer;
}
