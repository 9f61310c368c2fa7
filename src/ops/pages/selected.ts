// Asks before tasks of selected events are changed: which ones, how many, at which pace, and what can repeat.
import { STEP } from '../../admin/in-steps.ts';
import { REPEATS, type Action } from '../../admin/tasks.ts';
import type { ShownTask } from '../../store/read.ts';
import { html, type Html } from './shell/html.ts';
import { action, count, hidden, reason, table } from './shell/parts.ts';

export interface Selected {
  action: Action;
  /** The number of selected events, and their tasks. */
  events: number;
  tasks: ShownTask[];
  /** The address of the list. */
  to: string;
  now: number;
  concurrency: number;
}

/** The states that an action offers. Those in `chosen` are checked from the start. */
const OFFERED = {
  retry: { states: ['dead', 'ready', 'held', 'skipped'], chosen: ['dead', 'ready'] },
  discard: { states: ['ready', 'held', 'dead'], chosen: ['ready', 'held'] },
};

export function selectedScreen({ action: what, events, tasks, to, now, concurrency }: Selected): Html {
  const { states, chosen } = OFFERED[what];
  const open = tasks.filter(({ state }) => states.includes(state));
  const done = what === 'retry' ? tasks.filter(({ state }) => state === 'done') : [];
  const back = html`<p><a href="${to}">Back to the events</a></p>`;
  if (open.length + done.length === 0)
    return html`<p class="empty">
        ${events === 0 ? 'No event is selected.' : 'These events have no task that this would change.'}
      </p>
      ${back}`;
  const ids = html`${hidden('at', now)} ${hidden('to', to)}`;
  const again = (some: ShownTask[], button: string, more: Html | null, checked: string[]): Html =>
    action(
      '/dead-letters/retry',
      button,
      html`${rows(checked.includes('done') ? 'Done tasks by handler' : 'Tasks by handler', some, checked)}
      ${retryWords(some.length, concurrency)} ${ids} ${more}`,
    );
  return html`<div data-still>
    <p>
      ${tasksOf(tasks.length)} of ${count(events)} ${events === 1 ? 'event' : 'events'}. Tasks that change meanwhile
      stay as they are.
    </p>
    ${
      open.length === 0
        ? null
        : what === 'retry'
          ? again(open, 'Run these again', null, chosen)
          : action(
              '/dead-letters/discard',
              'Discard these for good',
              html`${rows('Tasks by handler', open, chosen)} ${discardWords(open.length)} ${ids} ${reason('reason')}`,
              'bad',
            )
    }
    ${
      done.length === 0
        ? null
        : html`<h2>Done already</h2>
            ${again(done, 'Run done tasks again', hidden('state', 'done'), ['done'])}`
    }
    ${back}
  </div>`;
}

/** A row with a checkbox for each handler and state. */
function rows(caption: string, tasks: ShownTask[], checked: string[]): Html {
  const groups = Map.groupBy(tasks, ({ handler, state }) => `${state} ${handler}`);
  return table(
    caption,
    ['', 'handler', 'state', '#tasks'],
    [...groups.values()].flatMap((some) => {
      const [{ handler, state } = { handler: '', state: '' }] = some;
      const ids = some.map(({ id }) => id).join(',');
      const mark = checked.includes(state) ? html`checked` : null;
      return [
        [
          html`<input type="checkbox" name="id" value="${ids}" aria-label="${handler}, ${state}" ${mark} />`,
          handler,
          html`<span class="state ${state}">${state}</span>`,
          some.length,
        ],
      ];
    }),
    '',
  );
}

/** What happens to the tasks that run again, and how fast. The steps are those of admin/in-steps.ts. */
export function retryWords(most: number, concurrency: number): Html {
  return html`<p>
    At most ${tasksOf(most)} become due, in steps of ${STEP}. Handlers run ${count(concurrency)} at once at most, in the
    order of their lanes and within their rates. ${REPEATS}
  </p>`;
}

export function discardWords(most: number): Html {
  return html`<p>
    At most ${tasksOf(most)} become skipped, in steps of ${STEP}. No handler is called for them. Each can be retried
    later.
  </p>`;
}

function tasksOf(n: number): string {
  return `${count(n)} ${n === 1 ? 'task' : 'tasks'}`;
}
