// One signed POST to the receiver, as the service sends it (contract 6.3): follows no redirect, and tells refusals of
// the network apart. Over https it trusts what Node trusts, so NODE_EXTRA_CA_CERTS does for a test's certificate.
import { request as overHttp } from 'node:http';
import { request as overHttps } from 'node:https';
import type { Config } from '../../config.ts';

export interface Answer {
  /** HTTP status; 0 where there was none. */
  status: number;
  /** Where a redirect points. */
  location?: string | undefined;
  /** Why there was none: `ECONNREFUSED`, `timeout`, … */
  failure?: string;
}

/** The service waits 10 s for an answer (contract 6.3). */
const TIMEOUT_MS = 10_000;

export function post(url: string, body: Buffer, headers: Record<string, string>): Promise<Answer> {
  const send = url.startsWith('https:') ? overHttps : overHttp;
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  return new Promise((resolve) => {
    const options = { method: 'POST', agent: false, signal, headers: { ...headers, 'Content-Length': body.length } };
    const sent = send(url, options, (response) => {
      resolve({ status: response.statusCode ?? 0, location: response.headers.location });
      // Who refuses a large body answers before it has come whole; the rest is not sent.
      sent.destroy();
    });
    sent.on('error', (error) => resolve({ status: 0, failure: signal.aborted ? 'timeout' : failureOf(error) }));
    sent.end(body);
  });
}

/** The code of what failed underneath: of a socket, of DNS, or of TLS. */
export function failureOf(error: unknown): string {
  const { code, cause, name } = error as NodeJS.ErrnoException;
  if (code !== undefined || !cause) return code ?? name;
  return failureOf(cause);
}

export const isTls = (failure: string): boolean => /CERT|TLS|SSL|EPROTO|UNABLE_TO_/.test(failure);
export const isDns = (failure: string): boolean => /ENOTFOUND|EAI_AGAIN/.test(failure);

/** Straight at the receiver of this configuration, past every proxy. */
export function loopbackUrl({ HOST, PORT, WEBHOOK_PATH }: Config): string {
  const host = HOST === '0.0.0.0' || HOST === '::' ? '127.0.0.1' : HOST.includes(':') ? `[${HOST}]` : HOST;
  return `http://${host}:${PORT}${WEBHOOK_PATH}`;
}
