// Who may look and who may change. With a token, the token; without one, loopback only, and then the Host and Origin
// headers must name this machine, so that no web page elsewhere can reach it through a browser.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context, Next } from 'koa';

export interface AccessOptions {
  token: string | undefined;
  readToken: string | undefined;
  /** The page's address behind a proxy. */
  origin: string | undefined;
}

const LOCAL = new Set(['localhost', '127.0.0.1', '[::1]']);

export function createAccess({ token, readToken, origin }: AccessOptions) {
  const outside = origin === undefined ? undefined : new URL(origin);

  /** 'token' where a right one was given, 'open' where none is needed, else undefined. */
  function right(ctx: Context, may: 'look' | 'change'): 'token' | 'open' | undefined {
    const given = /^Bearer (\S+)$/.exec(ctx.get('authorization'))?.[1];
    const tokens = may === 'look' ? [token, readToken] : [token];
    if (given !== undefined && tokens.some((one) => one !== undefined && same(one, given))) return 'token';
    return token === undefined && readToken === undefined ? 'open' : undefined;
  }

  function sameSite(ctx: Context): boolean {
    const name = ctx.req.headers.host ?? '';
    const host = /^[\w.:[\]-]+$/.test(name) ? URL.parse(`http://${name}`) : null;
    if (!host || !(LOCAL.has(host.hostname) || host.host === outside?.host)) return false;
    const from = ctx.get('origin');
    if (from === '') return true;
    const page = URL.parse(from);
    return page !== null && (page.origin === outside?.origin || page.host === host.host);
  }

  /** Koa middleware: 401 without a right token, 403 from a page of another site. */
  return (may: 'look' | 'change') =>
    async (ctx: Context, next: Next): Promise<void> => {
      const by = right(ctx, may);
      if (by === undefined) {
        const tokens = may === 'look' ? 'OPS_READ_TOKEN or OPS_TOKEN' : 'OPS_TOKEN';
        ctx.status = 401;
        ctx.body = { error: `needs ${tokens} as a bearer token` };
      } else if (by === 'open' && !sameSite(ctx)) {
        ctx.status = 403;
        ctx.body = { error: 'Host or Origin is not this machine; behind a proxy, set OPS_ORIGIN' };
      } else await next();
    };
}

function same(expected: string, given: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(expected), digest(given));
}
