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
/** The maximum of sessions of each role, so that readers end no session of a writer. */
const SESSIONS = 1_000;
const ROLES = ['writer', 'reader'] as const;

export interface SessionOptions {
  store: Pick<Store, 'state'>;
  clock: Clock;
  /** The token of each role; undefined if it is not set. */
  tokens: Partial<Record<Who, string | undefined>>;
  /** Browsers send the cookie over HTTPS only. */
  secure: boolean;
}

export function createSessions({ store, clock, tokens, secure }: SessionOptions) {
  /** The ends of the sessions by name, Unix milliseconds. While the store fails, those that were read last. */
  let ends: Record<string, number> = {};
  /** Sessions that the store does not hold yet, because it failed. */
  let unsaved: Record<string, number> = {};

  /** Another instance may have begun or ended a session. */
  async function read(): Promise<void> {
    ends = { ...((await orNone(() => store.state.get('sessions'))) ?? ends), ...unsaved };
  }

  /** One step of the store, so that a session that another log-out ends meanwhile stays ended. */
  async function save(ended: string[] = []): Promise<void> {
    let saved: string[] = [];
    ends = await store.state.change('sessions', (kept) => {
      saved = Object.keys(unsaved);
      return latest({ ...kept, ...unsaved }, ended, clock.now());
    });
    for (const name of saved) delete unsaved[name];
  }

  return {
    /** Reads the sessions, for a request with a cookie. Call it before `of`. */
    async look(ctx: Context): Promise<void> {
      if (ctx.cookies.get(COOKIE)) await read();
    },
    of(ctx: Context): Who | undefined {
      return ROLES.find((who) => lives(ends[nameOf(who, tokens[who], ctx.cookies.get(COOKIE))], clock.now()));
    },
    /** Begins a session even if the store cannot keep it: people need the page then. */
    async begin(ctx: Context, who: Who): Promise<void> {
      const cookie = randomBytes(32).toString('base64url');
      unsaved[nameOf(who, tokens[who], cookie)] = clock.now() + SESSION_MS;
      ends = { ...ends, ...unsaved };
      await orNone(save);
      setCookie(ctx, cookie, SESSION_MS, secure);
    },
    /** Throws StoreError if the store still holds the session, which a restart would then bring back. */
    async end(ctx: Context): Promise<void> {
      const ended = ROLES.map((who) => nameOf(who, tokens[who], ctx.cookies.get(COOKIE)));
      for (const name of ended) delete unsaved[name];
      setCookie(ctx, '', 0, secure);
      await save(ended);
    },
  };
}

/** What a session is called in the store. Without a token or a cookie, no session has the name. */
function nameOf(who: Who, token = '', cookie = ''): string {
  return token && cookie && `${who} ${createHmac('sha256', token).update(cookie).digest('base64url')}`;
}

/** The sessions that live and have not ended, of each role the latest. */
function latest(ends: Record<string, number>, ended: string[], now: number): Record<string, number> {
  const living = Object.entries(ends).filter(([name, end]) => lives(end, now) && !ended.includes(name));
  const newestFirst = living.toSorted(([, a], [, b]) => b - a);
  const of = (who: Who) => newestFirst.filter(([name]) => name.startsWith(who)).slice(0, SESSIONS);
  return Object.fromEntries(ROLES.flatMap(of));
}

/** A clock that was set back must not make a session longer. */
function lives(end = 0, now: number): boolean {
  return end > now && end - now <= SESSION_MS;
}

function setCookie(ctx: Context, value: string, maxAgeMs: number, secure: boolean): void {
  const age = `Max-Age=${Math.round(maxAgeMs / 1000)}${secure ? '; Secure' : ''}`;
  ctx.append('Set-Cookie', `${COOKIE}=${value}; Path=/; HttpOnly; SameSite=Strict; ${age}`);
}
