// Decides who may use the ops port. If a token is set, a request must send one, by Bearer or Basic. Otherwise Host must
// name this machine. An Origin must name the same host as Host, so no page of another site gets an answer.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { Operation } from '../operations/define.ts';

export interface Tokens {
  /** Allows everything. */
  all: string | undefined;
  /** Allows only `read`. */
  read: string | undefined;
}

const LOCAL = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/i;

/** Null: the request is allowed. Otherwise the status and the reason. */
export function refusal(
  tokens: Tokens,
  headers: IncomingHttpHeaders,
  access: Operation['access'],
): { status: number; error: string } | null {
  const { origin, host = '', authorization } = headers;
  if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`)
    return { status: 403, error: 'a page of another site has sent this' };
  if (tokens.all === undefined && tokens.read === undefined) {
    if (!LOCAL.test(host))
      return { status: 403, error: 'the header Host does not name this machine: set OPS_TOKEN to use another name' };
    const hidden = { status: 403, error: 'what strangers wrote is shown only with OPS_TOKEN, which is not set' };
    return access === 'reveal' ? hidden : null;
  }
  const given = tokenOf(authorization);
  if (same(tokens.all, given)) return null;
  if (same(tokens.read, given))
    return access === 'read' ? null : { status: 403, error: 'needs OPS_TOKEN: OPS_READ_TOKEN is not enough' };
  return { status: 401, error: 'needs OPS_TOKEN or OPS_READ_TOKEN, as a bearer token or as a password' };
}

function tokenOf(authorization = ''): string {
  const [, scheme, value = ''] = /^(Bearer|Basic) (\S+)$/i.exec(authorization) ?? [];
  if (scheme?.toLowerCase() === 'bearer') return value;
  return Buffer.from(value, 'base64')
    .toString()
    .replace(/^[^:]*:/, '');
}

function same(expected: string | undefined, given: string): boolean {
  if (expected === undefined) return false;
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(expected), digest(given));
}
