// Browser sessions outlast a restart of `keep`, so that a reload logs nobody out. The store keeps of each its end and a
// digest of its cookie and its token. The cookie is random and nowhere else, so what the store holds opens no session.
// A token that is changed or removed ends its sessions.
import { createHmac, randomBytes } from 'node:crypto';
import type { Context } from 'koa';
import type { Clock } from '../base/clock.ts';
import { orNone } from '../store/or-none.ts';
import type { Store } from '../store/store.ts';
import type { Who } from './decision.ts';

const COOKIE = 'kit_session';
const SESSION_MS = 12 * 3_600_000;
const SESSIONS = 1_000;

export interface SessionOptions {
  store: Pick<Store, 'state'>;
  clock: Clock;
  /** The token of each role; undefined if it is not set. */
  tokens: Partial<Record<Who, string | undefined>>;
  /** Browsers send the cookie over HTTPS only. */
  secure: boolean;
}

export function createSessions({ store, clock, tokens, secure }: SessionOptions) {
  /** The ends of the sessions by digest, Unix milliseconds. While the store fails, those that were read last. */
  let ends: Record<string, number> = {};
  /** Sessions that the store does not hold yet, because it failed. */
  let unsaved: Record<string, number> = {};

  /** Another instance may have begun or ended a session. */
  async function read(): Promise<void> {
    ends = { ...((await orNone(() => store.state.get('sessions'))) ?? ends), ...unsaved };
  }

  async function save(): Promise<void> {
    const living = Object.entries(ends).filter(([, end]) => lives(end, clock.now()));
    ends = Object.fromEntries(living.toSorted(([, a], [, b]) => b - a).slice(0, SESSIONS));
    await store.state.note({}, { sessions: JSON.stringify(ends) });
    unsaved = {};
  }

  return {
    /** Reads the sessions, for a request with a cookie. Call it before `of`. */
    async look(ctx: Context): Promise<void> {
      if (ctx.cookies.get(COOKIE)) await read();
    },
    of(ctx: Context): Who | undefined {
      const held = (['writer', 'reader'] as const).map((who) => [who, digestOf(tokens[who], ctx)] as const);
      return held.find(([, known]) => known !== undefined && lives(ends[known], clock.now()))?.[0];
    },
    /** Begins a session even if the store cannot keep it: people need the page then. */
    async begin(ctx: Context, who: Who): Promise<void> {
      const cookie = randomBytes(32).toString('base64url');
      await read();
      unsaved[digest(tokens[who] ?? '', cookie)] = clock.now() + SESSION_MS;
      ends = { ...ends, ...unsaved };
      await orNone(save);
      setCookie(ctx, cookie, SESSION_MS, secure);
    },
    /** Throws StoreError if the store still holds the session, which a restart would then bring back. */
    async end(ctx: Context): Promise<void> {
      await read();
      for (const token of Object.values(tokens)) {
        const known = digestOf(token, ctx) ?? '';
        delete ends[known];
        delete unsaved[known];
      }
      setCookie(ctx, '', 0, secure);
      await save();
    },
  };
}

/** What the request's session is called in the store, if this token opened it. */
function digestOf(token: string | undefined, ctx: Context): string | undefined {
  const cookie = ctx.cookies.get(COOKIE);
  return token === undefined || !cookie ? undefined : digest(token, cookie);
}

function digest(token: string, cookie: string): string {
  return createHmac('sha256', token).update(cookie).digest('base64url');
}

/** A clock that was set back must not make a session longer. */
function lives(end = 0, now: number): boolean {
  return end > now && end - now <= SESSION_MS;
}

function setCookie(ctx: Context, value: string, maxAgeMs: number, secure: boolean): void {
  const age = `Max-Age=${Math.round(maxAgeMs / 1000)}${secure ? '; Secure' : ''}`;
  ctx.append('Set-Cookie', `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; ${age}`);
}
