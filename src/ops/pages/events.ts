// The list of events with its search form. Pure functions without HTTP.
import { iso } from '../../base/clock.ts';
import type { EventFilter, ShownEvent } from '../../store/read.ts';
import { origin, taskState } from '../../admin/filters.ts';
import { html, type Html } from './shell/html.ts';
import { action, code, table, time } from './shell/parts.ts';

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
      A page looks through 10,000 events at most, or 5,000 if it searches the data for a message id. “Older” goes on.
    </p>`;
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
