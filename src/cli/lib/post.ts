// Sends one signed POST to the receiver, like the service (contract 6.3). Redirects are not followed. A network error
// is returned as its code.
import { randomUUID } from 'node:crypto';
import { request as overHttp } from 'node:http';
import { request as overHttps } from 'node:https';
import type { Config } from '../../config.ts';
import { signedHeaders, type Signing } from '../../wire/sign.ts';

/** Variables that a delivery to the receiver needs. */
export const TO_DELIVER: (keyof Config)[] = ['WEBHOOK_SECRET', 'PORT', 'HOST', 'WEBHOOK_PATH', 'WEBHOOK_HEADER_PREFIX'];

export interface Answer {
  /** HTTP status; 0 if there was no answer. */
  status: number;
  location?: string | undefined;
  /** Why there was no answer: `ECONNREFUSED`, `timeout`, … */
  failure?: string;
}

/** The service waits 10 s for an answer (contract 6.3). */
const TIMEOUT_MS = 10_000;

interface Delivery extends Omit<Signing, 'secrets' | 'deliveryId' | 'attempt'> {
  secret: string;
  contentType?: string | undefined;
}

export function deliver(url: string, { secret, contentType, ...delivery }: Delivery): Promise<Answer> {
  const headers = signedHeaders({ ...delivery, secrets: [secret], deliveryId: randomUUID(), attempt: 1 });
  return post(url, delivery.body, contentType ? { ...headers, 'Content-Type': contentType } : headers);
}

function post(url: string, body: Buffer, headers: Record<string, string>): Promise<Answer> {
  const send = url.startsWith('https:') ? overHttps : overHttp;
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  return new Promise((resolve) => {
    const options = { method: 'POST', agent: false, signal, headers: { ...headers, 'Content-Length': body.length } };
    const sent = send(url, options, (response) => {
      resolve({ status: response.statusCode ?? 0, location: response.headers.location });
      // A receiver that refuses a large body answers early. The rest of the body is not sent.
      sent.destroy();
    });
    sent.on('error', (error) => resolve({ status: 0, failure: signal.aborted ? 'timeout' : failureOf(error) }));
    sent.end(body);
  });
}

/** The first error code in the chain of causes: of a socket, DNS or TLS. */
export function failureOf(error: unknown): string {
  const { code, cause, name } = error as NodeJS.ErrnoException;
  if (code !== undefined || !cause) return code ?? name;
  return failureOf(cause);
}

export const isTls = (failure: string): boolean => /CERT|TLS|SSL|EPROTO|UNABLE_TO_/.test(failure);
export const isDns = (failure: string): boolean => /ENOTFOUND|EAI_AGAIN/.test(failure);

/** The receiver's own address, without any proxy. */
export function loopbackUrl({ HOST, PORT, WEBHOOK_PATH }: Config): string {
  const host = HOST === '0.0.0.0' || HOST === '::' ? '127.0.0.1' : HOST.includes(':') ? `[${HOST}]` : HOST;
  return `http://${host}:${PORT}${WEBHOOK_PATH}`;
}
