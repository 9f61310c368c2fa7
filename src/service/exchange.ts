// Makes one request to the service (contract 4.1, 5.1): sends the key, follows no redirect, and refuses an answer that
// is too large. Every failure is a ServiceError. The caller decides what is asked, when, and for how long (`limitMs`).
import { isObject, parseJsonText } from '../wire/json.ts';
import { errorOf, failureOf, unreadable, type Asked } from './errors.ts';

export type Plain = Record<string, unknown>;

export interface Ask extends Asked {
  /** Appended to the base URL. */
  path: string;
  /** Sent as JSON by POST. Without a body, the request is a GET. */
  body?: object | undefined;
  headers?: Record<string, string>;
  /** Milliseconds, from the request until the whole answer is read. */
  limitMs: number;
}

export interface Access {
  baseUrl: string | undefined;
  apiKey: string | undefined;
  fetch?: Fetch | undefined;
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;
export type Read<Result> = (answer: Response, ask: Ask) => Promise<Result> | Result;
export type Exchange = <Result>(ask: Ask, read: Read<Result>) => Promise<Result>;

/** The largest answer that is read, in bytes: the limit for media (contract 8), applied to every answer. */
const MOST_BYTES = 64 * 1024 * 1024;
/** The `reason` of the error if an answer is larger than MOST_BYTES. */
export const TOO_LARGE = 'ANSWER_TOO_LARGE';

export function createExchange({ baseUrl = '', apiKey, fetch = globalThis.fetch }: Access): Exchange {
  const base = baseUrl.replace(/\/+$/, '');
  return async (ask, read) => {
    const { path, body, headers, limitMs, signal } = ask;
    const text = body && JSON.stringify(body);
    const timeout = AbortSignal.timeout(limitMs);
    try {
      const response = await fetch(`${base}${path}`, {
        method: text ? 'POST' : 'GET',
        redirect: 'manual',
        headers: {
          authorization: `Bearer ${apiKey}`,
          'accept-encoding': 'identity',
          ...(text && { 'content-type': 'application/json' }),
          ...headers,
        },
        body: text ?? null,
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      });
      const answer = limited(response, ask);
      if (!response.ok) throw errorOf(ask, response, await answer.text());
      return await read(answer, ask);
    } catch (cause) {
      throw failureOf(ask, cause);
    }
  };
}

/** The same answer, but reading more than MOST_BYTES of its body throws. */
function limited(response: Response, ask: Ask): Response {
  let bytes = 0;
  const counting = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.length;
      if (bytes > MOST_BYTES)
        throw unreadable(ask, response, `was answered with more than ${MOST_BYTES} bytes`, TOO_LARGE);
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body?.pipeThrough(counting) ?? null, response);
}

export async function readObject(answer: Response, ask: Ask): Promise<Plain> {
  const parsed = parseJsonText(await answer.text());
  if (parsed.ok && isObject(parsed.value)) return parsed.value;
  throw unreadable(ask, answer, 'was not answered with a JSON object: see API_BASE_URL');
}
