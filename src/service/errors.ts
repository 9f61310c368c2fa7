// The error of every call (contract 7): what failed, and whether a retry helps or harms. The message quotes no text of
// the service, because such texts may change, and no body, phone number or key.
import { z } from 'zod';
import { orUndefined } from '../base/errors.ts';
import { REQUEST_ID } from '../wire/headers.ts';

interface Fields {
  code: string;
  reason?: string | null;
  status?: number;
  requestId?: string | null;
  uncertain?: boolean;
  message: string;
  cause?: unknown;
}

export class ServiceError extends Error {
  /**
   * Decide by this field. It is a category of contract 7.2, or a code of the kit: `unreachable` (no whole answer),
   * `unreadable`, `aborted`, `NO_API_KEY`, `PAID_OPERATIONS_REFUSED`.
   */
  readonly code: string;
  /** The reason of contract 7.4, or the kit's ANSWER_TOO_LARGE. Null: none. */
  readonly reason: string | null;
  /** HTTP status. 0: none, for example because no whole answer arrived. */
  readonly status: number;
  /** The service's support asks for this id. */
  readonly requestId: string | null;
  /** True if a retry may succeed and does no harm. */
  readonly retryable: boolean;
  /**
   * True if the operation may have been done in spite of the error (contract 7.3). Before you retry, look whether it
   * was done. Calls that only read are never uncertain.
   */
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

/** The facts of a request that its errors need. */
export interface Asked {
  /** The request's name in errors. */
  what: string;
  /** True if repeating the request does no harm, so that its errors are never uncertain. */
  safe: boolean;
  signal?: AbortSignal | undefined;
}

/** A field of an error that does not match its shape is ignored, because it could hold any text. */
const WORD = z.string().regex(/^[A-Z][A-Z0-9_]{0,63}$/);
const ID = z.string().regex(/^[\w.:-]{1,100}$/);
const envelope = z.object({
  error: z.object({ code: WORD, requestId: ID.optional().catch(undefined), reason: WORD.optional().catch(undefined) }),
});

/** The error of an answer other than 2xx (contract 7.1). */
export function errorOf({ what, safe }: Asked, { status, headers }: Response, text: string): ServiceError {
  const told = envelope.safeParse(orUndefined(() => JSON.parse(text) as unknown)).data?.error;
  // An answer without the error envelope comes from a proxy, so the status decides.
  const code = told?.code ?? (status === 429 ? 'RATE_LIMITED' : status >= 500 ? 'UNAVAILABLE' : 'unreadable');
  const reason = told?.reason ?? null;
  const remedy = status < 400 ? ': API_BASE_URL redirects, so set it to the new address' : '';
  return new ServiceError({
    code,
    reason,
    status,
    requestId: told?.requestId ?? idOf(headers),
    uncertain: !safe && (status >= 500 || reason === 'OUTCOME_UNCERTAIN'),
    message: `${what}: ${status} ${code}${reason ? ` (${reason})` : ''}${remedy}`,
  });
}

function idOf(headers: Headers): string | null {
  return ID.safeParse(headers.get(REQUEST_ID)).data ?? null;
}

/** The error of an answer that breaks the contract. Its message is the request's name, then `words`. */
export function unreadable(
  { what, safe }: Asked,
  { status, headers }: Response,
  words: string,
  reason: string | null = null,
): ServiceError {
  const about = { code: 'unreadable', reason, status, requestId: idOf(headers), message: `${what} ${words}` };
  return new ServiceError({ ...about, uncertain: !safe && status < 300 });
}

export function aborted(what: string, uncertain = false, cause?: unknown): ServiceError {
  return new ServiceError({ code: 'aborted', uncertain, message: `${what}: its signal was aborted`, cause });
}

/** Error codes of connections that were never made, so nothing was sent. */
const NEVER_SENT = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'];

/** The error of a request whose answer did not arrive, or not completely. */
export function failureOf({ what, safe, signal }: Asked, cause: unknown): ServiceError {
  if (cause instanceof ServiceError) return cause;
  if (signal?.aborted) return aborted(what, !safe, cause);
  // `fetch` puts the reason into a nested cause.
  const { name, cause: inner } = cause as Error & { cause?: { code?: string } };
  const why = name === 'TimeoutError' ? 'in time' : `(${inner?.code ?? name})`;
  const message = `${what}: no whole answer from API_BASE_URL ${why}`;
  const uncertain = !safe && !NEVER_SENT.includes(inner?.code ?? '');
  return new ServiceError({ code: 'unreachable', uncertain, message, cause });
}

/** For an answer that breaks the contract, although its status is 200. */
export const unfit = (what: string, words: string, reason: string | null = null): ServiceError =>
  new ServiceError({ code: 'unreadable', status: 200, reason, message: `${what}: ${words}` });
