// The client of the service's operations (contract 4.1): envelope, deadline, typed errors. Reads no more than it must,
// follows no redirect, and repeats nothing by itself.
import { z } from 'zod';

/** Contract 7. `code` is the stable category to decide by; `unreachable` and `unreadable` are ours. */
export class ServiceError extends Error {
  readonly code: string;
  readonly reason: string | null;
  /** HTTP status; 0 where there was no answer. */
  readonly status: number;
  readonly requestId: string | null;
  constructor(fields: {
    code: string;
    reason?: string | null;
    status?: number;
    requestId?: string | null;
    message: string;
    cause?: unknown;
  }) {
    super(fields.message, { cause: fields.cause });
    this.name = 'ServiceError';
    this.code = fields.code;
    this.reason = fields.reason ?? null;
    this.status = fields.status ?? 0;
    this.requestId = fields.requestId ?? null;
  }
}

export interface CallOptions {
  /** Milliseconds, 1 to 30000 (contract 4.1). Default: 30000. */
  deadlineMs?: number;
  /** Paid operations: the quote, made for the same operation and the same request. */
  quoteId?: string;
  signal?: AbortSignal;
}

export interface Service {
  /** Calls POST /rpc/<operation>. Resolves to the response object. Throws ServiceError. */
  call(operation: string, request: Record<string, unknown>, options?: CallOptions): Promise<Record<string, unknown>>;
}

/** A page of ReplayEvents holds 1000 events of up to 12 MiB; a thousandth of that is generous. */
const MOST_BYTES = 64 * 1024 * 1024;
/** Operations that the contract marks as paid (4.2). */
const PAID = new Set(['ResumeCampaign']);
/** What the network may add to the operation's own deadline. */
const SLACK_MS = 5_000;

const envelope = z.object({
  error: z.object({ code: z.string(), requestId: z.string().optional(), reason: z.string().optional() }),
});

export function createService({
  baseUrl,
  apiKey,
  paid,
  fetch = globalThis.fetch,
}: {
  baseUrl: string;
  apiKey: string;
  paid: boolean;
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}): Service {
  const base = baseUrl.replace(/\/+$/, '');

  async function call(operation: string, request: Record<string, unknown>, options: CallOptions = {}) {
    const { deadlineMs = 30_000, quoteId, signal } = options;
    if ((quoteId !== undefined || PAID.has(operation)) && !paid) {
      throw new ServiceError({
        code: 'PAID_OPERATIONS_REFUSED',
        message: `${operation} costs money: set PAID_OPERATIONS=allow`,
      });
    }
    const timeout = AbortSignal.timeout(deadlineMs + SLACK_MS);
    const response = await reach(operation, () =>
      fetch(`${base}/rpc/${operation}`, {
        method: 'POST',
        redirect: 'error',
        headers: {
          authorization: `Bearer ${apiKey}`,
          'content-type': 'application/json',
          'accept-encoding': 'identity',
        },
        body: JSON.stringify({ request, deadlineMs, ...(quoteId === undefined ? {} : { billing: { quoteId } }) }),
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      }),
    );
    const text = await reach(operation, () => readText(response));
    if (!response.ok) throw errorOf(operation, response, text);
    return readObject(operation, response, text);
  }

  return { call };
}

/** For a kit without an API key: every call says what to set. */
export const noService: Service = {
  call: (operation) =>
    Promise.reject(
      new ServiceError({ code: 'NO_API_KEY', message: `${operation} needs the service: set API_BASE_URL and API_KEY` }),
    ),
};

async function reach<Result>(operation: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    throw new ServiceError({ code: 'unreachable', message: `${operation}: no answer from API_BASE_URL`, cause });
  }
}

export async function readText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += (chunk as Uint8Array).length;
    if (bytes > MOST_BYTES) throw unreadable(response, `answered more than ${MOST_BYTES} bytes`);
    chunks.push(chunk as Uint8Array);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function readObject(operation: string, response: Response, text: string): Record<string, unknown> {
  const parsed = z.record(z.string(), z.unknown()).safeParse(parse(text));
  if (!parsed.success) throw unreadable(response, `${operation} was answered with something other than a JSON object`);
  return parsed.data;
}

export function errorOf(operation: string, response: Response, text: string): ServiceError {
  const { status, headers } = response;
  const parsed = envelope.safeParse(parse(text));
  const { code, reason, requestId } = parsed.success
    ? parsed.data.error
    : { code: codeOf(status), reason: undefined, requestId: undefined };
  return new ServiceError({
    code,
    reason: reason ?? null,
    status,
    requestId: requestId ?? headers.get('x-request-id'),
    message: `${operation}: ${status} ${code}${reason ? ` (${reason})` : ''}`,
  });
}

/** Contract 7.2, for answers that carry no envelope: a proxy's, say. */
function codeOf(status: number): string {
  if (status === 401) return 'UNAUTHENTICATED';
  if (status === 403) return 'FORBIDDEN';
  if (status === 404) return 'NOT_FOUND';
  if (status === 429) return 'RATE_LIMITED';
  return status === 502 || status === 503 || status === 504 ? 'UNAVAILABLE' : 'unreadable';
}

function unreadable(response: Response, message: string): ServiceError {
  return new ServiceError({
    code: 'unreadable',
    status: response.status,
    requestId: response.headers.get('x-request-id'),
    message,
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
