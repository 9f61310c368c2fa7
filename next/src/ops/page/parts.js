// The parts of every view. Names, words and remedies come from the API: nothing here knows an operation.
import htm from 'htm';
import { h, isValidElement } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

const EVERY_MS = 2_000;
const UNITS = Object.entries({ day: 86_400_000, hour: 3_600_000, minute: 60_000, second: 1_000 });
const distance = new Intl.RelativeTimeFormat('en', { style: 'short' });

/** What strangers wrote may hold characters that nobody sees, or that turn a line round: their numbers are shown. */
function plain(child) {
  if (Array.isArray(child)) return child.map(plain);
  if (typeof child !== 'string') return child;
  const unseen = /[[\p{Cc}\p{Cf}\u2028\u2029]--[\t\n\u200c\u200d]]/gv;
  return child.replaceAll(unseen, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);
}

export const html = htm.bind((type, props, ...children) => h(type, props, ...children.map(plain)));

/** As `GET /api` describes them. They are there before the first view is. */
let operations = [];
export const operationOf = (name) => operations.find((one) => one.name === name);
export const isByPost = (name, arg) => operationOf(name).args.some((one) => one.name === arg && one.byPost);

/** Gives `{ result, at }`, or an `{ error }` in words. With a body it is a POST. */
export async function ask(path, body) {
  const json = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  const answer = await fetch(path, body ? json : { signal: AbortSignal.timeout(10_000) }).catch(() => null);
  const result = await answer?.json().catch(() => null);
  if (answer?.ok) return { result, error: null, at: new Date().toISOString() };
  return { error: result?.error ?? 'The kit does not answer' };
}

/** Asks for an operation, by GET where that is enough. */
export async function call(name, args) {
  if (operations.length === 0) ({ result: operations = [] } = await ask('/api'));
  const given = Object.entries(args).filter(([, value]) => value !== '');
  const isGet = operationOf(name)?.reads && !given.some(([arg]) => isByPost(name, arg));
  return isGet ? ask(`/api/${name}?${new URLSearchParams(given)}`) : ask(`/api/${name}`, Object.fromEntries(given));
}

/** The answer, renewed while the page is seen. An `error` beside a `result`: it could not be renewed. */
export function useApi(name, args = {}, isLive = true) {
  const [answer, setAnswer] = useState({});
  useEffect(() => {
    const watch = { timer: 0, ended: false };
    async function look() {
      const began = Date.now();
      const news = document.hidden ? {} : await call(name, args);
      if (watch.ended) return;
      setAnswer((old) => ({ ...old, ...news }));
      // A search through a large store must not keep the kit busy.
      if (isLive) watch.timer = setTimeout(look, Math.max(EVERY_MS, 10 * (Date.now() - began)));
    }
    void look();
    return () => {
      watch.ended = true;
      clearTimeout(watch.timer);
    };
  }, [name, JSON.stringify(args), isLive]);
  return answer;
}

export const to = (view, args) => `#${view}?${new URLSearchParams(args)}`;

/** Fields that look the same wherever they come. */
const FIELDS = {
  key: (key) => html`<a href=${to('events', { event: key })}>${key}</a>`,
  session: (session) => html`<a href=${to('events', { session })}>${session}</a>`,
  handler: (handler) => html`<a href=${to('handlers', { handler })}>${handler}</a>`,
  state: (state) => html`<span class=${`state ${state}`}>${state}</span>`,
  error: (error) => html`<pre>${error}</pre>`,
};

/** Any result, for people. Times are UTC. */
export function shown(value, name) {
  if (value === null || value === undefined) return '–';
  if (FIELDS[name]) return FIELDS[name](value);
  if (isValidElement([value].flat()[0])) return value;
  if (Array.isArray(value)) return typeof value[0] === 'object' ? table({ result: value }) : value.join(', ');
  if (typeof value === 'object') return facts(value);
  if (typeof value === 'number') return value.toLocaleString('en');
  return /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ? time(value) : String(value);
}

