// The parts of every view. Names, words and remedies come from the API: nothing here knows an operation.
import htm from 'htm';
import { h } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, operations } from './api.js';

const UNITS = Object.entries({ day: 86_400_000, hour: 3_600_000, minute: 60_000, second: 1_000 });
const WORDS = new Intl.RelativeTimeFormat('en', { style: 'short' });

/** Text of strangers may hold invisible characters, or ones that reorder a line. Their numbers are shown instead. */
function plain(child) {
  if (Array.isArray(child)) return child.map(plain);
  if (typeof child !== 'string') return child;
  const unseen = /[[\p{Cc}\p{Cf}\u2028\u2029]--[\t\n\u200c\u200d]]/gv;
  return child.replaceAll(unseen, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

export const html = htm.bind((type, props, ...children) => h(type, props, ...children.map(plain)));

export const to = (view, args) => `#${view}?${new URLSearchParams(args)}`;

// A cursor may have more digits than a JavaScript number keeps.
const exact = (_, value, { source }) => (typeof value === 'number' ? JSON.rawJSON(source) : value);

/** How fields with these names look in every view. */
const FIELDS = {
  key: (key) => html`<a href=${to('events', { event: key })}>${key}</a>`,
  session: (session) => html`<a href=${to('events', { session })}>${session}</a>`,
  handler: (handler) => html`<a href=${to('handlers', { handler })}>${handler}</a>`,
  state: (state) => html`<span class=${`state ${state}`}>${state}</span>`,
  outcomes: (all) => Object.entries(all).map(([handler, state]) => html`<div>${handler} ${FIELDS.state(state)}</div>`),
  error: (error) => html`<pre>${error}</pre>`,
  body: (body) => html`<pre>${JSON.stringify(JSON.parse(body, exact), null, 2)}</pre>`,
};

/** Any value of a result, for people. `name`: the name of its field. Times are UTC. */
export function shown(value, name) {
  if (value === null || value === undefined) return null;
  if (FIELDS[name]) return FIELDS[name](value);
  if (Array.isArray(value)) return typeof value[0] === 'object' ? table({ result: value }) : value.join(', ');
  if (typeof value === 'object') return facts(value);
  if (typeof value === 'number') return value.toLocaleString('en');
  return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ? time(value) : String(value);
}

function time(at) {
  const ms = Date.parse(at) - Date.now();
  const [unit, size] = UNITS.find(([, length]) => Math.abs(ms) >= length) ?? UNITS.at(-1);
  const distance = WORDS.format(Math.round(ms / size), unit);
  return html`<time datetime=${at}>${at.slice(0, 19).replace('T', ' ')}Z <small>${distance}</small></time>`;
}

const worded = (name) => name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** An object, as its names and values. */
export function facts(of) {
  const fact = ([name, value]) => html`<div><small>${worded(name)}</small> ${shown(value, name) ?? '–'}</div>`;
  return html`<div class="facts">${Object.entries(of).map(fact)}</div>`;
}

/** Rows as `useApi` gives them. Default of `columns`: all that are not empty. `actions`: the buttons of a row. */
export function table({ result: rows, error }, { columns, actions, empty = 'Nothing' } = {}) {
  const failure = error && html`<p class="critical">${error}</p>`;
  if (!rows?.length) return failure || html`<p class="empty">${rows ? empty : 'Reading …'}</p>`;
  const filled = Object.keys(rows[0]).filter((name) => rows.some((row) => row[name] !== null));
  const names = [...(columns ?? filled), ...(actions ? ['actions'] : [])];
  const head = (name) => html`<th scope="col">${worded(name)}</th>`;
  const cell = (name, one) =>
    html`<td data-name=${worded(name)}>${name === 'actions' ? actions(one) : shown(one[name], name)}</td>`;
  const row = (one, n) =>
    h('tr', { key: `${one.key ?? one.name ?? one.id ?? n} ${one.handler}` }, ...names.map((name) => cell(name, one)));
  return html`${failure}
    <table>
      ${h('tr', {}, ...names.map(head))} ${rows.map(row)}
    </table>`;
}

let open;
export const onOpen = (listener) => (open = listener);

/** A button that opens the dialog of an operation. */
export const button = (name, args = {}, label = name) =>
  html`<button type="button" onClick=${() => open({ name, args })}>${label}</button>`;

/** The input of an argument, from its description by the API. */
export function field({ name, kind, choices, required, about }, value) {
  const same = { name, required, autocomplete: 'off' };
  const option = (choice) => h('option', { selected: choice === value }, choice);
  const special = {
    choice: () => h('select', same, ['', ...choices].map(option)),
    flag: () => h('input', { ...same, type: 'checkbox', value: 'true', defaultChecked: value }),
  };
  const input = special[kind]?.() ?? h('input', { ...same, type: kind, defaultValue: value });
  return html`<label>${worded(name)} ${input} <small>${about}</small></label>`;
}

/** An operation: its arguments and its result. It runs at once if it changes nothing and lacks no required argument. */
export function Dialog({ name, args, onClose }) {
  const { about, access, args: known } = operations.find((one) => one.name === name);
  const form = useRef();
  const [{ result, error, isBusy }, setAnswer] = useState({});
  async function run(event) {
    event.preventDefault();
    setAnswer({ isBusy: true });
    setAnswer(await call(name, { ...Object.fromEntries(new FormData(event.target)), ...args }));
  }
  useEffect(() => {
    form.current.parentNode.showModal();
    if (access !== 'change' && form.current.checkValidity()) form.current.requestSubmit();
  }, []);
  return html`<dialog onClose=${onClose} aria-label=${name}>
    <form ref=${form} onSubmit=${run}>
      <p><b>${name}</b>: ${about}</p>
      ${Object.entries(args).map(([arg, value]) => html`<pre>${worded(arg)}: ${String(value)}</pre>`)}
      ${known.filter((one) => !Object.hasOwn(args, one.name)).map((one) => field(one))}
      <p>
        <button disabled=${isBusy}>${name}</button>
        <button type="button" onClick=${() => form.current.parentNode.close()}>close</button>
      </p>
      <div role="status">${error ? html`<p class="critical">${error}</p>` : shown(result)}</div>
    </form>
  </dialog>`;
}

/** The view of all operations, so that the page lacks none. */
export const Actions = () =>
  html`<h1>All actions</h1>
    ${table({ result: operations }, { columns: ['name', 'about', 'access'], actions: ({ name }) => button(name) })}`;
