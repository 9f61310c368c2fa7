// Browser sessions are in memory, so a restart or a reload of `keep` ends them. A form that is sent afterwards changes
// nothing, and the answer says so. The cookie is random and does not depend on the token.
import { createHash, randomBytes } from 'node:crypto';
import type { Context } from 'koa';
import type { Clock } from '../base/clock.ts';
import type { Who } from './decision.ts';

const COOKIE = 'kit_session';
const SESSION_MS = 12 * 3_600_000;
const SESSIONS = 1_000;

/** If `secure` is set, browsers send the cookie over HTTPS only. */
export function createSessions(clock: Clock, secure: boolean) {
  /** Sessions by the digest of their cookie. */
  const sessions = new Map<string, { who: Who; until: number }>();

  function setCookie(ctx: Context, value: string, maxAgeMs: number): void {
    const age = `Max-Age=${Math.round(maxAgeMs / 1000)}${secure ? '; Secure' : ''}`;
    ctx.append('Set-Cookie', `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; ${age}`);
  }

  return {
    of(ctx: Context): Who | undefined {
      const session = sessions.get(digest(ctx.cookies.get(COOKIE) ?? ''));
      return session && session.until > clock.monotonic() ? session.who : undefined;
    },
    begin(ctx: Context, who: Who): void {
      const now = clock.monotonic();
      for (const [id, { until }] of sessions) if (until <= now || sessions.size >= SESSIONS) sessions.delete(id);
      const id = randomBytes(32).toString('base64url');
      sessions.set(digest(id), { who, until: now + SESSION_MS });
      setCookie(ctx, id, SESSION_MS);
    },
    end(ctx: Context): void {
      sessions.delete(digest(ctx.cookies.get(COOKIE) ?? ''));
      setCookie(ctx, '', 0);
    },
  };
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
