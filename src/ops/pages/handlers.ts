// The handlers: a row for each, with its pause.
import { attemptsBetween, NO_ATTEMPTS, type RecentAttempts } from '../../admin/recent-attempts.ts';
import type { HandlerFigures, Sample } from '../../store/read.ts';
import { nameOf, shownMs, type Range } from './samples.ts';
import { html, type Html } from './shell/html.ts';
import { action, ago, confirm, count, hidden, reason, span, state, table, type Cell } from './shell/parts.ts';

export interface Rows {
  handlers: HandlerFigures[];
  /** The samples of the shown range, and of the last ten minutes. */
  samples: Sample[];
  recent: Sample[];
  range: Range;
  now: number;
  mayChange: boolean;
}

/** Browsers take the dots out of a path, however they are written. So the handlers `.` and `..` stand in the query. */
export function handlerPath(name: string): string {
  return /^\.\.?$/.test(name) ? `/handlers/dots?handler=${name}` : `/handlers/${encodeURIComponent(name)}`;
}

/** `to`: the path of the page that shows the table, which a pause leads back to. */
export function handlersTable({ handlers, samples, recent, range, now, mayChange }: Rows, to: string): Html {
  const [attempts, lastMinutes] = [attemptsBetween(samples), attemptsBetween(recent)];
  const over = nameOf(range);
  return table(
    'Handlers',
    ['handler', 'state', '#waiting', '#oldest', `#failed, ${over}`, `#p95, ${over}`, '#dead', ''],
    handlers.map((one) => {
      const { name, waiting, oldestSeconds } = one;
      const its = attempts.get(name) ?? NO_ATTEMPTS;
      const age = oldestSeconds === null ? null : span(oldestSeconds);
      const pause = mayChange ? pauseOf(one, to) : '';
      const link = html`<a href="${handlerPath(name)}">${name}</a>`;
      return [link, stateOf(one, lastMinutes, now), waiting, age, failedOf(its), shownMs(its.p95), deadOf(one), pause];
    }),
    'No handler is loaded yet: npx kit new writes one, from a template or empty.',
  );
}

export function handlersScreen(rows: Rows): Html {
  const { handlers, mayChange } = rows;
  const all = hidden('all', 'yes');
  const fields = html`${all} ${reason('reason-all', 'Reason', false)}`;
  const pause = action('/handlers/pause', 'Pause all handlers now', fields, 'bad');
  const resume = handlers.some(({ paused }) => paused) ? action('/handlers/resume', 'Resume all', all) : null;
  return html`${handlersTable(rows, '/handlers')}
    ${mayChange ? html`<div class="fix">${confirm('pause-all', 'Pause all', pause)} ${resume}</div>` : null}
    <p class="soft">
      While a handler is paused, deliveries are accepted, running attempts end, and its tasks wait in order. A pause
      outlasts restarts. On the terminal: <code>npx kit pause NAME</code> or <code>--all</code>.
    </p>`;
}

/** Failing: in the last ten minutes (`lastMinutes`), more attempts failed than succeeded. */
export function stateOf(
  { name, loaded, waiting, paused }: HandlerFigures,
  lastMinutes: Map<string, RecentAttempts>,
  now: number,
): Html {
  if (paused)
    return html`${state('warn', html`paused ${ago(paused.since, now)}`)}
    ${paused.reason === null ? null : html`<br /><span class="soft">${paused.reason}</span>`}`;
  if (!loaded) return state(waiting > 0 ? 'bad' : '', 'not loaded');
  const { succeeded, failed } = lastMinutes.get(name) ?? NO_ATTEMPTS;
  return failed > succeeded ? state('bad', 'failing') : state('good', 'running');
}

export function failedOf({ succeeded, failed }: RecentAttempts): string | null {
  const share = (100 * failed) / (succeeded + failed);
  return Number.isNaN(share) ? null : `${share > 0 && share < 10 ? share.toFixed(1) : Math.round(share)} %`;
}

export function deadOf({ name, dead }: HandlerFigures): Cell {
  if (dead === 0) return 0;
  const words = html`${count(dead)}<span class="unseen"> dead letters of ${name}</span>`;
  return html`<a href="/dead-letters?handler=${encodeURIComponent(name)}">${words}</a>`;
}

function pauseOf({ name, paused }: HandlerFigures, to: string): Html {
  const [verb, words] = paused ? ['resume', 'Resume'] : ['pause', 'Pause'];
  const fields = html`${hidden('handler', name)} ${hidden('to', to)}`;
  return action(`/handlers/${verb}`, html`${words}<span class="unseen"> ${name}</span>`, fields);
}
