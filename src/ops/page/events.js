// The events with their search, and the view of one event with what each handler did.
import { useState } from 'preact/hooks';
import { argumentsOf, isByPost, useApi } from './api.js';
import { button, facts, field, html, shown, table, to } from './parts.js';

const LIMIT = 100;

const task = ({ handler, key, state, error, failures, waitsFor, attempts, endedAt, late }) =>
  html`<section key=${handler}>
    <h2>${shown(handler, 'handler')} ${shown(state, 'state')} ${button('retry', { handler, event: key })}</h2>
    ${error && shown(error, 'error')} ${facts({ waitsFor, attempts, endedAt, late })}
    ${failures.length > 0 && table({ result: failures })}
  </section>`;

function Event({ name }) {
  const { result, error } = useApi('explain', { event: name });
  if (!result) return [html`<h1>${name}</h1>`, table({ error })];
  const { type, key, outcomes: _, ...event } = result.event;
  return html`
    <h1>${type} ${key}</h1>
    ${facts(event)}
    <p>${button('explain', { event: key, data: true }, 'data')} ${button('erase', { event: key })}</p>
    ${result.tasks.map(task)}
    ${result.notYetTakenUpBy.map((handler) => html`<h2>${shown(handler, 'handler')} has not taken up the event</h2>`)}
  `;
}

function List({ args }) {
  const [hidden, setHidden] = useState({});
  const given = { ...args, ...hidden };
  const answer = useApi('events', { ...given, limit: LIMIT }, Object.keys(hidden).length === 0);
  const filters = argumentsOf('events').filter(({ name }) => name !== 'before' && name !== 'limit');
  function search(event) {
    event.preventDefault();
    const all = [...new FormData(event.target)].filter(([, value]) => value !== '');
    const { seen = [], unseen = [] } = Object.groupBy(all, ([name]) => (isByPost('events', name) ? 'unseen' : 'seen'));
    // A phone number must not be in the page's URL.
    setHidden(Object.fromEntries(unseen));
    location.hash = to('events', seen);
  }
  const columns = ['receivedAt', 'type', 'key', 'session', 'origin', 'outcomes'];
  const before = answer.result?.[LIMIT - 1]?.seq;
  return html`
    <h1>Events</h1>
    <details open=${Object.keys(given).length > 0}>
      <summary>Search</summary>
      <form onSubmit=${search}>
        ${filters.map((arg) => field(arg, given[arg.name]))}
        <button>search</button>
      </form>
    </details>
    ${table(answer, { columns, empty: 'No events found' })}
    ${before && html`<a href=${to('events', { ...args, before })}>Older</a>`}
  `;
}

export const Events = ({ args }) =>
  args.event ? html`<${Event} key=${args.event} name=${args.event} />` : html`<${List} args=${args} />`;
