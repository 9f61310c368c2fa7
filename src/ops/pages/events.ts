// The list of events with its search form.
import { iso } from '../../base/clock.ts';
import type { EventFilter, ListedEvent, Offers, ReadStore } from '../../store/read.ts';
import { eventFilterOf, origin, taskState } from '../../admin/filters.ts';
import { outcomesOf } from '../../admin/outcomes.ts';
import type { Visit } from './shell/frame.ts';
import { html, type Html } from './shell/html.ts';
import { action, code, hidden, table, time } from './shell/parts.ts';

export async function eventsScreen(
  { ctx, now, mayChange, mayReveal }: Visit,
  read: Pick<ReadStore, 'events' | 'offers'>,
): Promise<Html> {
  const filter = eventFilterOf(ctx.query);
  const [{ events, next }, offers] = [await read.events(filter, now), await read.offers()];
  const all = ctx.query['select'] === 'all';
  const { limit: _, before, ...asked } = filter;
  const query = queryOf(asked);
  const empty =
    next !== null
      ? 'None among these; older ones may match: look further.'
      : query || before
        ? html`No event matches. <a href="/events">All events</a>`
        : 'No event has come yet: register the webhook, or enable it if it is off, then send its test event. npx kit doctor checks the way.';
  return html`${filters(asked, offers, query !== '')}
    ${mayChange && events.length > 0 ? selection(queryOf({ ...asked, before }), all) : null}
    ${table(
      'Events, newest first',
      [...(mayChange ? [''] : []), 'received', 'key', 'type', 'outcome', 'session', 'origin', '#again'],
      events.map((event) => [
        ...(mayChange ? [checkbox(event.key, all)] : []),
        time(iso(event.receivedAt)),
        keyLink(event.key),
        code(event.type),
        outcome(event),
        event.sessionId === null
          ? null
          : html`<a href="/events?session=${encodeURIComponent(event.sessionId)}">${code(event.sessionId)}</a>`,
        whole(event.origin),
        event.copies,
      ]),
      empty,
      ['again', 'origin', 'session'],
    )}
    <p class="pager">
      ${before === undefined ? null : html`<a href="/events${query}">Newest</a>`}
      ${next === null ? null : html`<a href="/events${queryOf({ ...asked, before: next })}">Older</a>`}
      <a href="/events.ndjson${query}">Export all that match (NDJSON)</a>
    </p>
    ${mayReveal ? action(`/events.ndjson${query}`, 'Export with bodies: this is logged', null) : null}
    <p class="soft">
      A page looks through 10,000 events at most, or 5,000 if it searches the data for a message id. “Older” goes on.
    </p>`;
}

function filters(asked: Partial<EventFilter>, { types, sessions, handlers }: Offers, isSet: boolean): Html {
  return html`<details class="fold" id="filters" ${isSet ? html`open` : null}>
    <summary>Filters</summary>
    <form method="get" action="/events" class="filters" role="search">
      ${field('q', 'Search', asked.q, 'key, id, message id')} ${choice('type', 'Type', types, asked.type)}
      ${field('session', 'Session', asked.session, '', 'sessions')}
      <datalist id="sessions">${sessions.map((one) => html`<option value="${one}"></option>`)}</datalist>
      ${choice('origin', 'Origin', origin.options, asked.origin)}
      ${choice('handler', 'Handler', handlers, asked.handler)}
      ${choice('state', 'Task', taskState.options, asked.state)}
      ${choice('contradicted', 'Contradicted', ['yes'], asked.contradicted ? 'yes' : undefined)}
      ${choice('unseen', 'Not in replay', ['yes'], asked.unseen ? 'yes' : undefined)}
      ${moment('since', 'From (UTC)', asked.since)} ${moment('until', 'Before (UTC)', asked.until)}
      <span class="row"><button>Show</button> <a href="/events">Clear</a></span>
    </form>
  </details>`;
}

/** The form of the checkboxes. It leads to a page that asks before anything changes. */
function selection(query: string, all: boolean): Html {
  const every = all
    ? html`<a href="/events${query}">Select none</a>`
    : html`<a href="/events${query}${query ? '&' : '?'}select=all">Select all on this page</a>`;
  return html`<form id="selected" class="row selection" method="post" action="/events/selected/tasks">
    ${hidden('to', `/events${query}`)} ${every} <button name="action" value="retry">Run again…</button>
    <button name="action" value="discard">Discard waiting…</button>
  </form>`;
}

function checkbox(key: string, checked: boolean): Html {
  return html`<input
    type="checkbox"
    form="selected"
    name="event"
    value="${key}"
    aria-label="Select ${key}"
    ${checked ? html`checked` : null}
  />`;
}

function outcome(event: ListedEvent): Html {
  const all = outcomesOf(event).map(({ state, words }) => html`<span class="state ${state}">${words}</span> `);
  return all.length > 0 ? html`${all}` : html`<span class="none">no task</span>`;
}

export function linkOf(key: string): string {
  return `/events/${encodeURIComponent(key)}`;
}

export function keyLink(key: string): Html {
  return html`<a href="${linkOf(key)}">${code(key)}</a>`;
}

/** Shows the beginning of an error, and the rest on demand, so that a long error does not stretch the table. */
export function why(error: string): Html {
  if (error.length <= 160) return html`<span class="why">${error}</span>`;
  return html`<details>
    <summary class="why">${error.slice(0, 160)}…</summary>
    <pre>${error}</pre>
  </details>`;
}

export function whole(text: string): Html {
  return html`<span class="whole">${text}</span>`;
}

/** `list`: the id of the values that it offers. */
function field(name: string, label: string, value: string | undefined, hint = '', list = ''): Html {
  return html`<label
    >${label}
    <input
      name="${name}"
      value="${value ?? ''}"
      placeholder="${hint}"
      list="${list}"
      maxlength="200"
      autocomplete="off"
  /></label>`;
}

/** The value is offered even if it is not among the options, so that an address keeps its meaning. */
function choice(name: string, label: string, options: string[], value: string | undefined): Html {
  const offered = value === undefined || options.includes(value) ? options : [value, ...options];
  return html`<label
    >${label}
    <select name="${name}">
      <option value="">any</option>
      ${offered.map((one) => html`<option ${one === value ? html`selected` : null}>${one}</option>`)}
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