export function time(at) {
  const ms = Date.parse(at) - Date.now();
  const [unit, size] = UNITS.find(([, length]) => Math.abs(ms) >= length) ?? UNITS.at(-1);
  const stamp = at.replace('T', ' ').replace(/\.\d+/, '');
  return html`<time datetime=${at}>${stamp} <small>${distance.format(Math.round(ms / size), unit)}</small></time>`;
}

const worded = (name) => name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

export function facts(of) {
  const fact = ([name, value]) =>
    html`<div>
      <dt>${worded(name)}</dt>
      <dd>${shown(value, name)}</dd>
    </div>`;
  return html`<dl>${Object.entries(of).map(fact)}</dl>`;
}

/** Rows as `useApi` gives them. Default of `columns`: all that are not empty. `actions`: what a row offers. */
export function table({ result: rows, error }, { columns, actions, empty = 'Nothing' } = {}) {
  if (!rows?.length) return html`<p class=${error ? 'critical' : 'empty'}>${error ?? (rows ? empty : 'Reading …')}</p>`;
  const filled = Object.keys(rows[0]).filter((name) => rows.some((row) => row[name] !== null));
  const names = [...(columns ?? filled), ...(actions ? [''] : [])];
  const row = (one, n) =>
    html`<tr key=${one.key ?? one.name ?? one.id ?? n}>
      ${names.map((name) => html`<td data-name=${worded(name)}>${name ? shown(one[name], name) : actions(one)}</td>`)}
    </tr>`;
  return html`
    ${error && html`<p class="critical">${error}</p>`}
    <table>
      <thead>
        <tr>
          ${names.map((name) => html`<th scope="col">${worded(name)}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(row)}
      </tbody>
    </table>
  `;
}

let open;
export const onOpen = (listener) => (open = listener);

/** Opens the dialog of an operation. */
export const button = (name, args = {}, label = name) =>
  html`<button type="button" onClick=${() => open({ name, args })}>${label}</button>`;

/** An argument, as the API describes it. */
export function field({ name, kind, choices, required, about }, value) {
  const type = { flag: 'checkbox', number: 'number' }[kind] ?? 'text';
  const initial = kind === 'flag' ? { value: 'true', defaultChecked: value } : { defaultValue: value };
  const option = (choice) => html`<option selected=${choice === value}>${choice}</option>`;
  const input =
    kind === 'choice'
      ? html`<select ...${{ name, required }}>
          ${['', ...choices].map(option)}
        </select>`
      : html`<input ...${{ name, type, required, autocomplete: 'off', ...initial }} />`;
  return html`<label><span>${worded(name)}</span> ${input} <small>${about}</small></label>`;
}

/** What an operation does, what it needs, and what came of it. One that only reads begins at once. */
export function Dialog({ name, args, onClose }) {
  const { about, reads, args: known } = operationOf(name);
  const box = useRef();
  const [{ result = '', error, isBusy }, setAnswer] = useState({});
  async function run(event) {
    event.preventDefault();
    setAnswer({ isBusy: true });
    setAnswer(await call(name, Object.fromEntries(new FormData(event.target))));
  }
  useEffect(() => {
    box.current.showModal();
    if (reads && Object.keys(args).length > 0) box.current.querySelector('form').requestSubmit();
  }, []);
  return html`<dialog ref=${box} onClose=${onClose} aria-labelledby="operation">
    <form onSubmit=${run}>
      <h2 id="operation">${name}</h2>
      <p>${about}</p>
      ${known.map((arg) => field(arg, args[arg.name]))}
      <button disabled=${isBusy}>${name}</button>
      <button type="button" onClick=${() => box.current.close()}>close</button>
      <div role="status">${error ? html`<p class="critical">${error}</p>` : shown(result)}</div>
    </form>
  </dialog>`;
}

/** Every operation, so that none is missing. */
export const Actions = () =>
  html`<h1>All actions</h1>
    ${table({ result: operations }, { columns: ['name', 'about', 'access'], actions: ({ name }) => button(name) })}`;
