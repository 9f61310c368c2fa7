// The screen of one handler: its figures, its pause, what fails, what waits, and what can be discarded.
import { duration } from '../../admin/filters.ts';
import { attemptsBetween, NO_ATTEMPTS, quantile, type RecentAttempts } from '../../admin/recent-attempts.ts';
import { iso } from '../../base/clock.ts';
import { ACK_LE_MS } from '../../base/latency-buckets.ts';
import type { DeadGroup, HandlerDetail, HandlerFigures, TaskFilter, WaitingLane } from '../../store/read.ts';
import type { OpsContext } from '../context.ts';
import { jobOf } from './dead-letters.ts';
import { keyLink, why } from './events.ts';
import { deadOf, failedOf, handlerPath, stateOf, type Rows } from './handlers.ts';
import { nameOf, shownMs } from './samples.ts';
import type { Visit } from './shell/frame.ts';
import { html, type Html } from './shell/html.ts';
import { action, code, confirm, count, figures, hidden, reason, span, state, table, time } from './shell/parts.ts';

/** The maximum of causes that the screen shows. */
const CAUSES = 20;
/** The ages from which waiting tasks can be discarded. */
const AGES = { '30m': '30 minutes', '6h': '6 hours', '1d': 'a day', '7d': '7 days' };

export async function handlerScreen(
  { ctx, now, reads, mayChange }: Visit,
  rows: Rows,
  { store, jobs }: OpsContext,
): Promise<Html | undefined> {
  const handler = rows.handlers.find(({ name }) => name === ctx['params']['name']);
  const detail = handler && (await reads.handler(handler.name, now));
  if (!handler || !detail) return undefined;
  const { groups } = await reads.groups({ handler: handler.name, limit: CAUSES });
  const age = String(ctx.query['older']);
  const before = mayChange && Object.hasOwn(AGES, age) ? now - duration.parse(age) : undefined;
  const old =
    before === undefined
      ? []
      : await store.admin.matching({ ...waitingBefore(handler.name, before), changedBy: now }, now);
  const attempts = attemptsBetween(rows.samples).get(handler.name) ?? NO_ATTEMPTS;
  const query = `handler=${encodeURIComponent(handler.name)}`;
  const slowest = detail.slowest.map(({ key, state: end, tookMs, at }) => {
    return [keyLink(key), state(end, end), tookMs < 1_000 ? `${tookMs} ms` : span(tookMs / 1_000), time(at)];
  });
  const [job] = jobs.list();
  return html`${job && jobOf(job, mayChange)} ${standing(handler, rows, attempts)}
    ${mayChange ? html`<div class="fix">${pauseOf(handler)}</div>` : null}
    <p class="row">
      <a href="/events?${query}&state=ready">Its waiting events</a> <a href="/events?${query}">All its events</a>
      <a href="/dead-letters?${query}">Its dead letters</a> <a href="/handlers">All handlers</a>
    </p>
    <h2>Failures by cause</h2>
    ${causes(detail, groups)}
    <h2>Lanes in which most of its tasks wait</h2>
    ${lanesTable(detail.lanes)}
    <h2>Slowest of its newest tasks</h2>
    ${table('Slowest of its newest tasks', ['key', 'state', '#took', 'ended'], slowest, 'None of its newest tasks has ended.')}
    <h2>How long attempts took</h2>
    ${durations(attempts)} ${mayChange ? discarding(handler, now, old.length, before) : null}`;
}

export function waitingBefore(handler: string, receivedBefore: number): TaskFilter {
  return { state: 'waiting', handler, receivedBefore };
}

function standing(handler: HandlerFigures, { recent, now, range }: Rows, attempts: RecentAttempts): Html {
  const { waiting, oldestSeconds, dead } = handler;
  const { succeeded, failed, took, p95 } = attempts;
  const wait = oldestSeconds === null ? null : `the oldest for ${span(oldestSeconds)}`;
  const failures = failed > 0 ? `${count(failed)} failed: ${failedOf(attempts)}` : 'none failed';
  const half = `half in ${shownMs(quantile(took, 0.5))}`;
  return figures([
    { name: 'State', value: stateOf(handler, attemptsBetween(recent), now) },
    { name: 'Waiting', value: waiting, note: wait },
    { name: 'Dead letters', value: deadOf(handler), tone: dead > 0 ? 'warn' : undefined },
    { name: `Attempts, ${nameOf(range)}`, value: succeeded + failed, note: failures },
    { name: `95 of 100 within, ${nameOf(range)}`, value: shownMs(p95), note: half },
  ]);
}

