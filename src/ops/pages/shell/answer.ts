// Answers with pages, refusals and messages. A change redirects to a page, and a cookie carries the change's message
// to that page, so that no JavaScript is needed.
import type { Context } from 'koa';
import { loggable } from '../../../base/errors.ts';
import { StoreError } from '../../../store/store.ts';
import type { OpsContext } from '../../context.ts';
import type { Decision, What } from '../../decision.ts';
import { faultOf } from '../../faults.ts';
import { html, type Html } from './html.ts';
import { layout, type Shell } from './layout.ts';
import { hidden } from './parts.ts';

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

export type Answers = ReturnType<typeof createAnswers>;

export function createAnswers({ access, clock, log }: Pick<OpsContext, 'access' | 'clock' | 'log'>) {
  function page(ctx: Context, shell: Pick<Shell, 'title'> & Partial<Shell>, content: Html): void {
    const said = ctx.cookies.get(SAID);
    const message = said === undefined ? undefined : (new URLSearchParams(`m=${said}`).get('m') ?? undefined);
    if (said !== undefined) ctx.append('Set-Cookie', `${SAID}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0`);
    ctx.set({
      'Content-Security-Policy': CSP,
      // With no-referrer, browsers would send our own forms with `Origin: null`, and the forms would be refused.
      'Referrer-Policy': 'same-origin',
      'Cross-Origin-Opener-Policy': 'same-origin',
      'Content-Type': 'text/html; charset=utf-8',
    });
    const rest = { path: ctx.path, now: clock.now(), alarms: [], session: access.session(ctx), message };
    ctx.body = layout({ ...rest, ...shell }, content);
  }

  function say(ctx: Context, status: number, title: string, content: string | Html): void {
    ctx.status = status;
    page(ctx, { title }, html`<p class="empty">${content}</p>`);
  }

  function askToken(ctx: Context, status: number, fault?: string): void {
    ctx.status = status;
    const to = ctx.path === '/login' ? '/' : ctx.method === 'POST' ? cameFrom(ctx) : ctx.url;
    page(ctx, { title: 'Log in', path: undefined }, loginForm(to, fault));
  }

  return {
    page,
    askToken,
    /** Answers a request that was not allowed. */
    refuse(ctx: Context, decision: Decision, what: What): void {
      const isForm = ctx.method === 'POST';
      if (decision === 'unknown')
        askToken(ctx, 401, isForm ? 'Nothing was done: log in, then do it again.' : undefined);
      else if (decision === 'elsewhere') say(ctx, 403, 'Not from here', ELSEWHERE);
      else say(ctx, 403, 'Not allowed', what === 'reveal' ? REVEAL : CHANGE);
    },
    fail(ctx: Context, error: unknown): void {
      const { status, words } = faultOf(error) ?? { status: 500, words: '' };
      if (error instanceof StoreError && ctx.method === 'POST')
        return goOn(ctx, cameFrom(ctx), `Not done, or not to its end: ${words}. Try again in a moment.`);
      if (status === 503) return say(ctx, status, 'Not just now', `${words}. Refresh in a moment.`);
      if (status < 500 && words) return say(ctx, status, 'This cannot be asked', words);
      if (status < 500) return say(ctx, status, 'This cannot be read', 'The request has no form that this page sends.');
      log.error(loggable(error), 'a page failed');
      say(ctx, 500, 'This page failed', 'The log says why. The receiver goes on.');
    },
    lost(ctx: Context, status: number): void {
      const ways = html`<a href="/">Overview</a> or <a href="/events">look for an event</a>`;
      say(ctx, status, 'Nothing here', html`Nothing is at this address, or no longer: ${ways}.`);
    },
  };
}

const ELSEWHERE = 'Host or Origin is not this machine. Behind a proxy, set OPS_ORIGIN to the address of this page.';
const REVEAL = 'Bodies are shown with OPS_TOKEN alone: set it, and log in with it.';
const CHANGE = 'OPS_READ_TOKEN may look; changes need OPS_TOKEN.';

/** The token travels in the body, because addresses end up in histories and logs. */
function loginForm(to: string, fault: string | undefined): Html {
  return html`<form class="login" method="post" action="/login">
    ${hidden('to', to)} ${fault === undefined ? null : html`<p class="fault" role="alert">${fault}</p>`}
    <label for="token">Token</label>
    <input id="token" name="token" type="password" required autocomplete="current-password" autofocus />
    <p class="soft">
      <code>OPS_READ_TOKEN</code> may look, <code>OPS_TOKEN</code> may change things. Both are set in <code>.env</code>.
    </p>
    <button>Log in</button>
  </form>`;
}

/** The path of the page that contains the form, because the address that the form is sent to shows no page. */
function cameFrom(ctx: Context): string {
  const from = URL.parse(ctx.get('referer'));
  return from === null ? '/' : `${from.pathname}${from.search}`;
}

/** Redirects with 303, so that a reload of the next page does not repeat the change. */
export function goOn(ctx: Context, to: string, words?: string): void {
  if (words !== undefined) {
    const value = encodeURIComponent(words.slice(0, 500).toWellFormed());
    ctx.append('Set-Cookie', `${SAID}=${value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=60`);
  }
  ctx.set('Location', /^\/(?![/\\])[\x21-\x7e]*$/.test(to) ? to : '/');
  ctx.status = 303;
  ctx.body = null;
  ctx.status = 303;
}
