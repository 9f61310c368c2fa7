// The page of `npm run dev`: the views of operators, and the view Send, which sends new and stored events and saves tests.
import { useEffect, useState } from 'preact/hooks';
import { ask, call, html, show, shown, table, to, useApi, views } from '../page/page.js';

const LIMIT = 20;
const EVERY_MS = 2_000;

document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href: '/dev/send.css' }));

/** The fields of an event, from its stored body, which is a whole delivery or the payload of a replay item. */
function dataOf({ type }, body) {
  const parsed = JSON.parse(body);
  const data = parsed.data ?? parsed;
  return data[type] ?? data;
}

/** A value as source code. Strangers may have written it, so invisible characters are escaped. */
const literal = (value) =>
  JSON.stringify(value, null, 2).replaceAll(/\p{Cf}/gu, (sign) => `\\u{${sign.codePointAt(0).toString(16)}}`);

const testOf = (
  { type, key },
  data,
  { handler, file, state },
) => `import { expect, onTestFinished, test, vi } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import handler from ${literal(file)};

test(${literal(`${handler}: ${type} ${key}`)}, async () => {
  // The handler's own calls reach nobody. Let this answer what they expect.
  vi.stubGlobal('fetch', () => Promise.resolve(new Response()));
  onTestFinished(() => void vi.unstubAllGlobals());
  const event = fixture(${literal(type)}, { data: ${literal(data)} });
  const { tasks } = await deliver(handler, event, { name: ${literal(handler)} });
  expect(tasks).toMatchObject([{ state: '${state === 'skipped' ? state : 'done'}' }]);
});
`;

