// The events: searched, and one of them with what each handler did.
import { useState } from 'preact/hooks';
import { button, facts, field, html, isByPost, operationOf, shown, table, to, useApi } from './parts.js';

const LIMIT = 100;

function Data({ event }) {
  const { result, error } = useApi('explain', { event, data: true }, false);
  // Cursors are longer than a double.
  const exact = (_, value, { source }) => (typeof value === 'number' ? JSON.rawJSON(source) : value);
  const body = result?.body && JSON.stringify(JSON.parse(result.body, exact), null, 2);
  return html`<pre>${body ?? error ?? (result ? 'erased' : 'Reading …')}</pre>`;
}

const task = ({ handler, state, error, failures, key, ...of }) =>
  html`<section key=${handler}>
    <h2>${shown(handler, 'handler')} ${shown(state, 'state')} ${button('retry', { handler, event: key })}</h2>
    ${error && shown(error, 'error')} ${facts(of)} ${failures.length > 0 && table({ result: failures })}
  </section>`;

function Event({ name }) {
  const { result, error } = useApi('explain', { event: name });
  const [isOpen, setOpen] = useState(false);
  if (!result) return table({ error });
  const { type, key, ...event } = result.event;
  return html`
    <h1>${type} ${key}</h1>
    ${facts(event)}
    <p>${button('erase', { event: key })}</p>
    ${result.tasks.map(task)}
    ${result.notYetTakenUpBy.map((handler) => html`<h2>${shown(handler, 'handler')} has not taken it up yet</h2>`)}
    <details onToggle=${({ target }) => setOpen(target.open)}>
      <summary>Data</summary>
      ${isOpen && html`<${Data} event=${key} />`}
    </details>
  `;
}

function List({ args }) {
  const [hidden, setHidden] = useState({});
  const given = { ...args, ...hidden };
  const answer = useApi('events', { ...given, limit: LIMIT }, Object.keys(hidden).length === 0);
  const filters = operationOf('events').args.filter(({ name }) => name !== 'before' && name !== 'limit');
  function search(event) {
    event.preventDefault();
    const all = [...new FormData(event.target)].filter(([, value]) => value !== '');
    const { seen = [], unseen = [] } = Object.groupBy(all, ([name]) => (isByPost('events', name) ? 'unseen' : 'seen'));
    // A phone number must not stand in the location.
    setHidden(Object.fromEntries(unseen));
    location.hash = to('events', seen);
  }
  const columns = ['receivedAt', 'type', 'key', 'session', 'origin', 'deliveries'];
  const { result: rows = [] } = answer;
  const older = html`<a href=${to('events', { ...args, before: rows.at(-1)?.seq })}>Older</a>`;
  return html`
    <h1>Events</h1>
    <details open=${Object.keys(given).length > 0}>
      <summary>Search</summary>
      <form onSubmit=${search}>
        ${filters.map((arg) => field(arg, given[arg.name]))}
        <button>search</button>
      </form>
    </details>
    ${table(answer, { columns, empty: 'Events come here as they are delivered' })} ${rows.length === LIMIT && older}
  `;
}

export function Events({ args }) {
  const { event } = args;
  return event ? html`<${Event} key=${event} name=${event} />` : html`<${List} args=${args} />`;
}