function pauseOf({ name, paused }: HandlerFigures): Html {
  const to = html`${hidden('handler', name)} ${hidden('to', handlerPath(name))}`;
  if (paused) return action('/handlers/resume', paused.all ? 'Resume it alone' : 'Resume', to);
  const fields = html`${to} ${reason('reason-pause', 'Reason', false)}`;
  return confirm('pause', 'Pause', action('/handlers/pause', 'Pause it now', fields));
}

function causes({ failing }: HandlerDetail, groups: DeadGroup[]): Html {
  const retried = failing.map(({ pattern, tasks, key, error }) => {
    return [pattern || 'without words', state('warn', 'retried'), tasks, keyLink(key), why(error)];
  });
  const dead = groups.map(({ id, pattern, dead: tasks, key, error }) => {
    const link = html`<a href="/dead-letters?group=${id}" class="why">${pattern || 'without words'}</a>`;
    return [link, state('dead', 'dead'), tasks, keyLink(key), error === null ? null : why(error)];
  });
  const columns = ['cause', 'its tasks', '#tasks', 'sample', 'its error'];
  return table('Failures by cause', columns, [...retried, ...dead], 'Nothing fails.');
}

export function lanesTable(lanes: WaitingLane[]): Html {
  return table(
    'Lanes in which most tasks wait',
    ['handler', 'lane', '#waiting', 'they wait for', '#its attempts', 'its last error'],
    lanes.map(({ handler, lane, waiting, more, head: { key, attempts, error } }) => {
      const link = html`<a href="${handlerPath(handler)}">${handler}</a>`;
      const behind = more ? `${count(waiting)} or more` : waiting;
      return [link, code(lane), behind, keyLink(key), attempts, error === null ? null : why(error)];
    }),
    'No task waits for another.',
  );
}

function durations({ took }: RecentAttempts): Html {
  const [all, most] = [took.reduce((sum, n) => sum + n, 0), Math.max(1, ...took)];
  const rows = took.flatMap((n, i) => {
    const bar = html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
      <rect width="${Math.max(1, (100 * n) / most)}" height="8" />
    </svg>`;
    return n === 0 ? [] : [[shownMs(ACK_LE_MS[i] ?? Infinity), n, `${((100 * n) / all).toFixed(1)} %`, bar]];
  });
  const columns = ['within', '#attempts', '#share', ''];
  return table('How long attempts took', columns, rows, 'No attempt has ended in this time.');
}

/** The first form asks how many tasks are that old: `old`. The second discards these, and no others. */
function discarding({ name, waiting }: HandlerFigures, now: number, old: number, before?: number): Html | null {
  if (waiting === 0 && before === undefined) return null;
  const path = handlerPath(name);
  return html`<h2 id="discard">Discard old tasks</h2>
    ${before === undefined ? null : discardThese(name, before, old, now)}
    <form method="get" action="${path}#discard" class="row">
      ${hidden('handler', name)}
      <label for="older">Waiting tasks of events older than</label>
      <select id="older" name="older">
        ${Object.entries(AGES).map(([age, words]) => html`<option value="${age}">${words}</option>`)}
      </select>
      <button>Count them</button>
    </form>`;
}

function discardThese(name: string, before: number, tasks: number, now: number): Html {
  if (tasks === 0) return html`<p class="empty">No waiting task is that old.</p>`;
  const [these, are] = tasks === 1 ? ['this task', 'task is'] : [`these ${count(tasks)} tasks`, 'tasks are'];
  const what = html`${hidden('handler', name)} ${hidden('before', before)} ${hidden('at', now)}
  ${hidden('count', tasks)}`;
  return html`<p data-still>
      <strong>${count(tasks)}</strong> waiting ${are} of events received before ${time(iso(before))} UTC. Discarded
      tasks are skipped; their events stay.
    </p>
    <div class="row">
      ${action('/handlers/discard', `Discard ${these} for good`, html`${what} ${reason('reason-old')}`, 'bad')}
      <a href="${handlerPath(name)}">Keep them</a>
    </div>`;
}
