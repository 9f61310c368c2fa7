// One request to the service and its answer (contract 4.1, 5.1, 8): key, limits of bytes and time, no redirect, typed
// errors. Repeats nothing, and knows no operation.
import { aborted, doubted, errorOf, ServiceError, unreadable } from './errors.ts';

export interface Ask {
  /** How errors name it. */
  what: string;
  /** Behind the base URL. */
  path: string;
  /** Sent as JSON by POST; without it, it is a GET. */
  body?: object;
  /** The largest body, in bytes. Default: 12 MiB. */
  mostBytes?: number;
  /** Milliseconds until the answer must have been read. */
  limitMs: number;
  /** Nothing changes by it: its errors are never uncertain. */
  safe: boolean;
  signal?: AbortSignal | undefined;
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;
export type Exchange = <Result>(ask: Ask, read: (response: Response) => Promise<Result> | Result) => Promise<Result>;

const MIB = 1024 * 1024;
/** Media: contract 8. What else is answered is smaller. */
const MOST_BYTES = 64 * MIB;

export function createExchange({
  baseUrl,
  apiKey,
  fetch = globalThis.fetch,
}: {
  baseUrl: string;
  apiKey: string;
  fetch?: Fetch | undefined;
}): Exchange {
  const base = baseUrl.replace(/\/+$/, '');
  return async ({ what, path, body, mostBytes = 12 * MIB, limitMs, safe, signal }, read) => {
    const text = body && JSON.stringify(body);
    if (text && Buffer.byteLength(text) > mostBytes) {
      const message = `${what}: the request has more than ${mostBytes} bytes: put files into the media library, and name their media_asset_id`;
      throw new ServiceError({ code: 'VALIDATION_FAILED', reason: 'PAYLOAD_TOO_LARGE', message });
    }
    const timeout = AbortSignal.timeout(limitMs);
    try {
      const response = await fetch(`${base}${path}`, {
        method: text ? 'POST' : 'GET',
        redirect: 'error',
        headers: {
          authorization: `Bearer ${apiKey}`,
          'accept-encoding': 'identity',
          ...(text && { 'content-type': 'application/json' }),
        },
        body: text ?? null,
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      });
      if (!response.ok) throw errorOf(what, response, await readText(response, what));
      return await read(response);
    } catch (cause) {
      const error = failureOf(what, cause, signal);
      throw safe ? error : doubted(error);
    }
  };
}

/** The bytes of an answer, 64 MiB at the most unless told otherwise. Throws ServiceError. */
export async function* bytesOf(
  response: Response,
  what: string,
  signal?: AbortSignal,
  most = MOST_BYTES,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      bytes += (chunk as Uint8Array).length;
      if (bytes > most) throw unreadable(response, `${what} was answered with more than ${most} bytes`);
      yield chunk as Uint8Array;
    }
  } catch (cause) {
    throw failureOf(what, cause, signal);
  }
}

export async function readText(response: Response, what: string): Promise<string> {
  return (await readBytes(response, what)).toString('utf8');
}

export async function readBytes(response: Response, what: string, most?: number): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(bytesOf(response, what, undefined, most)));
}

function failureOf(what: string, cause: unknown, signal: AbortSignal | undefined): ServiceError {
  // What was answered stands, whoever has given up meanwhile.
  if (cause instanceof ServiceError && cause.status > 0) return cause;
  // One that ran out of time is no decision of the caller's.
  if (signal?.aborted && (signal.reason as Error | undefined)?.name !== 'TimeoutError') return aborted(what, cause);
  if (cause instanceof ServiceError) return cause;
  return new ServiceError({ code: 'unreachable', message: `${what}: ${wordsOf(cause)}`, cause });
}

/** What kept an answer from coming, or from coming whole: fetch tells it by causes within causes. */
function wordsOf(error: unknown): string {
  const { name, message, cause } = error as Error & { cause?: { message?: string; code?: string } };
  if (cause?.message === 'unexpected redirect')
    return 'API_BASE_URL redirects, and no redirect is followed: set it to where that leads';
  if (name === 'TimeoutError') return 'no whole answer from API_BASE_URL in time';
  const code = cause?.code ? ` (${cause.code})` : '';
  return message === 'terminated' ? `the answer broke off${code}` : `no answer from API_BASE_URL${code}`;
}
