// The errors of the client (contract 7): categories of the service and of the kit, and whether a retry helps or harms.
// A message never contains a body, phone number or key. It also leaves out the service's own text, which may change.
import { z } from 'zod';
import { orUndefined } from '../base/errors.ts';
import { masked } from '../base/secrets.ts';
import { REQUEST_ID } from '../wire/headers.ts';

/** Contract 7.2. Decide by the code, not by the message. New categories of the service are passed on unchanged. */
type ServiceCode =
  | 'UNAUTHENTICATED'
  | 'FORBIDDEN'
  | 'NOT_FOUND'
  | 'VALIDATION_FAILED'
  | 'CONFLICT'
  | 'PAYMENT_REQUIRED'
  | 'RATE_LIMITED'
  | 'UNAVAILABLE'
  | 'INTERNAL';
/** The kit's own codes: no answer; an unreadable answer; an aborted signal; refused before sending. */
type OwnCode = 'unreachable' | 'unreadable' | 'aborted' | 'NO_API_KEY' | 'PAID_OPERATIONS_REFUSED';

interface Fields {
  code: ServiceCode | OwnCode | (string & {});
  reason?: string | null;
  status?: number;
  requestId?: string | null;
  uncertain?: boolean;
  message: string;
  cause?: unknown;
}

export class ServiceError extends Error {
  readonly code: Fields['code'];
  /** The reason of contract 7.4, if there is one. */
  readonly reason: string | null;
  /** HTTP status. For an error inside a stream: the status of its code (contract 7.2). 0: no answer, or none known. */
  readonly status: number;
  /** The service's support asks for this id. */
  readonly requestId: string | null;
  /** True if a retry may succeed and does no harm. */
  readonly retryable: boolean;
  /**
   * True if the operation may have been done in spite of the error (contract 7.3). Look whether it was done before you
   * retry. Calls that only read are never uncertain.
   */
  readonly uncertain: boolean;
  constructor({ code, reason = null, status = 0, requestId = null, uncertain = false, message, cause }: Fields) {
    super(masked(message), { cause });
    this.name = 'ServiceError';
    this.code = masked(code);
    this.reason = reason && masked(reason);
    this.status = status;
    this.requestId = requestId && masked(requestId);
    this.uncertain = uncertain;
    this.retryable = !uncertain && ['RATE_LIMITED', 'UNAVAILABLE', 'INTERNAL', 'unreachable'].includes(code);
  }
}

/** A code of another shape is ignored, because it could be any text, even the key that was sent. */
const WORD = z.string().regex(/^[A-Z][A-Z0-9_]{0,63}$/);
const ID = z.string().regex(/^[\w.:-]{1,100}$/);
const envelope = z.object({
  error: z.object({ code: WORD, requestId: ID.optional().catch(undefined), reason: WORD.optional().catch(undefined) }),
});

/** The error of an answer other than 2xx, or of an `event: error` in a stream (contract 7.1). */
export function errorOf(what: string, response: Response, text: string): ServiceError {
  const { headers, ok } = response;
  const told = envelope.safeParse(orUndefined(() => JSON.parse(text) as unknown)).data?.error;
  const { code, reason, requestId } = told ?? { code: codeOf(response.status) };
  // The status of a stream was sent before its error.
  const status = ok ? (STATUSES[code]?.[0] ?? 0) : response.status;
  return new ServiceError({
    code,
    reason: reason ?? null,
    status,
    requestId: requestId ?? idOf(headers),
    message: `${what}: ${status} ${code}${reason ? ` (${reason})` : ''}`,
  });
}

function idOf(headers: Headers): string | null {
  return ID.safeParse(headers.get(REQUEST_ID)).data ?? null;
}

/** The categories of contract 7.2. */
const STATUSES: Record<string, number[]> = {
  UNAUTHENTICATED: [401],
  FORBIDDEN: [403],
  NOT_FOUND: [404],
  VALIDATION_FAILED: [400, 413],
  CONFLICT: [409],
  PAYMENT_REQUIRED: [402, 428],
  RATE_LIMITED: [429],
  UNAVAILABLE: [503, 504],
  INTERNAL: [500],
} satisfies Record<ServiceCode, number[]>;

/** The code of an answer without an error envelope. Statuses above 500 that the contract does not name are a proxy's. */
function codeOf(status: number): Fields['code'] {
  const known = Object.entries(STATUSES).find(([, statuses]) => statuses.includes(status));
  return known?.[0] ?? (status > 500 ? 'UNAVAILABLE' : 'unreadable');
}

export function unreadable({ status, headers }: Response, message: string): ServiceError {
  return new ServiceError({ code: 'unreadable', status, requestId: idOf(headers), message });
}

export function aborted(what: string, cause?: unknown): ServiceError {
  return new ServiceError({ code: 'aborted', message: `${what}: its signal was aborted`, cause });
}

/** The error for an answer that did not arrive, or not completely. */
export function failureOf(what: string, cause: unknown, signal: AbortSignal | undefined): ServiceError {
  // If the service has answered, its error counts, even if the caller aborted meanwhile.
  if (cause instanceof ServiceError && cause.status > 0) return cause;
  // A signal that a timeout has aborted does not count as an abort by the caller.
  if (signal?.aborted && (signal.reason as Error | undefined)?.name !== 'TimeoutError') return aborted(what, cause);
  if (cause instanceof ServiceError) return cause;
  return new ServiceError({ code: 'unreachable', message: `${what}: ${wordsOf(cause)}`, cause });
}

/** `fetch` puts the reason into nested causes. */
function wordsOf(error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { message?: string; code?: string } };
  if (cause?.message === 'unexpected redirect')
    return 'API_BASE_URL redirects, and the kit follows no redirects: set it to the new address';
  if (name === 'TimeoutError') return 'no whole answer from API_BASE_URL in time';
  const code = cause?.code ? ` (${cause.code})` : '';
  return message === 'terminated' ? `the answer broke off${code}` : `no answer from API_BASE_URL${code}`;
}

/** Error codes of connections that were never made, so nothing was sent. */
const NEVER_SENT = new Set<unknown>(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/**
 * Marks the error of a call that changes something as uncertain, if the operation may have been done. Contract 7.3
 * names two reasons. Any lost, unreadable or 5xx answer counts as well, unless the connection was never made.
 */
export function doubted(error: ServiceError): ServiceError {
  const { code, reason, status, requestId, message, cause } = error;
  const undecided =
    ['UNAVAILABLE', 'INTERNAL', 'unreachable', 'aborted'].includes(code) ||
    // Contract 7.3 decides by status and reason, not by the code.
    status >= 500 ||
    reason === 'OUTCOME_UNCERTAIN' ||
    reason === 'RPC_DEADLINE_EXCEEDED' ||
    (code === 'unreadable' && status < 300);
  const failure = (cause as { cause?: { code?: unknown } } | undefined)?.cause?.code;
  if (!undecided || NEVER_SENT.has(failure)) return error;
  return new ServiceError({ code, reason, status, requestId, message, cause, uncertain: true });
}
