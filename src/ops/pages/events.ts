// Events and one event: did X arrive, and what became of it? Functions of data; nothing here knows HTTP.
import { iso } from '../../base/clock.ts';
import { CONFLICTS, type EventFilter, type ShownEvent, type ShownTask } from '../../store/read.ts';
import { NOT_KEPT, rivalOf, timelineOf, type Found } from '../../admin/timeline.ts';
import type { Copies } from '../../admin/copies.ts';
import { origin, taskState } from '../../admin/filters.ts';
import { html, type Html } from './shell/html.ts';
import { action, code, figures, hidden, reason, table, time } from './shell/parts.ts';

export interface EventsPage {
  filter: EventFilter;
  events: ShownEvent[];
  next: number | null;
}

export function eventsScreen({ filter, events, next }: EventsPage, revealing: boolean): Html {
  const { limit: _, before, ...asked } = filter;
  const query = queryOf(asked);
  const empty =
    next !== null
      ? 'None among these; older ones may match: look further.'
      : query || before
        ? html`No event matches. <a href="/events">All events</a>`
        : 'No event has come yet: register the webhook, then send its test event. npx kit doctor checks the way.';
  return html`<form method="get" action="/events" class="filters" role="search">
      ${field('q', 'Search', asked.q, 'key, id, message id')} ${field('type', 'Type', asked.type)}
      ${field('session', 'Session', asked.session)} ${choice('origin', 'Origin', origin.options, asked.origin)}
      ${field('handler', 'Handler', asked.handler)} ${choice('state', 'Task', taskState.options, asked.state)}
      ${choice('contradicted', 'Contradicted', ['yes'], asked.contradicted ? 'yes' : undefined)}
      ${moment('since', 'From (UTC)', asked.since)} ${moment('until', 'Before (UTC)', asked.until)}
      <span class="row"><button>Show</button> <a href="/events">Clear</a></span>
    </form>
    ${table(
      'Events, newest first',
      ['received', 'key', 'type', 'session', 'origin', '#again'],
      events.map((event) => [
        time(iso(event.receivedAt)),
        keyLink(event.key),
        code(event.type),
        event.sessionId === null
          ? null
          : html`<a href="/events?session=${encodeURIComponent(event.sessionId)}">${code(event.sessionId)}</a>`,
        whole(event.origin),
        event.copies,
      ]),
      empty,
    )}
    <p class="pager">
      ${before === undefined ? null : html`<a href="/events${query}">Newest</a>`}
      ${next === null ? null : html`<a href="/events${queryOf({ ...asked, before: next })}">Older</a>`}
      <a href="/events.ndjson${query}">Export all that match (NDJSON)</a>
    </p>
    ${revealing ? action(`/events.ndjson${query}`, 'Export with bodies: this is logged', null) : null}
    <p class="soft">
      A page looks through 10,000 events at the most, 5,000 where the data is searched for a message id; “Older” goes
      on.
    </p>`;
}

export interface EventPage {
  found: Found;
  /** By task. */
  neighbours: { task: ShownTask; earlier: ShownTask[]; later: ShownTask[] }[];
  /** Null once purged. */
  masked: string | null;
  revealed: Copies | undefined;
}

