// What every page and form has in common: who may, what is answered where something is wrong, messages that lead back,
// log-in. Here alone screens meet HTTP. Everything works without JavaScript.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Router } from '@koa/router';
import type { Context, Next } from 'koa';
import { ZodError } from 'zod';
import type { Clock } from '../../../base/clock.ts';
import { loggable } from '../../../base/errors.ts';
import type { Logger } from '../../../base/log.ts';
import { StoreError } from '../../../store/store.ts';
import type { Status, ReadStore } from '../../../store/read.ts';
import type { Access } from '../../access.ts';
import { faultsOf } from '../../../admin/filters.ts';
import { html, type Html } from './html.ts';
import { layout, type Shell } from './layout.ts';
import { login } from './login.ts';

const CSP = [
  "default-src 'none'",
  "style-src 'self'",
  "script-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');
const SAID = 'kit_said';
const FORM_BYTES = 1024 * 1024;

export interface FrameOptions {
  router: Router;
  access: Access;
  /** As people are shown it. */
  view: Pick<ReadStore, 'status' | 'counters'>;
  clock: Clock;
  log: Logger;
}

/** What a screen may ask of the request that it answers. */
export interface Visit {
  ctx: Context;
  now: number;
  status: Status;
  mayChange: boolean;
  mayReveal: boolean;
}
interface Done {
  /** Where to go on; a local path. */
  to: string;
  message: string;
}

/** Undefined: there is no such thing. */
type Show = (visit: Visit) => Promise<Html | undefined>;
/** What screens are added by. */
export interface Frame {
  screen: (path: string, title: string, show: Show) => void;
  change: (path: string, work: (form: URLSearchParams) => Promise<Done>) => void;
  reveal: (path: string, title: string, show: Show) => void;
  download: (path: string, send: (ctx: Context, bodies: boolean) => void) => void;
  /** Answers the addresses that nothing answers. */
  lost: (ctx: Context) => Promise<void>;
}

export function createFrame({ router, access, view, clock, log }: FrameOptions): Frame {
  /** A page to look at; undefined is a 404. */
  function screen(path: string, title: string, show: Show): void {
    router.get(path, guard, (ctx) => answerWith(ctx, title, show));
  }

  async function answerWith(ctx: Context, title: string, show: Show) {
    const now = clock.now();
    const status = await view.status(now);
    const mayChange = access.standing(ctx) === 'change';
    const content = await show({ ctx, now, status, mayChange, mayReveal: access.mayReveal(ctx) });
    if (content) answer(ctx, { title, alarms: status.alarms }, content);
    else lost(ctx, 404);
  }

  /** Bodies need OPS_TOKEN, also where nothing else needs a token; they come by POST alone, and that is logged. */
  async function tokenOnly(ctx: Context, next: Next): Promise<void> {
    if (!access.mayReveal(ctx))
      return refuse(ctx, 403, 'Not allowed', 'Bodies are shown with OPS_TOKEN alone: set it, and log in with it.');
    log.info({ revealed: ctx.path, by: 'OPS_TOKEN', from: ctx.ip }, 'a body was revealed');
    return next();
  }

  function reveal(path: string, title: string, show: Show): void {
    router.post(path, guard, tokenOnly, (ctx) => answerWith(ctx, title, show));
  }

  function download(path: string, send: (ctx: Context, bodies: boolean) => void): void {
    router.get(path, guard, (ctx) => send(ctx, false));
    router.post(path, guard, tokenOnly, (ctx) => send(ctx, true));
  }

  /** A change by a form: logged with its reason, and answered with a way back and a message. */
  function change(path: string, work: (form: URLSearchParams) => Promise<Done>): void {
    router.post(path, guard, async (ctx) => {
      if (access.standing(ctx) !== 'change')
        return refuse(ctx, 403, 'Not allowed', 'OPS_READ_TOKEN may look; changes need OPS_TOKEN.');
      const form = await formOf(ctx);
      const { to, message } = await work(form);
      log.info({ change: ctx.path, reason: form.get('reason') ?? undefined }, message);
      goOn(ctx, to, message);
    });
  }

  router.get('/login', async (ctx) => {
    if (access.standing(ctx) === 'stranger') askToken(ctx, 200);
    else ctx.redirect('/');
  });
  router.post('/login', async (ctx) => {
    if (access.standing(ctx) === 'elsewhere') return refuseStranger(ctx);
    const form = await formOf(ctx);
    const outcome = access.login(ctx, form.get('token') ?? '');
    if (outcome === 'in') return goOn(ctx, form.get('to') ?? '/');
    log.warn({ outcome }, 'a log-in at the ops page failed');
    if (outcome === 'throttled') askToken(ctx, 429, 'Too many wrong tokens. Try again in a minute.');
    else askToken(ctx, 401, 'This is neither OPS_TOKEN nor OPS_READ_TOKEN.');
  });
  router.post('/logout', async (ctx) => {
    if (access.standing(ctx) === 'elsewhere') return refuseStranger(ctx);
    access.logout(ctx);
    goOn(ctx, '/login');
  });
  for (const [name, type] of [
    ['style.css', 'text/css; charset=utf-8'],
    ['live.js', 'text/javascript; charset=utf-8'],
  ] as const) {
    const text = readFileSync(new URL(name, import.meta.url));
    const etag = `"${createHash('sha256').update(text).digest('hex').slice(0, 16)}"`;
    router.get(`/${name}`, (ctx) => {
      ctx.set({ ETag: etag, 'Cache-Control': 'no-cache', 'Content-Type': type });
      ctx.status = 200;
      if (ctx.fresh) ctx.status = 304;
      else ctx.body = text;
    });
  }

  /** Lets nobody pass who may not look, and answers what breaks with a page. */
  async function guard(ctx: Context, next: Next): Promise<void> {
    const standing = access.standing(ctx);
    if (standing === 'elsewhere') return refuseStranger(ctx);
    if (standing === 'stranger')
      return askToken(ctx, 401, ctx.method === 'POST' ? 'Nothing was done: log in, then do it again.' : undefined);
    try {
      await next();
    } catch (error) {
      const status = (error as { status?: unknown }).status;
      if (error instanceof StoreError && ctx.method === 'POST')
        return goOn(ctx, cameFrom(ctx), `Not done, or not to its end: ${error.message}. Try again in a moment.`);
      if (error instanceof StoreError)
        return refuse(ctx, 503, 'Not just now', `${error.message}. Refresh in a moment.`);
      if (error instanceof ZodError) return refuse(ctx, 400, 'This cannot be asked', faultsOf(error));
      if (typeof status === 'number' && status < 500)
        return refuse(ctx, status, 'This cannot be read', 'The request has no form that this page sends.');
      log.error(loggable(error), 'a page failed');
      refuse(ctx, 500, 'This page failed', 'The log says why. The receiver goes on.');
    }
  }

  function lost(ctx: Context, status: number): void {
    ctx.status = status;
    const ways = html`<a href="/">Overview</a> or <a href="/events">look for an event</a>`;
    answer(
      ctx,
      { title: 'Nothing here', alarms: [] },
      html`<p class="empty">Nothing is at this address, or no longer: ${ways}.</p>`,
    );
  }

  function refuseStranger(ctx: Context): void {
    refuse(
      ctx,
      403,
      'Not from here',
      'Host or Origin is not this machine. Behind a proxy, set OPS_ORIGIN to the address of this page.',
    );
  }

  function refuse(ctx: Context, status: number, title: string, text: string): void {
    ctx.status = status;
    answer(ctx, { title, alarms: [] }, html`<p class="empty">${text}</p>`);
  }

  function askToken(ctx: Context, status: number, fault?: string): void {
    ctx.status = status;
    answer(
      ctx,
      { title: 'Log in', path: undefined, alarms: [] },
      login(ctx.path === '/login' ? '/' : ctx.method === 'POST' ? cameFrom(ctx) : ctx.url, fault),
    );
  }

  function answer(ctx: Context, shell: Pick<Shell, 'title' | 'alarms'> & Partial<Shell>, content: Html): void {
    const said = ctx.cookies.get(SAID);
    const message = said === undefined ? undefined : new URLSearchParams(`m=${said}`).get('m');
    if (said !== undefined) ctx.append('Set-Cookie', `${SAID}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0`);
    ctx.set({
      'Content-Security-Policy': CSP,
      // Not no-referrer: under it, browsers send our own forms with `Origin: null`.
      'Referrer-Policy': 'same-origin',
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Content-Type': 'text/html; charset=utf-8',
    });
    const rest = { path: ctx.path, now: clock.now(), session: access.session(ctx), message: message ?? undefined };
    ctx.body = layout({ ...rest, ...shell }, content);
  }

  return { screen, change, reveal, download, lost: (ctx) => guard(ctx, async () => lost(ctx, ctx.status)) };
}

/** The page whose form this is: the addresses of forms show nothing. */
function cameFrom(ctx: Context): string {
  const page = URL.parse(ctx.get('referer'));
  return page === null ? '/' : `${page.pathname}${page.search}`;
}

/** 303, so that reloading repeats no change. */
function goOn(ctx: Context, to: string, message?: string): void {
  if (message !== undefined) {
    const value = encodeURIComponent(message.slice(0, 500).toWellFormed());
    ctx.append('Set-Cookie', `${SAID}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=60`);
  }
  ctx.set('Location', /^\/(?![/\\])[\x21-\x7e]*$/.test(to) ? to : '/');
  ctx.status = 303;
  ctx.body = null;
  ctx.status = 303;
}

async function formOf(ctx: Context): Promise<URLSearchParams> {
  if (!ctx.is('application/x-www-form-urlencoded')) return ctx.throw(415);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of ctx.req as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > FORM_BYTES) return ctx.throw(413);
    chunks.push(chunk);
  }
  return new URLSearchParams(Buffer.concat(chunks).toString());
}
