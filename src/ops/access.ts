// Who may look and who may change. With a token, the token, or the session that it opened in a browser; without one,
// loopback only, and then the Host and Origin headers must name this machine, so that no web page elsewhere can reach it
// through a browser. A change from a page must come from our own page, whoever asks.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Context, Next } from 'koa';
import type { Clock } from '../base/clock.ts';

export interface AccessOptions {
  clock: Clock;
  token: string | undefined;
  readToken: string | undefined;
  /** The page's address behind a proxy. */
  origin: string | undefined;
}

export type May = 'look' | 'change';
/** stranger: a token is needed. elsewhere: by a name or from a page that is not ours. */
export type Standing = May | 'stranger' | 'elsewhere';

const LOCAL = new Set(['localhost', '127.0.0.1', '[::1]']);
const COOKIE = 'kit_session';
const SESSION_MS = 12 * 3_600_000;
const SESSIONS = 1_000;
/** Wrong tokens within a minute, of all together; then nobody logs in until they are a minute old. */
const WRONG = 5;
const WRONG_MS = 60_000;

export interface Access {
  /** Koa middleware for programs: 401 without a right token, 403 from a page of another site. Sessions are not theirs. */
  api(may: May): (ctx: Context, next: Next) => Promise<void>;
  /** What a browser may do here: by bearer token, session, or because this machine needs none. */
  standing(ctx: Context): Standing;
  /** Whether bodies may be shown: what people wrote needs OPS_TOKEN, on this machine too. */
  mayReveal(ctx: Context): boolean;
  /** Opens a session, whose cookie is random and says nothing of the token. */
  login(ctx: Context, token: string): 'in' | 'wrong' | 'throttled';
  logout(ctx: Context): void;
  /** Whether this request came with a session, so that there is one to end. */
  session(ctx: Context): boolean;
}

export function createAccess({ clock, token, readToken, origin }: AccessOptions): Access {
  const outside = origin === undefined ? undefined : new URL(origin);
  const open = token === undefined && readToken === undefined;
  const sessions = new Map<string, { may: May; until: number }>();
  let wrong: number[] = [];

  function mayWith(given: string | undefined): May | undefined {
    if (given === undefined) return undefined;
    if (token !== undefined && same(token, given)) return 'change';
    return readToken !== undefined && same(readToken, given) ? 'look' : undefined;
  }

  const bearer = (ctx: Context): string | undefined => /^Bearer (\S+)$/.exec(ctx.get('authorization'))?.[1];

  function hostOf(ctx: Context): URL | null {
    const name = ctx.req.headers.host ?? '';
    return /^[\w.:[\]-]+$/.test(name) ? URL.parse(`http://${name}`) : null;
  }

  function knownHost(ctx: Context): boolean {
    const host = hostOf(ctx);
    return host !== null && (LOCAL.has(host.hostname) || host.host === outside?.host);
  }

  function ownOrigin(ctx: Context): boolean {
    const page = URL.parse(ctx.get('origin'));
    return page !== null && (page.origin === outside?.origin || page.host === hostOf(ctx)?.host);
  }

  /** By what a browser says; programs say nothing. */
  function fromElsewhere(ctx: Context): boolean {
    return !['', 'same-origin', 'none'].includes(ctx.get('sec-fetch-site'));
  }

  /** A form of ours: browsers say where a POST comes from, in one header or the other. */
  function fromOurPage(ctx: Context): boolean {
    if (fromElsewhere(ctx)) return false;
    return ctx.get('origin') === '' ? ctx.get('sec-fetch-site') === 'same-origin' : ownOrigin(ctx);
  }

  function sessionOf(ctx: Context): { may: May } | undefined {
    const id = ctx.cookies.get(COOKIE);
    const session = id === undefined ? undefined : sessions.get(digest(id).toString('hex'));
    return session && session.until > clock.monotonic() ? session : undefined;
  }

  function setCookie(ctx: Context, value: string, maxAgeMs: number): void {
    const secure = outside?.protocol === 'https:' ? '; Secure' : '';
    const age = `Max-Age=${Math.round(maxAgeMs / 1000)}`;
    ctx.append('Set-Cookie', `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; ${age}${secure}`);
  }

  function standing(ctx: Context): Standing {
    const right = mayWith(bearer(ctx));
    if (right !== undefined) return right;
    if (ctx.method === 'POST' ? !fromOurPage(ctx) : ctx.get('origin') !== '' && !ownOrigin(ctx)) return 'elsewhere';
    if (open) return knownHost(ctx) ? 'change' : 'elsewhere';
    return sessionOf(ctx)?.may ?? 'stranger';
  }

  return {
    api: (may) => async (ctx, next) => {
      const right = mayWith(bearer(ctx));
      if (right === 'change' || right === may) await next();
      else if (!open) {
        const tokens = may === 'look' ? 'OPS_READ_TOKEN or OPS_TOKEN' : 'OPS_TOKEN';
        ctx.status = 401;
        ctx.body = { error: `needs ${tokens} as a bearer token` };
      } else if (
        !knownHost(ctx) ||
        (ctx.get('origin') !== '' && !ownOrigin(ctx)) ||
        (may === 'change' && fromElsewhere(ctx))
      ) {
        ctx.status = 403;
        ctx.body = { error: 'Host or Origin is not this machine; behind a proxy, set OPS_ORIGIN' };
      } else await next();
    },
    standing,
    mayReveal: (ctx) => token !== undefined && standing(ctx) === 'change',
    login(ctx, given) {
      const now = clock.monotonic();
      wrong = wrong.filter((at) => now - at < WRONG_MS);
      if (wrong.length >= WRONG) return 'throttled';
      const may = mayWith(given);
      if (may === undefined) {
        wrong.push(now);
        return 'wrong';
      }
      for (const [id, { until }] of sessions) if (until <= now || sessions.size >= SESSIONS) sessions.delete(id);
      const id = randomBytes(32).toString('base64url');
      sessions.set(digest(id).toString('hex'), { may, until: now + SESSION_MS });
      setCookie(ctx, id, SESSION_MS);
      return 'in';
    },
    logout(ctx) {
      sessions.delete(digest(ctx.cookies.get(COOKIE) ?? '').toString('hex'));
      setCookie(ctx, '', 0);
    },
    session: (ctx) => sessionOf(ctx) !== undefined,
  };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function same(expected: string, given: string): boolean {
  return timingSafeEqual(digest(expected), digest(given));
}