export function eventScreen(
  { found, neighbours, masked, revealed }: EventPage,
  may: { change: boolean; reveal: boolean },
): Html {
  const { event, aliases, conflicts, tasks } = found;
  const rival = rivalOf(event);
  return html`${figures([
      { name: 'Key', value: code(event.key) },
      { name: 'Type', value: code(event.type) },
      { name: 'Happened', value: time(iso(event.createdAt)) },
      { name: 'Received', value: time(iso(event.receivedAt)), note: `by ${event.origin}` },
      { name: 'Came again', value: event.copies },
      ...(conflicts.length > 0
        ? [
            {
              name: 'Contradicted',
              value: conflicts.length < CONFLICTS ? conflicts.length : `${CONFLICTS} and more`,
              tone: 'warn' as const,
            },
          ]
        : []),
    ])}
    <p>
      Id ${code(event.id)}, cursor ${code(event.cursor)}, session ${code(event.sessionId)}
      ${event.flags ? html`; odd: ${event.flags}` : null}
      ${aliases.length > 0 ? html`; also known as ${aliases.map((name) => html`${code(name)} `)}` : null}
      ${rival === null ? null : html`; its cursor was that of ${keyLink(rival)} before`}
    </p>
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
        may.change && ['dead', 'skipped', 'ready'].includes(task.state) ? mendTask(task) : '',
      ]),
      'No task: no handler was there for its type, it was erased before, or run has not read it yet.',
    )}
    ${neighbours.map(
      ({ task, earlier, later }) =>
        html`<h3>Its neighbours in the lane of ${task.handler}, by cursor</h3>
          ${table(
            `Neighbours in the lane of ${task.handler}, by cursor`,
            ['', 'key', 'type', 'state'],
            [
              ...earlier.map((one) => [whole('before'), keyLink(one.key), code(one.type), state(one)]),
              [whole('this'), code(task.key), code(task.type), state(task)],
              ...later.map((one) => [whole('after'), keyLink(one.key), code(one.type), state(one)]),
            ],
            '',
          )}`,
    )}
    <h2>Body</h2>
    ${
      masked === null
        ? html`<p class="empty">Purged: only what is said above is left.</p>`
        : revealed
          ? html`<div data-still>
              <p class="soft">
                Revealed, and logged. This page is not refreshed meanwhile.
                <a href="${linkOf(event.key)}">Mask it again</a>
              </p>
              ${block('As received', revealed.text)} ${block('As curl', revealed.curl)}
              ${block('As a fixture of #kit/testing', revealed.fixture)}
            </div>`
          : html`${block('Its shape', masked)}
            ${
              may.reveal
                ? action(`${linkOf(event.key)}/body`, 'Reveal the body: this is logged', null)
                : html`<p class="soft">Revealing it, and copying it as curl or as a fixture, needs OPS_TOKEN.</p>`
            }`
    }`;
}

function mendTask(task: ShownTask): Html {
  const ids = html`${hidden('id', task.id)} ${hidden('to', linkOf(task.key))}`;
  return html`${action('/dead-letters/retry', 'Retry', ids)}
  ${
    task.state === 'skipped'
      ? null
      : html`<details id="discard-${task.id}">
          <summary>Discard</summary>
          ${action('/dead-letters/discard', 'Discard it', html`${ids} ${reason(`reason-${task.id}`)}`, 'bad')}
        </details>`
  }`;
}

export function linkOf(key: string): string {
  return `/events/${encodeURIComponent(key)}`;
}

export function keyLink(key: string): Html {
  return html`<a href="${linkOf(key)}">${code(key)}</a>`;
}

/** The beginning; the rest on demand, so that nobody's ten thousand characters push a table apart. */
export function why(error: string): Html {
  if (error.length <= 160) return html`<span class="why">${error}</span>`;
  return html`<details>
    <summary class="why">${error.slice(0, 160)}…</summary>
    <pre>${error}</pre>
  </details>`;
}

function state(task: ShownTask): Html {
  return html`<span class="state ${task.state}">${task.state}</span>${task.late ? ' late' : null}`;
}

function whole(text: string): Html {
  return html`<span class="whole">${text}</span>`;
}

function block(title: string, text: string): Html {
  return html`<h3>${title} <button type="button" class="copy" aria-label="Copy: ${title}">Copy</button></h3>
    <pre tabindex="0">${text}</pre>`;
}

function field(name: string, label: string, value: string | undefined, hint = ''): Html {
  return html`<label
    >${label} <input name="${name}" value="${value ?? ''}" placeholder="${hint}" maxlength="200" autocomplete="off"
  /></label>`;
}

function choice(name: string, label: string, options: string[], value: string | undefined): Html {
  return html`<label
    >${label}
    <select name="${name}">
      <option value="">any</option>
      ${options.map((one) => html`<option ${one === value ? html`selected` : null}>${one}</option>`)}
    </select></label
  >`;
}

function moment(name: string, label: string, ms: number | undefined): Html {
  const value = iso(ms ?? null)?.slice(0, 16) ?? '';
  return html`<label>${label} <input type="datetime-local" name="${name}" value="${value}" /></label>`;
}

function queryOf(filter: Partial<EventFilter>): string {
  const { since, until, ...rest } = filter;
  const given = { ...rest, since: iso(since ?? null), until: iso(until ?? null) };
  const pairs = Object.entries(given).flatMap(([name, value]) =>
    value == null ? [] : [[name, String(value)] as [string, string]],
  );
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs).toString()}`;
}
