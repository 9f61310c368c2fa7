// The frame of every page: navigation, message, alarms, refresh control. live.js replaces only <main>.
import { iso } from '../../../base/clock.ts';
import type { Alarm } from '../../../store/read.ts';
import { html, type Html } from './html.ts';
import { time } from './parts.ts';

const SCREENS: [path: string, name: string][] = [
  ['/', 'Overview'],
  ['/events', 'Events'],
  ['/dead-letters', 'Dead letters'],
  ['/reconciliation', 'Reconciliation'],
  ['/refused', 'Refused'],
];

export interface Shell {
  title: string;
  /** The path of the page. Undefined: the visitor has no access, so the page has no navigation. */
  path: string | undefined;
  /** Unix milliseconds. */
  now: number;
  alarms: Alarm[];
  /** The result of the last change. */
  message?: string | undefined;
  /** Whether there is a session that the log-out button can end. */
  session?: boolean;
}

export function layout({ title, path, now, alarms, message, session = false }: Shell, content: Html): string {
  const at = SCREENS.findLast(([to]) => path === to || (to !== '/' && path?.startsWith(`${to}/`)))?.[0];
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} · webhook receiver</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="/style.css" />
        <script src="/live.js" defer></script>
      </head>
      <body>
        <a class="skip" href="#main">Skip to the content</a>
        ${path === undefined ? null : header(at, session)}
        ${message === undefined ? null : html`<p class="message" role="status">${message}</p>`}
        <main id="main" tabindex="-1">
          ${alarms.length > 0 && path !== '/' ? alarmBar(alarms) : null}
          <h1>${title}</h1>
          ${content}
          ${path === undefined ? null : html`<p class="asof">As of ${time(iso(now))} UTC · <a href="/runbook">Runbook</a></p>`}
        </main>
      </body>
    </html>`;
  return page.text;
}

function header(at: string | undefined, session: boolean): Html {
  return html`<header>
    <nav aria-label="Screens">
      ${SCREENS.map(([to, name]) => html`<a href="${to}" ${to === at ? html`aria-current="page"` : null}>${name}</a>`)}
    </nav>
    <div class="tools">
      <select id="every" aria-label="Refresh by itself" hidden>
        <option value="0">by hand</option>
        <option value="2">every 2 s</option>
        <option value="5">every 5 s</option>
        <option value="15">every 15 s</option>
      </select>
      <a class="again" href="">Refresh</a>
      <span id="live" role="status"></span>
      ${session ? html`<form method="post" action="/logout"><button>Log out</button></form>` : null}
    </div>
  </header>`;
}

function alarmBar(alarms: Alarm[]): Html {
  return html`<p class="alarmbar">
    <a href="/#alarms">${alarms.length === 1 ? 'One alarm' : `${alarms.length} alarms`}</a>:
    ${alarms.map(({ name }) => name).join(', ')}
  </p>`;
}
