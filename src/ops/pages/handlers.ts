// The handlers: a row for each, with its pause, and the screen of one of them.
import type { DeadGroup, HandlerDetail, HandlerFigures, HandlerSample, Sample } from '../../store/read.ts';
import { ACK_LE_MS } from '../../base/latency-buckets.ts';
import { iso } from '../../base/clock.ts';
import type { Job } from '../../admin/jobs.ts';
import { jobOf } from './dead-letters.ts';
import { keyLink, why } from './events.ts';
import { attemptsOf, nameOf, quantile, shownMs, type Range } from './samples.ts';
import { html, type Html } from './shell/html.ts';
import {
  action,
  ago,
  code,
  confirm,
  count,
  figures,
  hidden,
  reason,
  span,
  table,
  time,
  type Cell,
} from './shell/parts.ts';
import type { WaitingLane } from '../../store/read.ts';

export interface Rows {
  handlers: HandlerFigures[];
  /** The samples of the shown range, and of the last ten minutes. */
  samples: Sample[];
  recent: Sample[];
  range: Range;
  now: number;
  mayChange: boolean;
}

const NONE = 'No handler is loaded yet: npx kit new writes one, from a template or empty.';

export function handlerPath(name: string): string {
  return `/handlers/${encodeURIComponent(name)}`;
}

/** `to`: the path of the page that shows the table, which a pause leads back to. */
export function handlersTable({ handlers, samples, recent, range, now, mayChange }: Rows, to: string): Html {
  return table(
    'Handlers',
    ['handler', 'state', '#waiting', '#oldest', `#failed, ${nameOf(range)}`, `#p95, ${nameOf(range)}`, '#dead', ''],
    handlers.map((one) => {
      const attempts = attemptsOf(samples, one.name);
      return [
        html`<a href="${handlerPath(one.name)}">${one.name}</a>`,
        stateOf(one, recent, now),
        one.waiting,
        one.oldestSeconds === null ? null : span(one.oldestSeconds),
        failedOf(attempts),
        shownMs(quantile(attempts.took, 0.95)),
        deadOf(one),
        mayChange ? brake(one, to) : '',
      ];
    }),
    NONE,
  );
}

export function handlersScreen(rows: Rows): Html {
  const { handlers, mayChange } = rows;
  const all = html`${reason('reason-all', 'Reason, if you like', false)}`;
  return html`${handlersTable(rows, '/handlers')}
    ${
      mayChange && handlers.length > 0
        ? html`<div class="fix">
            ${confirm('pause-all', 'Pause all', action('/handlers/pause', `Pause all handlers now`, all, 'bad'))}
            ${handlers.some(({ paused }) => paused) ? action('/handlers/resume', 'Resume all', null) : null}
          </div>`
        : null
    }
    <p class="soft">
      While a handler is paused, deliveries are still accepted, running attempts end, and its tasks wait in order. A
      pause outlasts restarts. On the terminal: <code>npx kit pause NAME</code> or <code>--all</code>.
    </p>`;
}

/** Failing: in the last ten minutes, more attempts failed than succeeded. */
function stateOf({ name, loaded, paused }: HandlerFigures, recent: Sample[], now: number): Html {
  if (paused)
    return html`<span class="state warn">paused ${ago(paused.since, now)}</span>
      ${paused.reason === null ? null : html`<br /><span class="soft">${paused.reason}</span>`}`;
  if (!loaded) return html`<span class="state bad">not loaded</span>`;
  const { succeeded, failed } = attemptsOf(recent, name);
  return failed > succeeded
    ? html`<span class="state bad">failing</span>`
    : html`<span class="state good">running</span>`;
}

function failedOf({ succeeded, failed }: HandlerSample): string | null {
  const all = succeeded + failed;
  if (all === 0) return null;
  const share = (100 * failed) / all;
  return `${share > 0 && share < 10 ? share.toFixed(1) : Math.round(share)} %`;
}

function deadOf({ name, dead }: HandlerFigures): Cell {
  return dead === 0
    ? 0
    : html`<a
        href="/dead-letters?handler=${encodeURIComponent(name)}"
        aria-label="${count(dead)} dead letters of ${name}"
        >${count(dead)}</a
      >`;
}

function brake({ name, paused }: HandlerFigures, to: string): Html {
  const [verb, words] = paused ? ['resume', 'Resume'] : ['pause', 'Pause'];
  const button = html`${words}<span class="unseen"> ${name}</span>`;
  return action(`${handlerPath(name)}/${verb}`, button, hidden('to', to));
}

export interface HandlerPage extends Omit<Rows, 'handlers'> {
  handler: HandlerFigures;
  detail: HandlerDetail;
  groups: DeadGroup[];
  jobs: Job[];
  /** The waiting tasks that a person has asked to discard. */
  old: Old | undefined;
}

export interface Old {
  /** Tasks of events received before this time, Unix milliseconds. */
  before: number;
  tasks: number;
}

/** The ages from which waiting tasks can be discarded. */
export const AGES = { '30m': '30 minutes', '6h': '6 hours', '1d': 'a day', '7d': '7 days' };

