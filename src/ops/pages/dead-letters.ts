// The screen of dead letters, grouped by cause. Its forms retry one of them, and retry or discard a group or all.
import { taskFilterOf } from '../../admin/filters.ts';
import type { Job } from '../../admin/jobs.ts';
import type { DeadGroup } from '../../store/read.ts';
import type { OpsContext } from '../context.ts';
import { keyLink, why } from './events.ts';
import { discardWords, retryWords } from './selected.ts';
import type { Visit } from './shell/frame.ts';
import { html, type Html } from './shell/html.ts';
import { action, code, confirm, count, figures, hidden, reason, table, time } from './shell/parts.ts';

/** The maximum of causes that the screen shows. */
const GROUPS = 200;

export async function lettersScreen(
  { ctx, now, status, reads, mayChange }: Visit,
  { jobs, config: { RUN_CONCURRENCY: concurrency } }: OpsContext,
): Promise<Html> {
  const { handler, group: id, before, limit } = taskFilterOf(ctx.query, now);
  const { dead, groups } = await reads.groups({ handler, id, limit: GROUPS });
  const page = id === undefined ? undefined : await reads.tasks({ group: id, before, limit }, now);
  const waiting = status.tasks.ready;
  const one = page && groups[0];
  const which = one
    ? hidden('group', one.id)
    : handler === undefined
      ? hidden('state', 'dead')
      : hidden('handler', handler);
  const whose = handler === undefined ? 'in all' : `of ${handler}`;
  const running = jobs.list().slice(0, 3);
  return html`${running.map((job) => jobOf(job, mayChange))}
    ${page || handler !== undefined ? html`<p><a href="/dead-letters">All causes</a></p>` : null}
    ${dead === 0 || one ? null : html`<p><strong>${count(dead)}</strong> ${dead === 1 ? 'dead letter' : 'dead letters'} ${whose}.</p>`}
    ${one ? sample(one) : null} ${mayChange && dead > 0 ? fix(which, dead, now, concurrency) : null}
    ${
      one
        ? letters(page, one, mayChange)
        : table(
            'By handler and cause, largest first',
            ['handler', 'cause', '#dead', 'first', 'last', 'sample'],
            groups.map(({ id: its, handler: name, pattern, dead: of, firstAt, lastAt, key }) => [
              html`<a href="/dead-letters?handler=${encodeURIComponent(name)}">${name}</a>`,
              html`<a href="/dead-letters?group=${its}" class="why">${pattern || 'without words'}</a>`,
              of,
              time(firstAt),
              time(lastAt),
              keyLink(key),
            ]),
            page
              ? 'No dead letters of this cause are left.'
              : 'No dead letters. What a handler gives up, or has no attempts left for, waits here.',
          )
    }
    ${one || handler !== undefined || waiting === 0 ? null : awaiting(waiting, mayChange, now, concurrency)}
    <p class="soft">
      Causes are errors without numbers, ids and quotes, but with codes; the 200 largest are shown, their first time is
      since they were last empty. Retried tasks run in the order of their lanes, with a new budget of attempts.
    </p>`;
}

export function jobOf({ id, action: what, state, done, of, moved }: Job, mayChange: boolean): Html {
  const verb = what === 'retry' ? 'Retry' : 'Discard';
  const end = {
    running: '',
    done: 'done',
    cancelled: 'cancelled: what was moved stays moved',
    failed: 'failed: see the log',
  }[state];
  if (state !== 'running')
    return html`<p class="job" id="job-${id}">${verb} ${id}: ${count(moved)} of ${count(of)} moved; ${end}.</p>`;
  return html`<div class="job" id="job-${id}">
    <label for="progress-${id}">${verb} ${id}: ${count(done)} of ${count(of)}</label>
    <progress id="progress-${id}" max="${of}" value="${done}"></progress>
    ${mayChange ? action('/dead-letters/cancel', 'Cancel', hidden('job', id)) : null}
  </div>`;
}

function sample({ handler, dead, pattern, error, firstAt, lastAt, key }: DeadGroup): Html {
  return html`<h2 class="why">${pattern || 'without words'}</h2>
    ${figures([
      { name: 'Handler', value: handler },
      { name: 'Dead letters', value: dead },
      { name: 'First', value: time(firstAt) },
      { name: 'Last', value: time(lastAt) },
      { name: 'The newest event', value: keyLink(key) },
    ])}
    ${
      error === null
        ? null
        : html`<h3>The error of the newest</h3>
            ${why(error)}`
    }`;
}

function letters(
  { tasks, next }: Awaited<ReturnType<Visit['reads']['tasks']>>,
  { id }: DeadGroup,
  mayChange: boolean,
): Html {
  return html`${table(
    'Dead letters of this cause, newest first',
    ['died', 'key', 'type', '#attempts', 'why', ''],
    tasks.map((task) => [
      time(task.finishedAt),
      keyLink(task.key),
      code(task.type),
      task.attempts,
      why(task.error ?? ''),
      mayChange
        ? action(
            '/dead-letters/retry',
            'Retry',
            html`${hidden('id', task.id)} ${hidden('to', `/dead-letters?group=${id}`)}`,
          )
        : '',
    ]),
    'None is left.',
  )}
  ${next === null ? null : html`<p class="pager"><a href="/dead-letters?group=${id}&before=${next}">Older</a></p>`}`;
}

/** Offers to run waiting tasks at once, for example after their handler was fixed. */
function awaiting(waiting: number, mayChange: boolean, now: number, concurrency: number): Html {
  return html`<h2>Not dead yet</h2>
    <p>
      <strong>${count(waiting)}</strong> ${waiting === 1 ? 'task waits' : 'tasks wait'} for their turn or for a retry
      within an hour. Once their handler is fixed, they can be retried at once, with a new budget of attempts.
    </p>
    ${
      mayChange
        ? html`<div class="fix">
            ${confirm('retry-waiting', 'Retry waiting tasks', html`${retryWords(waiting, concurrency)} ${action('/dead-letters/retry', `Retry ${waiting === 1 ? 'it' : `all ${count(waiting)}`} now`, html`${hidden('state', 'ready')} ${hidden('at', now)}`)}`)}
          </div>`
        : null
    }`;
}

/** `which` selects the tasks. The forms act on those that the page shows, not on those that die later. */
function fix(which: Html, dead: number, now: number, concurrency: number): Html {
  const all = dead === 1 ? 'it' : `all ${count(dead)}`;
  const these = html`${which} ${hidden('at', now)} ${hidden('count', dead)}`;
  const discard = html`${these} ${reason('reason-all')}`;
  return html`<div class="fix">
    ${confirm('retry-all', `Retry ${all}`, html`${retryWords(dead, concurrency)} ${action('/dead-letters/retry', `Retry ${all} now`, these)}`)}
    ${confirm('discard-all', `Discard ${all}`, html`${discardWords(dead)} ${action('/dead-letters/discard', `Discard ${all} for good`, discard, 'bad')}`)}
  </div>`;
}
