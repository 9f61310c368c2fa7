// Asks before tasks of selected events are changed: which ones, how many, at which pace, and what can repeat.
import { STEP } from '../../admin/in-steps.ts';
import { REPEATS } from '../../admin/tasks.ts';
import type { ShownTask } from '../../store/read.ts';
import type { Visit } from './shell/frame.ts';
import { html, type Html } from './shell/html.ts';
import { action, count, hidden, reason, table } from './shell/parts.ts';

/** As many events as a page of the list can have. */
const MOST = 500;

/** Each section is a form of its own. Tasks in the states `chosen` are checked from the start. */
const SECTIONS = {
  retry: [
    {
      title: 'Not done',
      button: 'Run these again',
      states: ['dead', 'ready', 'held', 'skipped'],
      chosen: /dead|ready/,
    },
    { title: 'Done already', button: 'Run done tasks again', states: ['done'], chosen: /done/ },
  ],
  discard: [
    { title: 'Not done', button: 'Discard these for good', states: ['ready', 'held', 'dead'], chosen: /ready|held/ },
  ],
};

export async function selectedScreen({ now, reads }: Visit, form: URLSearchParams, concurrency: number): Promise<Html> {
  const what = form.get('action') === 'discard' ? 'discard' : 'retry';
  const keys = form.getAll('event').slice(0, MOST);
  const tasks = (await Array.fromAsync(keys, (key) => reads.event(key, now))).flatMap((found) => found?.tasks ?? []);
  const from = form.get('to') ?? '';
  const to = from.startsWith('/events') ? from : '/events';
  const sections = SECTIONS[what].flatMap(({ title, button, states, chosen }) => {
    const some = tasks.filter(({ state }) => states.includes(state));
    if (some.length === 0) return [];
    const [words, more] =
      what === 'discard'
        ? [discardWords(some.length), reason('reason')]
        : [retryWords(some.length, concurrency), states[0] === 'done' ? hidden('state', 'done') : null];
    const fields = html`${rows(title, some, chosen)} ${words} ${hidden('at', now)} ${hidden('to', to)} ${more}`;
    return [
      html`<h2>${title}</h2>
        ${action(`/dead-letters/${what}`, button, fields, what === 'discard' ? 'bad' : '')}`,
    ];
  });
  return html`<div data-still>
    <p>${tasksOf(tasks.length)} of ${count(keys.length)} selected ${keys.length === 1 ? 'event' : 'events'}.</p>
    ${sections.length > 0 ? sections : html`<p class="empty">None of them can be changed in this way.</p>`}
    <p><a href="${to}">Back to the events</a></p>
  </div>`;
}

/** A row with a checkbox for each handler and state. */
function rows(caption: string, tasks: ShownTask[], chosen: RegExp): Html {
  const groups = Map.groupBy(tasks, ({ handler, state }) => `${state} ${handler}`);
  const lines = [...groups.values()].map((some) => {
    const { handler = '', state = '' } = some[0] ?? {};
    const mark = chosen.test(state) ? html`checked` : null;
    const ids = some.map(({ id }) => id).join(',');
    const box = html`<input type="checkbox" name="id" value="${ids}" aria-label="${handler}, ${state}" ${mark} />`;
    return [box, handler, html`<span class="state ${state}">${state}</span>`, some.length];
  });
  return table(caption, ['', 'handler', 'state', '#tasks'], lines, '');
}

/** What happens to the tasks that run again, and how fast. */
export function retryWords(most: number, concurrency: number): Html {
  return html`<p>
    At most ${tasksOf(most)} become due, in steps of ${STEP}; those that change meanwhile stay. Handlers run
    ${count(concurrency)} at once at most, in the order of their lanes and within their rates. ${REPEATS}
  </p>`;
}

export function discardWords(most: number): Html {
  return html`<p>
    At most ${tasksOf(most)} become skipped, in steps of ${STEP}; those that change meanwhile stay. No handler is called
    for them. Each can be retried later.
  </p>`;
}

function tasksOf(n: number): string {
  return `${count(n)} ${n === 1 ? 'task' : 'tasks'}`;
}