/** The value of a form's field. If it `was` a text, it stays one. Otherwise the text is parsed, if it is JSON. */
function valueOf(text, was) {
  if (typeof was === 'string') return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function inputFor([name, value]) {
  const plain = typeof value === 'string' ? value : JSON.stringify(value);
  const input =
    typeof value === 'boolean'
      ? html`<select name=${name}>
          <option selected=${value}>true</option>
          <option selected=${!value}>false</option>
        </select>`
      : html`<input name=${name} defaultValue=${plain} autocomplete="off" />`;
  return html`<label>${name} ${input}</label>`;
}

/** Data as a form or as JSON, to edit and to send. `children`: more buttons. */
function Form({ type, data: initial, children }) {
  const [data, setData] = useState(initial);
  const [isJson, setJson] = useState(false);
  const [answer, setAnswer] = useState({});
  function read(form) {
    if (isJson) return JSON.parse(form.elements.json.value);
    const fields = [...new FormData(form)];
    return Object.fromEntries(fields.map(([name, text]) => [name, valueOf(text, data[name])]));
  }
  async function submit(event) {
    event.preventDefault();
    try {
      const edited = read(event.target);
      if (edited?.constructor !== Object) throw new Error('it is a list, a text or another value');
      setData(edited);
      if (event.submitter.value === 'turn') setJson(!isJson);
      else setAnswer(await ask('/dev/send', { type, data: edited }));
    } catch (error) {
      setAnswer({ error: `This is not a JSON object: ${error.message}` });
    }
  }
  const json = html`<textarea name="json" aria-label="Data as JSON" defaultValue=${JSON.stringify(data, null, 2)} />`;
  return html`<form class="send" onSubmit=${submit}>
    ${isJson ? json : Object.entries(data).map(inputFor)}
    <p>
      <button>send</button>
      <button value="turn">${isJson ? 'as a form' : 'as JSON'}</button>
      ${children}
    </p>
    ${said(answer, 'is on its way: the terminal shows what handlers do')}
  </form>`;
}

/** The result of an action for people: its error; or its key or file, and its own words or, without any, `words`. */
const said = ({ error, result }, words) =>
  html`<p role="status" class=${error ? 'critical' : ''}>
    ${error ?? (result && html`${result.key && shown(result.key, 'key')} ${result.file} ${result.words ?? words}`)}
  </p>`;

/** A stored event: a form to send it again unchanged, or a changed copy as a new event; and what handlers did with it. */
function Stored({ name }) {
  const { result, error } = useApi('explain', { event: name });
  const handlers = useApi('handlers', {}, false);
  const [body, setBody] = useState();
  const [answer, setAnswer] = useState({});
  useEffect(() => void call('explain', { event: name, data: true }).then((all) => setBody(all.result?.body)), []);
  if (body === null) return html`<p>${name} is erased: there is nothing to send</p>`;
  if (!result || !body || !handlers.result) return error ? html`<p class="critical">${error}</p>` : 'Reading …';
  const { event, tasks } = result;
  const { type, id, key, cursor } = event;
  const data = dataOf(event, body);
  const again = () => ask('/dev/send', { type, data, again: { ...(id && { id }), cursor } });
  const isOpen = ({ state }) => ['waiting', 'dead'].includes(state);
  const run = (task) =>
    isOpen(task)
      ? call('retry', { handler: task.handler, event: key })
      : call('rerun', { handler: task.handler, from: cursor, to: cursor });
  function save(task) {
    const { file } = handlers.result.find((one) => one.name === task.handler);
    return ask('/dev/save', { handler: task.handler, source: testOf(event, data, { ...task, file }) });
  }
  const does = (act, words) =>
    html`<button type="button" onClick=${async () => setAnswer(await act())}>${words}</button>`;
  // A rerun names its events by their cursors.
  const actions = (task) => html`
    ${(isOpen(task) || cursor) && does(() => run(task), 'run again')} ${does(() => save(task), 'save as test')}
  `;
  return html`
    <h1>${type} ${shown(key, 'key')}</h1>
    <${Form} type=${type} data=${data}>${does(again, 'send unchanged')}<//>
    ${said(answer, answer.result?.file ? 'is written: look at it before you commit it' : 'is on its way again')}
    <h2>Handlers</h2>
    ${table({ result: tasks }, { columns: ['handler', 'state', 'attempts', 'error'], actions, empty: 'No handler wants it' })}
  `;
}

/** The form for a new event of a type in src/events.ts. */
function New({ examples, type = examples[0].type }) {
  const known = examples.find((one) => one.type === type) ?? examples[0];
  const choose = ({ target }) => (location.hash = to('send', { type: target.value }));
  const option = (one) => html`<option selected=${one === known}>${one.type}</option>`;
  return html`
    <h1>Send an event</h1>
    <select aria-label="Type" onChange=${choose}>
      ${examples.map(option)}
    </select>
    <${Form} key=${known.type} ...${known} />
  `;
}

function Send({ args }) {
  const [{ result: dev, error }, setDev] = useState({});
  const look = () => ask('/dev/state', {}).then(setDev);
  const [{ event, type }, columns] = [args, ['receivedAt', 'type', 'key', 'outcomes']];
  const answer = useApi('events', { limit: LIMIT });
  useEffect(() => {
    void look();
    const timer = setInterval(look, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  if (!dev) return error ? html`<p class="critical">${error}</p>` : 'Reading …';
  const turn = ({ target }) => ask('/dev/switch', { [target.name]: target.checked }).then(look);
  const box = ([name, words]) =>
    html`<label><input type="checkbox" name=${name} checked=${dev.switches[name]} onChange=${turn} /> ${words}</label>`;
  const words = { traffic: 'traffic: an event a second', chaos: 'chaos: traffic is lost, doubled, shuffled or late' };
  const actions = ({ key }) => html`<a href=${to('send', { event: key })}>send again, edit, save as test</a>`;
  return html`
    ${dev.switches && html`<p class="switches">${Object.entries(words).map(box)}</p>`}
    ${event && html`<p><a href="#send">A new event</a></p>`}
    ${event ? html`<${Stored} key=${event} name=${event} />` : html`<${New} examples=${dev.examples} type=${type} />`}
    <h2>Events</h2>
    ${table(answer, { columns, actions, empty: 'Send one, or switch traffic on' })}
  `;
}

show({ send: Send, ...views });