export function handlerScreen(page: HandlerPage): Html {
  const { handler, detail, groups, samples, jobs, mayChange } = page;
  const attempts = attemptsOf(samples, handler.name);
  const query = `handler=${encodeURIComponent(handler.name)}`;
  return html`${jobs.map((job) => jobOf(job, mayChange))} ${standing(page, attempts)}
    ${mayChange ? html`<div class="fix">${brakeWithReason(handler)}</div>` : null}
    <p class="row">
      <a href="/events?${query}&state=ready">Its waiting events</a> <a href="/events?${query}">All its events</a>
      <a href="/dead-letters?${query}">Its dead letters</a> <a href="/handlers">All handlers</a>
    </p>
    <h2>Failures by cause</h2>
    ${causes(detail, groups)}
    <h2>Lanes in which most of its tasks wait</h2>
    ${lanesTable(detail.lanes, false)}
    <h2>Slowest tasks</h2>
    ${table(
      'Slowest of its newest tasks',
      ['key', 'state', '#took', 'ended'],
      detail.slowest.map(({ key, state, tookMs, at }) => [
        keyLink(key),
        html`<span class="state ${state}">${state}</span>`,
        tookMs < 1_000 ? `${tookMs} ms` : span(tookMs / 1_000),
        time(at),
      ]),
      'No task of it has ended among the newest events.',
    )}
    <h2>How long attempts took</h2>
    ${durations(attempts)} ${mayChange ? discarding(page) : null}`;
}

function standing({ handler, recent, now, range }: HandlerPage, { succeeded, failed, took }: HandlerSample): Html {
  const { waiting, oldestSeconds, dead } = handler;
  return figures([
    { name: 'State', value: stateOf(handler, recent, now) },
    { name: 'Waiting', value: waiting, note: oldestSeconds === null ? null : `the oldest for ${span(oldestSeconds)}` },
    { name: 'Dead letters', value: deadOf(handler), tone: dead > 0 ? 'warn' : undefined },
    {
      name: `Attempts, ${nameOf(range)}`,
      value: succeeded + failed,
      note: failed > 0 ? `${count(failed)} failed: ${failedOf({ succeeded, failed, took })}` : 'none failed',
    },
    {
      name: `95 of 100 within, ${nameOf(range)}`,
      value: shownMs(quantile(took, 0.95)),
      note: `half in ${shownMs(quantile(took, 0.5))}`,
    },
  ]);
}

function brakeWithReason({ name, paused }: HandlerFigures): Html {
  const path = handlerPath(name);
  const to = hidden('to', path);
  if (paused) return action(`${path}/resume`, paused.all ? 'Resume it alone' : 'Resume', to);
  const fields = html`${to} ${reason('reason-pause', 'Reason, if you like', false)}`;
  return confirm('pause', 'Pause', action(`${path}/pause`, 'Pause it now', fields));
}

function causes({ failing }: HandlerDetail, groups: DeadGroup[]): Html {
  return table(
    'Failures by cause',
    ['cause', 'its tasks', '#tasks', 'sample', 'its error'],
    [
      ...failing.map(({ pattern, tasks, key, error }) => [
        pattern || 'without words',
        html`<span class="state warn">retried</span>`,
        tasks,
        keyLink(key),
        why(error),
      ]),
      ...groups.map(({ id, pattern, dead, key, error }) => [
        html`<a href="/dead-letters?group=${id}" class="why">${pattern || 'without words'}</a>`,
        html`<span class="state dead">dead</span>`,
        dead,
        keyLink(key),
        error === null ? null : why(error),
      ]),
    ],
    'Nothing fails.',
  );
}

export function lanesTable(lanes: WaitingLane[], withHandler = true): Html {
  return table(
    'Lanes in which most tasks wait',
    [...(withHandler ? ['handler'] : []), 'lane', '#waiting', 'they wait for', '#its attempts', 'its last error'],
    lanes.map(({ handler, lane, waiting, more, head }) => [
      ...(withHandler ? [html`<a href="${handlerPath(handler)}">${handler}</a>`] : []),
      code(lane),
      more ? `${count(waiting)} or more` : waiting,
      keyLink(head.key),
      head.attempts,
      head.error === null ? null : why(head.error),
    ]),
    'No task waits for another.',
  );
}

function durations({ took }: HandlerSample): Html {
  const all = took.reduce((sum, n) => sum + n, 0);
  const most = Math.max(1, ...took);
  return table(
    'How long attempts took',
    ['within', '#attempts', '#share', ''],
    took.flatMap((n, i) => {
      if (n === 0) return [];
      const bar = html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
        <rect width="${Math.max(1, Math.round((100 * n) / most))}" height="8" />
      </svg>`;
      return [[shownMs(ACK_LE_MS[i] ?? Infinity), n, `${((100 * n) / all).toFixed(1)} %`, bar]];
    }),
    'No attempt has ended in this time.',
  );
}

/** The first form asks how many tasks are that old. The second discards these, and no others. */
function discarding({ handler: { name, waiting }, old, now }: HandlerPage): Html | null {
  if (waiting === 0 && !old) return null;
  const path = handlerPath(name);
  const ask = html`<form method="get" action="${path}#discard" class="row">
    <label for="older">Discard waiting tasks of events older than</label>
    <select id="older" name="older">
      ${Object.entries(AGES).map(([age, words]) => html`<option value="${age}">${words}</option>`)}
    </select>
    <button>Count them</button>
  </form>`;
  return html`<h2 id="discard">Discard old tasks</h2>
    ${old ? html`<div data-still>${old.tasks === 0 ? html`<p class="empty">No waiting task is that old.</p>` : discardThese(path, old, now)}</div>` : null}
    ${ask}`;
}

function discardThese(path: string, { before, tasks }: Old, now: number): Html {
  const these = html`${hidden('before', before)} ${hidden('at', now)} ${hidden('count', tasks)}`;
  const all = tasks === 1 ? 'this task' : `these ${count(tasks)} tasks`;
  return html`<p>
      <strong>${count(tasks)}</strong> waiting ${tasks === 1 ? 'task is' : 'tasks are'} of events received before
      ${time(iso(before))} UTC. Discarded tasks are skipped; their events stay.
    </p>
    <div class="row">
      ${action(`${path}/discard`, `Discard ${all} for good`, html`${these} ${reason('reason-old')}`, 'bad')}
      <a href="${path}">Keep them</a>
    </div>`;
}
