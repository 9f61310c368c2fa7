// The handlers: what each is at, what waits and for what, and what failed, by cause.
import { button, facts, html, table, useApi } from './parts.js';

function Causes({ args }) {
  const actions = ({ handler, error }) => ['retry', 'discard'].map((name) => button(name, { handler, error }));
  const empty = 'What fails comes here, by its error';
  return html`
    <h2>Failures by cause</h2>
    ${table(useApi('tasks', { ...args, causes: true }), { actions, empty })}
  `;
}

function Handler({ handler, of }) {
  const waiting = useApi('tasks', { handler, state: 'waiting' });
  const columns = ['key', 'type', 'waitsFor', 'attempts', 'error'];
  const actions = ({ key }) => ['retry', 'discard'].map((name) => button(name, { handler, event: key }));
  const empty = 'What waits comes here, with what it waits for';
  return html`
    <h1>${handler}</h1>
    ${facts(of)}
    <p>
      ${[of.state === 'paused' ? 'resume' : 'pause', 'rerun'].map((name) => button(name, { handler }))}
      ${button('handlers', { forget: handler }, 'forget')}
    </p>
    <${Causes} args=${{ handler }} />
    <h2>Waiting tasks</h2>
    ${table(waiting, { columns, actions, empty })}
  `;
}

export function Handlers({ args }) {
  const { error, result } = useApi('handlers');
  const list = result?.map(({ name, ...of }) => ({ handler: name, ...of }));
  const { handler, ...one } = list?.find((of) => of.handler === args.handler) ?? {};
  if (handler) return html`<${Handler} key=${handler} handler=${handler} of=${one} />`;
  const empty = 'Files in src/handlers come here: npx kit new writes one';
  return html`
    <h1>Handlers</h1>
    ${table({ error, result: list }, { empty })}
    <${Causes} />
  `;
}
