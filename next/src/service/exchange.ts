// Makes one request to the service and reads the answer (contract 4.1, 5.1, 8). It sends the API key, limits size and
// time, follows no redirects, and throws ServiceError. pace.ts retries, and service.ts knows what operations mean.
import { readText } from './answers.ts';
import { doubted, errorOf, failureOf, ServiceError } from './errors.ts';

export interface Ask {
  /** The name of the request in errors. */
  what: string;
  /** Appended to the base URL. */
  path: string;
  /** Sent as JSON by POST. Without a body, the request is a GET. */
  body?: object;
  /** The largest request body, in bytes. Default: 12 MiB. */
  mostBytes?: number;
  /** The time limit in milliseconds, from the request until the whole answer is read. */
  limitMs: number;
  /** True if the request only reads, so that its errors are never uncertain. */
  safe: boolean;
  signal?: AbortSignal | undefined;
}

export interface Access {
  baseUrl: string;
  apiKey: string;
  /** Default: the global fetch. */
  fetch?: Fetch | undefined;
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;
export type Exchange = <Result>(ask: Ask, read: (response: Response) => Promise<Result> | Result) => Promise<Result>;

const MIB = 1024 * 1024;

export function createExchange({ baseUrl, apiKey, fetch = globalThis.fetch }: Access): Exchange {
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
