// The screen of one event: timeline, tasks with their neighbours in the lane, and body.
import { iso } from '../../base/clock.ts';
import { CONFLICTS, type ReadStore, type ShownTask } from '../../store/read.ts';
import { REPEATS } from '../../admin/tasks.ts';
import { NOT_KEPT, rivalOf, timelineOf, type Found } from '../../admin/timeline.ts';
import { copiesOf, maskedOf, type Copies } from '../../admin/copies.ts';
import { keyLink, linkOf, whole, why } from './events.ts';
import type { Visit } from './shell/frame.ts';
import { html, type Html } from './shell/html.ts';
import { action, code, confirm, figures, hidden, reason, table, time } from './shell/parts.ts';

const PURGED = html`<p class="empty">Purged: only the facts above are left.</p>`;
const ERASED = html`<p class="empty">Erased by npx kit erase: only the facts above are left.</p>`;

export async function eventScreen(
  { ctx, now, reads, mayChange, mayReveal }: Visit,
  read: Pick<ReadStore, 'body' | 'neighbours'>,
  isRevealed: boolean,
): Promise<Html | undefined> {
  const found = await reads.event(ctx['params']['key'] ?? '', now);
  if (!found) return undefined;
  const { event, tasks } = found;
  const body = await read.body(event.key);
  const inLanes = tasks.filter(({ lane }) => lane !== null);
  const lanes = await Promise.all(inLanes.map(async (task) => inLane(task, await read.neighbours(task.id, now))));
  return html`${summary(found)}
    <h2>Timeline</h2>
    ${table(
      'What happened',
      ['at (UTC)', 'what', 'detail', 'why'],
      timelineOf(found).map(({ at, what, detail, error }) => [
        html`<time datetime="${at}">${at.slice(0, 23).replace('T', ' ')}</time>`,
        whole(what),
        detail,
        error === null ? '' : why(error),
      ]),
      '',
    )}
    <p class="soft">${NOT_KEPT}</p>
    <h2>Tasks</h2>
    ${table(
      'Tasks',
      ['handler', 'state', '#attempts', 'lane', 'due', ''],
      tasks.map((task) => [
        task.handler,
        state(task),
        task.attempts,
        code(task.lane),
        time(task.dueAt),
        mayChange ? fixTask(task) : '',
      ]),
      'No task: no handler was there for its type, it was erased before, or run has not read it yet.',
    )}
    ${lanes}
    <h2>Body</h2>
    ${body === null ? (found.erased ? ERASED : PURGED) : isRevealed ? inClear(event.key, copiesOf(event, body)) : inShape(event.key, maskedOf(body), mayReveal)}`;
}

function summary({ event, aliases, conflicts }: Found): Html {
  const rival = rivalOf(event);
  const most = conflicts.length < CONFLICTS ? conflicts.length : `${CONFLICTS} and more`;
  const contradicted = { name: 'Contradicted', value: most, tone: 'warn' as const };
  return html`${figures([
      { name: 'Key', value: code(event.key) },
      { name: 'Type', value: code(event.type) },
      { name: 'Happened', value: time(iso(event.createdAt)) },
      { name: 'Received', value: time(iso(event.receivedAt)), note: `by ${event.origin}` },
      { name: 'Came again', value: event.copies },
      ...(conflicts.length > 0 ? [contradicted] : []),
    ])}
    <p>
      Id ${code(event.id)}, cursor ${code(event.cursor)}, session ${code(event.sessionId)}
      ${event.flags ? html`; odd: ${event.flags}` : null}
      ${aliases.length > 0 ? html`; also known as ${aliases.map((name) => html`${code(name)} `)}` : null}
      ${rival === null ? null : html`; its cursor was that of ${keyLink(rival)} before`}
    </p>`;
}

function inLane(task: ShownTask, { earlier, later }: Record<'earlier' | 'later', ShownTask[]>): Html {
  return html`<h3>Its neighbours in the lane of ${task.handler}, by cursor</h3>
    ${table(
      `Neighbours in the lane of ${task.handler}, by cursor`,
      ['', 'key', 'type', 'state'],
      [
        ...earlier.map((one) => [whole('before'), keyLink(one.key), code(one.type), state(one)]),
        [whole('this'), code(task.key), code(task.type), state(task)],
        ...later.map((one) => [whole('after'), keyLink(one.key), code(one.type), state(one)]),
      ],
      '',
    )}`;
}

function inClear(key: string, { text, curl, fixture }: Copies): Html {
  return html`<div data-still>
    <p class="soft">
      Revealed, and logged. This page is not refreshed meanwhile.
      <a href="${linkOf(key)}">Mask it again</a>
    </p>
    ${block('As received', text)} ${block('As curl', curl)} ${block('As a fixture of #kit/testing', fixture)}
  </div>`;
}

function inShape(key: string, masked: string, mayReveal: boolean): Html {
  return html`${block('Its shape', masked)}
  ${
    mayReveal
      ? action(`${linkOf(key)}/body`, 'Reveal the body: this is logged', null)
      : html`<p class="soft">Revealing it, and copying it as curl or as a fixture, needs OPS_TOKEN.</p>`
  }`;
}

function fixTask(task: ShownTask): Html {
  const ids = html`${hidden('id', task.id)} ${hidden('to', linkOf(task.key))}`;
  if (task.state === 'done')
    return confirm(
      `again-${task.id}`,
      'Run again',
      html`<p>${REPEATS}</p>
        ${action('/dead-letters/retry', 'Run it again', html`${ids} ${hidden('state', 'done')}`)}`,
    );
  if (!['dead', 'skipped', 'ready'].includes(task.state)) return html``;
  const discard = action('/dead-letters/discard', 'Discard it', html`${ids} ${reason(`reason-${task.id}`)}`, 'bad');
  return html`${action('/dead-letters/retry', 'Retry', ids)}
  ${task.state === 'skipped' ? null : confirm(`discard-${task.id}`, 'Discard', discard)}`;
}

function state(task: ShownTask): Html {
  return html`<span class="state ${task.state}">${task.state}</span>${task.late ? ' late' : null}`;
}

function block(title: string, text: string): Html {
  return html`<h3>${title} <button type="button" class="copy" aria-label="Copy: ${title}">Copy</button></h3>
    <pre tabindex="0">${text}</pre>`;
}
