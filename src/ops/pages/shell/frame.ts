// Adds screens and forms to the router. Each route checks access first, logs changes and revealed bodies, and answers
// an error with a page.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Router } from '@koa/router';
import type { Context, Middleware } from 'koa';
import { AdminError } from '../../../admin/error.ts';
import { health, type Health } from '../../../admin/health.ts';
import { redacted, type PersonalReads } from '../../../admin/redact.ts';
import { orNone } from '../../../store/or-none.ts';
import type { Status } from '../../../store/read.ts';
import type { OpsContext } from '../../context.ts';
import type { What } from '../../decision.ts';
import { createAnswers, goOn, type Answers } from './answer.ts';
import type { Html } from './html.ts';
import type { Counts } from './layout.ts';

const FORM_BYTES = 1024 * 1024;

export interface Visit {
  ctx: Context;
  now: number;
  status: Status;
  health: Health;
  /** If the visitor may not change anything, errors and lane names are redacted: see admin/redact.ts. */
  reads: PersonalReads;
  mayChange: boolean;
  mayReveal: boolean;
}

/** Makes the content of a screen. Undefined: the record that the address names does not exist. */
type Show = (visit: Visit) => Promise<Html | undefined>;

export interface Frame {
  /** A title like `:name` is that parameter of the address. */
  screen: (path: string, title: string, show: Show) => void;
  /**
   * Adds a form. `work` resolves to a message. The answer redirects to the form's field `to`, else the argument `to`.
   */
  change: (path: string, to: string, work: (form: URLSearchParams, ctx: Context) => Promise<string>) => void;
  /** Adds a page that asks before a change. The form that leads to it holds what was selected. */
  ask: (path: string, title: string, show: (visit: Visit, form: URLSearchParams) => ReturnType<Show>) => void;
  reveal: (path: string, title: string, show: Show) => void;
  download: (path: string, send: (ctx: Context, bodies: boolean) => void) => void;
  /** Answers addresses that have no route. */
  lost: (ctx: Context) => Promise<void>;
}

export function createFrame(context: OpsContext): Frame {
  const { router, access, store, view, rules, clock, log } = context;
  const answers = createAnswers(context);

  const may =
    (what: What): Middleware =>
    async (ctx, next) => {
      const decision = access.page(ctx, what);
      if (decision !== 'allowed') return answers.refuse(ctx, decision, what);
      if (what === 'reveal') log.info({ revealed: ctx.path, by: 'OPS_TOKEN', from: ctx.ip }, 'a body was revealed');
      try {
        await next();
      } catch (error) {
        answers.fail(ctx, error);
      }
    };

  async function answer(ctx: Context, title: string, show: Show): Promise<void> {
    const now = clock.now();
    const status = await view.status(now);
    const mayChange = access.page(ctx, 'change') === 'allowed';
    const mayReveal = access.page(ctx, 'reveal') === 'allowed';
    const reads = mayChange ? store.read : redacted(store.read);
    const shown = health(status, rules);
    const content = await show({ ctx, now, status, health: shown, reads, mayChange, mayReveal });
    if (!content) return answers.lost(ctx, 404);
    const shell = { title: ctx['params'][title.slice(1)] ?? title, alarms: status.alarms, health: shown };
    answers.page(ctx, { ...shell, counts: await countsOf(status, store) }, content);
  }

  addLogin(context, answers);
  addAsset(router, 'style.css', 'text/css; charset=utf-8');
  addAsset(router, 'live.js', 'text/javascript; charset=utf-8');

  return {
    screen: (path, title, show) => router.get(path, may('read'), (ctx) => answer(ctx, title, show)),
    ask(path, title, show) {
      // Without a form, for example after a refresh, nothing is selected.
      router.get(path, may('read'), (ctx) => answer(ctx, title, (visit) => show(visit, new URLSearchParams())));
      router.post(path, may('change'), async (ctx) => {
        const form = await formOf(ctx);
        await answer(ctx, title, (visit) => show(visit, form));
      });
    },
    reveal: (path, title, show) => router.post(path, may('reveal'), (ctx) => answer(ctx, title, show)),
    download(path, send) {
      router.get(path, may('read'), (ctx) => send(ctx, false));
      router.post(path, may('reveal'), (ctx) => send(ctx, true));
    },
    change(path, to, work) {
      router.post(path, may('change'), async (ctx) => {
        const form = await formOf(ctx);
        const message = sentence(await wordsOf(work(form, ctx)));
        log.info({ change: ctx.path, ...namedIn(form) }, message);
        goOn(ctx, form.get('to') ?? to, message);
      });
    },
    lost: async (ctx) => may('read')(ctx, async () => answers.lost(ctx, ctx.status)),
  };
}

async function countsOf({ alarms, tasks, quarantined }: Status, store: OpsContext['store']): Promise<Counts> {
  const pauses = Object.keys((await orNone(() => store.state.get('paused'))) ?? {});
  const handlers = pauses.includes('*') ? 'all' : pauses.length;
  return { '/': alarms.length, '/handlers': handlers, '/dead-letters': tasks.dead, '/refused': quarantined };
}

/** Resolves to the message of the work. If the work throws AdminError, the error's message is taken. */
async function wordsOf(work: Promise<string>): Promise<string> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof AdminError) return error.message;
    throw error;
  }
}

/** What the log says of a form. */
function namedIn(form: URLSearchParams): { handler: string | undefined; reason: string | undefined } {
  return { handler: form.get('handler') ?? undefined, reason: form.get('reason') ?? undefined };
}

function sentence(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1).replace(/\.$/, '')}.`;
}

function addLogin({ router, access }: OpsContext, answers: Answers): void {
  router.get('/login', (ctx) => {
    if (access.page(ctx, 'read') === 'unknown') answers.askToken(ctx, 200);
    else ctx.redirect('/');
  });
  router.post('/login', async (ctx) => {
    if (access.page(ctx, 'read') === 'elsewhere') return answers.refuse(ctx, 'elsewhere', 'read');
    const form = await formOf(ctx);
    const outcome = await access.login(ctx, form.get('token') ?? '');
    if (outcome === 'in') return goOn(ctx, form.get('to') ?? '/');
    if (outcome === 'throttled') answers.askToken(ctx, 429, 'Too many wrong tokens. The right one still passes.');
    else answers.askToken(ctx, 401, 'This is neither OPS_TOKEN nor OPS_READ_TOKEN.');
  });
  router.post('/logout', async (ctx) => {
    if (access.page(ctx, 'read') === 'elsewhere') return answers.refuse(ctx, 'elsewhere', 'read');
    await access.logout(ctx);
    goOn(ctx, '/login');
  });
}

/** Adds the route of a file. Browsers keep the file and ask by its ETag whether it has changed. */
function addAsset(router: Router, name: string, type: string): void {
  const text = readFileSync(new URL(name, import.meta.url));
  const etag = `"${createHash('sha256').update(text).digest('hex').slice(0, 16)}"`;
  router.get(`/${name}`, (ctx) => {
    ctx.set({ ETag: etag, 'Cache-Control': 'no-cache', 'Content-Type': type });
    ctx.status = 200;
    if (ctx.fresh) ctx.status = 304;
    else ctx.body = text;
  });
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
