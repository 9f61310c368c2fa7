// The frame of every page: title and icon with the state, navigation with counts, message, alarms, refresh control.
// live.js replaces <main>, and brings title, icon and counts up to date.
import { iso } from '../../../base/clock.ts';
import type { Health } from '../../../admin/health.ts';
import type { Alarm } from '../../../store/read.ts';
import { html, type Html } from './html.ts';
import { count, time } from './parts.ts';

/** `counted`: what the number beside the name counts, one and many. */
const SCREENS = [
  { path: '/', name: 'Overview', counted: ['alarm', 'alarms'] },
  { path: '/events', name: 'Events', counted: null },
  { path: '/handlers', name: 'Handlers', counted: ['paused', 'paused'] },
  { path: '/dead-letters', name: 'Dead letters', counted: ['dead letter', 'dead letters'] },
  { path: '/reconciliation', name: 'Reconciliation', counted: null },
  { path: '/refused', name: 'Refused', counted: ['quarantined', 'quarantined'] },
] as const;
type Screen = (typeof SCREENS)[number];
/** The numbers beside the names of screens, by path. A text stands for itself. */
export type Counts = Partial<Record<Screen['path'], number | string>>;
const COLOURS = { good: '#1e7a46', warn: '#d08a00', bad: '#b3261e', none: '#8b9098' };

/** The screen that an address belongs to. */
export function screenAt(address: string | undefined): Screen | undefined {
  const path = address?.replace(/[?#].*/, '');
  return SCREENS.findLast((one) => path === one.path || (one.path !== '/' && path?.startsWith(`${one.path}/`)));
}

export interface Shell {
  title: string;
  /** The path of the page. Undefined: the visitor has no access, so the page has no navigation. */
  path: string | undefined;
  /** Unix milliseconds. */
  now: number;
  alarms: Alarm[];
  /** Undefined: the page does not say how the kit is. */
  health?: Health | undefined;
  counts?: Counts | undefined;
  /** The result of the last change. */
  message?: string | undefined;
  /** Whether there is a session that the log-out button can end. */
  session?: boolean;
}

export function layout(shell: Shell, content: Html): string {
  const { title, path, now, alarms, health, counts = {}, message, session = false } = shell;
  const state = health === undefined || health.word === 'Receiving' ? '' : `● ${health.word} · `;
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${state}${title} · webhook receiver</title>
        <link rel="icon" type="image/svg+xml" href="${iconOf(health?.tone ?? 'none')}" />
        <link rel="stylesheet" href="/style.css" />
        <script src="/live.js" defer></script>
      </head>
      <body>
        <a class="skip" href="#main">Skip to the content</a>
        ${path === undefined ? null : header(screenAt(path), counts, session)}
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

function iconOf(tone: keyof typeof COLOURS): string {
  const circle = `<circle cx="8" cy="8" r="7" fill="${COLOURS[tone]}"/>`;
  return `data:image/svg+xml,${encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">${circle}</svg>`)}`;
}

/** The number beside a name, with a word for screen readers. */
function countOf(n: number | string | undefined, counted: Screen['counted']): Html | null {
  if (!n || counted === null) return null;
  const shown = typeof n === 'number' ? count(n) : n;
  return html` <span class="count">${shown}<span class="unseen"> ${counted[n === 1 ? 0 : 1]}</span></span>`;
}

function header(at: Screen | undefined, counts: Counts, session: boolean): Html {
  return html`<header>
    <nav aria-label="Screens">
      ${SCREENS.map((one) => html`<a href="${one.path}" ${one === at ? html`aria-current="page"` : null}>${one.name}${countOf(counts[one.path], one.counted)}</a>`)}
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
