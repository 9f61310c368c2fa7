// Finds out who sent a request to the ops port. decision.ts says whether it is allowed; api.ts and the pages answer.
//
// If a token is set, a request needs a token, or a session that a browser opened with one. If none is set, Host and
// Origin must name this machine or OPS_ORIGIN, so that no page of another site gets an answer.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context } from 'koa';
import type { Config } from '../config.ts';
import { decide, isKnownHost, sourceOf, type Decision, type What, type Who } from './decision.ts';
import { createSessions, type SessionOptions } from './sessions.ts';
import type { WrongTokens } from './wrong-tokens.ts';

export type AccessConfig = Pick<Config, 'OPS_TOKEN' | 'OPS_READ_TOKEN' | 'OPS_ORIGIN'>;

export type Access = ReturnType<typeof createAccess>;

export function createAccess(
  config: AccessConfig,
  rest: Pick<SessionOptions, 'store' | 'clock'>,
  wrongTokens: WrongTokens,
) {
  const { OPS_TOKEN: token, OPS_READ_TOKEN: readToken, OPS_ORIGIN: origin } = config;
  const outside = origin === undefined ? undefined : new URL(origin);
  const open = token === undefined && readToken === undefined;
  const canReveal = token !== undefined;
  const tokens = { writer: token, reader: readToken };
  const sessions = createSessions({ ...rest, tokens, secure: outside?.protocol === 'https:' });

  function holderOf(given: string | undefined): Who | undefined {
    return given === undefined ? undefined : (['writer', 'reader'] as const).find((who) => same(tokens[who], given));
  }

  function asked(ctx: Context, isPage: boolean): { who: Who; ours: boolean } {
    const holder = holderOf(bearerOf(ctx));
    if (holder) return { who: holder, ours: true };
    // Tokens are set, and this request of a program has none: it is refused, whichever site sent it.
    if (!open && !isPage) return { who: 'anonymous', ours: true };
    const host = ctx.req.headers.host ?? '';
    const { method } = ctx;
    const source = sourceOf({ method, host, origin: ctx.get('origin'), site: ctx.get('sec-fetch-site') }, outside);
    const isSent = isPage && method === 'POST' ? source === 'page' : source !== 'elsewhere';
    if (open) return { who: 'writer', ours: isSent && isKnownHost(host, outside) };
    return { who: sessions.of(ctx) ?? 'anonymous', ours: isSent };
  }

  return {
    /** Whether OPS_TOKEN is set. Without it, nobody may see a body. */
    canReveal,
    /** For programs: they need a bearer token, unless no token is set. Sessions do not count. */
    program(ctx: Context, what: What): Decision | 'throttled' {
      const given = open ? undefined : bearerOf(ctx);
      const isWrong = given !== undefined && !holderOf(given);
      if (isWrong && wrongTokens.refuse(ctx, 'bearer') === 'throttled') return 'throttled';
      return decide({ ...asked(ctx, false), what, canReveal });
    },
    /** For browsers: a session counts like its token. A form must come from a page of this port. */
    page: (ctx: Context, what: What): Decision => decide({ ...asked(ctx, true), what, canReveal }),
    /** Opens a session if the token is right, however many wrong ones came before. */
    async login(ctx: Context, given: string): Promise<'in' | 'wrong' | 'throttled'> {
      const who = holderOf(given);
      if (!who) return wrongTokens.refuse(ctx, 'form');
      await sessions.begin(ctx, who);
      return 'in';
    },
    logout: (ctx: Context) => sessions.end(ctx),
    look: (ctx: Context) => sessions.look(ctx),
    /** Whether the request has a session that a log-out can end. */
    session: (ctx: Context): boolean => sessions.of(ctx) !== undefined,
  };
}

function bearerOf(ctx: Context): string | undefined {
  return /^Bearer (\S+)$/.exec(ctx.get('authorization'))?.[1];
}

function same(expected: string | undefined, given: string): boolean {
  if (expected === undefined) return false;
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(expected), digest(given));
}
