// The page's addresses: which screen shows what, and which form changes what. Screens are functions of data; here alone
// they meet HTTP. Everything works without JavaScript.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Router } from '@koa/router';
import type { Context, Next } from 'koa';
import { ZodError } from 'zod';
import type { Clock } from '../../clock.ts';
import { loggable } from '../../errors.ts';
import type { Logger } from '../../log.ts';
import {
  StoreError,
  type Accepted,
  type EventStore,
  type KeepStore,
  type MendStore,
  type SampleStore,
  type Status,
  type WatchStore,
} from '../../store/store.ts';
import { askToVerify, beginningOf, readPoint } from '../../store/stretch.ts';
import type { Access } from '../access.ts';
import type { Jobs } from '../jobs.ts';
import { html, type Html } from './html.ts';
import { layout, type Shell } from './layout.ts';
import { login } from './login.ts';
import { overview, RANGES, type Range } from './overview.ts';
import { reconciliation } from './reconciliation.ts';
import { addRecords } from './records.ts';
import { quarantined, refused, reread } from './refused.ts';

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
/** Rows that one page shows, and that one press reads again. */
const QUARANTINE = 200;
const LANES = 8;
const FORM_BYTES = 1024 * 1024;

export interface PageOptions {
  router: Router;
  access: Access;
  store: WatchStore &
    SampleStore &
    MendStore &
    Pick<EventStore, 'note'> &
    Pick<KeepStore, 'verifying' | 'anchors' | 'replayRuns'>;
  clock: Clock;
  log: Logger;
  jobs: Jobs;
  /** After events or tasks were moved by hand. */
  onChange: () => void;
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
export interface Pages {
  screen: (path: string, title: string, show: Show) => void;
  change: (path: string, work: (form: URLSearchParams, ctx: Context) => Promise<Done>) => void;
  reveal: (path: string, title: string, show: Show) => void;
  download: (path: string, send: (ctx: Context, bodies: boolean) => void) => void;
}

export function addPages({ router, access, store, clock, log, jobs, onChange }: PageOptions): void {
  /** A page to look at; undefined is a 404. */
  function screen(path: string, title: string, show: Show): void {
    router.get(path, guard, (ctx) => answerWith(ctx, title, show));
  }

  async function answerWith(ctx: Context, title: string, show: Show) {
    const now = clock.now();
    const status = await store.status(now);
    const mayChange = access.standing(ctx) === 'change';
    const content = await show({ ctx, now, status, mayChange, mayReveal: access.mayReveal(ctx) });
    if (!content) ctx.status = 404;
    answer(
      ctx,
      { title, alarms: status.alarms },
      content ?? html`<p class="empty">There is no such thing here (any more).</p>`,
    );
  }

  /** Bodies need OPS_TOKEN, also where nothing else needs a token; they come by POST alone, and that is logged. */
  async function tokenOnly(ctx: Context, next: Next): Promise<void> {
    if (!access.mayReveal(ctx))
      return refuse(ctx, 403, 'Bodies are shown with OPS_TOKEN alone: set it, and log in with it.');
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
  function change(path: string, work: (form: URLSearchParams, ctx: Context) => Promise<Done>): void {
    router.post(path, guard, async (ctx) => {
      if (access.standing(ctx) !== 'change') return refuse(ctx, 403, 'OPS_READ_TOKEN may look; changes need OPS_TOKEN');
      const form = await formOf(ctx);
      const { to, message } = await work(form, ctx);
      log.info({ change: ctx.path, reason: form.get('reason') ?? undefined }, message);
      goOn(ctx, to, message);
    });
  }

  // The screens, in the order of the navigation.
  screen('/', 'Overview', async ({ ctx, status, now }) => {
    const asked = ctx.query['range'];
    const range = typeof asked === 'string' && Object.hasOwn(RANGES, asked) ? (asked as Range) : '1h';
    const { ms, stepMs } = RANGES[range];
    const [samples, lanes] = [await store.samples(now - ms, now, stepMs), await store.waitingLanes(LANES)];
    return overview({ status, samples, lanes, range });
  });

  screen('/reconciliation', 'Reconciliation', async ({ status, now, mayChange }) => {
    const [gaps, weeks, verify] = [await store.gaps(), await store.arrivals(), await store.verifying()];
    const calls = (await store.counters())['replay_calls'] ?? 0;
    return reconciliation({ status, runs: await store.replayRuns(), gaps, weeks, verify, calls, mayChange, now });
  });
  change('/reconciliation/now', async () => {
    await store.note({}, { reconcile_asked: clock.now() });
    return { to: '/reconciliation', message: 'Reconciliation was asked for; it begins within a second.' };
  });
  change('/reconciliation/close', async (form) => {
    const [gap, why] = [Number(form.get('gap')), form.get('reason')?.trim()];
    const closed = why ? await store.closeGap(gap, why, clock.now()) : false;
    const fault = why ? `There is no open gap ${gap}.` : 'A gap is closed with a reason: say what was done about it.';
    return { to: '/reconciliation', message: closed ? `Gap ${gap} is closed.` : fault };
  });
  change('/reconciliation/verify', async (form) => {
    const point = readPoint(form.get('from')?.trim() ?? '');
    const known = point !== undefined && (typeof point === 'string' || point <= clock.now());
    const from = known ? (await beginningOf(store, point)).from : null;
    if (from) await askToVerify(store, from, clock.now());
    const fault = known
      ? 'Nothing is stored that it could be compared with.'
      : 'Give a cursor, or a time that is past, like 2026-01-31T12:00:00Z.';
    return { to: '/reconciliation', message: from ? `Verifying from cursor ${from} on.` : fault };
  });

  screen('/refused', 'Refused and quarantined', async ({ status, mayChange }) => {
    const [counters, refusals] = [await store.counters(), await store.refusals()];
    return refused({ status, counters, refusals, quarantine: await store.quarantine(QUARANTINE), mayChange });
  });
  const oneAside = async ({ ctx, mayChange, mayReveal }: Visit, revealed: boolean): Promise<Html | undefined> => {
    const row = await store.quarantined(Number(ctx['params']['id']) || 0);
    return row && quarantined(row, revealed ? row.body : null, { change: mayChange, reveal: mayReveal });
  };
  screen('/refused/:id', 'Quarantined', (visit) => oneAside(visit, false));
  reveal('/refused/:id/body', 'Quarantined', (visit) => oneAside(visit, true));
  change('/refused/retry', async (form) => {
    const id = form.get('id');
    const ids = id === 'all' ? (await store.quarantine(QUARANTINE)).map((row) => row.id) : [Number(id) || 0];
    const outcomes: (Accepted | undefined)[] = [];
    for (const one of ids) outcomes.push(await store.retryQuarantined(one, clock.now()));
    onChange();
    return { to: '/refused', message: reread(outcomes) };
  });

  addRecords({ screen, change, reveal, download }, { store, clock, jobs });

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
    if (standing === 'stranger') return askToken(ctx, 401);
    try {
      await next();
    } catch (error) {
      const status = (error as { status?: unknown }).status;
      if (error instanceof StoreError)
        return refuse(ctx, 503, `The store cannot be read just now: ${error.message}. Refresh in a moment.`);
      if (error instanceof ZodError)
        return refuse(ctx, 400, error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; '));
      if (typeof status === 'number' && status < 500) return refuse(ctx, status, 'The request cannot be read.');
      log.error(loggable(error), 'a page failed');
      refuse(ctx, 500, 'This page failed; the log says why. The receiver goes on.');
    }
  }

  function refuseStranger(ctx: Context): void {
    refuse(ctx, 403, 'Host or Origin is not this machine. Behind a proxy, set OPS_ORIGIN to the address of this page.');
  }

  function refuse(ctx: Context, status: number, text: string): void {
    ctx.status = status;
    answer(
      ctx,
      { title: status === 403 ? 'Not from here' : 'Not just now', alarms: [] },
      html`<p class="empty">${text}</p>`,
    );
  }

  function askToken(ctx: Context, status: number, fault?: string): void {
    ctx.status = status;
    answer(
      ctx,
      { title: 'Log in', path: undefined, alarms: [] },
      login(ctx.method === 'GET' && ctx.path !== '/login' ? ctx.url : '/', fault),
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
