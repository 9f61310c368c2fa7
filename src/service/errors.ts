// What the client throws (contract 7): the service's categories and ours, and whether repeating helps or harms. No body,
// number or key gets into a message, nor the service's own words, which may change.
import { z } from 'zod';

/** Contract 7.2; decide by it. A category that the service adds comes as it is. */
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
/** Ours: no answer; an answer that is not the service's; the signal was aborted; refused before anything was sent. */
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
  /** The contract's reason (7.4), where there is one. */
  readonly reason: string | null;
  /** HTTP status; 0 where there was no answer. */
  readonly status: number;
  /** What the service's support asks for. */
  readonly requestId: string | null;
  /** The same call may do better later, and does no harm. */
  readonly retryable: boolean;
  /** It may have been done all the same (contract 7.3): look before you repeat it. Never true of what only reads. */
  readonly uncertain: boolean;
  constructor({ code, reason = null, status = 0, requestId = null, uncertain = false, message, cause }: Fields) {
    super(message, { cause });
    this.name = 'ServiceError';
    this.code = code;
    this.reason = reason;
    this.status = status;
    this.requestId = requestId;
    this.uncertain = uncertain;
    this.retryable = !uncertain && ['RATE_LIMITED', 'UNAVAILABLE', 'INTERNAL', 'unreachable'].includes(code);
  }
}

/** What does not look like the contract's words may be anything, the key that we sent included. */
const WORD = z.string().regex(/^[A-Z][A-Z0-9_]{0,63}$/);
const ID = z.string().regex(/^[\w.:-]{1,100}$/);
const envelope = z.object({
  error: z.object({ code: WORD, requestId: ID.optional().catch(undefined), reason: WORD.optional().catch(undefined) }),
});

/** What an answer other than 2xx says, or an `event: error` of a stream (contract 7.1). */
export function errorOf(what: string, { status, headers }: Response, text: string): ServiceError {
  const { code, reason, requestId } = envelope.safeParse(parseJson(text)).data?.error ?? { code: codeOf(status) };
  return new ServiceError({
    code,
    reason: reason ?? null,
    status,
    requestId: requestId ?? idOf(headers),
    message: `${what}: ${status} ${code}${reason ? ` (${reason})` : ''}`,
  });
}

function idOf(headers: Headers): string | null {
  return ID.safeParse(headers.get('x-request-id')).data ?? null;
}

/** Contract 7.2, for answers that carry no envelope: a proxy's, say. */
function codeOf(status: number): Fields['code'] {
  if (status === 401) return 'UNAUTHENTICATED';
  if (status === 403) return 'FORBIDDEN';
  if (status === 404) return 'NOT_FOUND';
  if (status === 429) return 'RATE_LIMITED';
  return status === 502 || status === 503 || status === 504 ? 'UNAVAILABLE' : 'unreadable';
}

export function unreadable({ status, headers }: Response, message: string): ServiceError {
  return new ServiceError({ code: 'unreadable', status, requestId: idOf(headers), message });
}

export function aborted(what: string, cause?: unknown): ServiceError {
  return new ServiceError({ code: 'aborted', message: `${what}: its signal was aborted`, cause });
}

/** Codes of connections that were never made: nothing was sent. */
const NEVER_SENT = new Set<unknown>(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/** The same error, marked where what it was about has an effect and may have been done. */
export function doubted(error: ServiceError): ServiceError {
  const { code, reason, status, requestId, message, cause } = error;
  const undecided =
    ['UNAVAILABLE', 'INTERNAL', 'unreachable', 'aborted'].includes(code) ||
    (code === 'unreadable' && (status < 300 || status >= 500));
  const failure = (cause as { cause?: { code?: unknown } } | undefined)?.cause?.code;
  if (!undecided || NEVER_SENT.has(failure)) return error;
  return new ServiceError({ code, reason, status, requestId, message, cause, uncertain: true });
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
