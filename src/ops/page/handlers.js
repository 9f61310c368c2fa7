// All handlers, or one: its state, its failures by cause, and what each waiting task waits for.
import { useApi } from './api.js';
import { button, html, table } from './parts.js';

export function Handlers({ args }) {
  const { result, error } = useApi('handlers');
  const causes = useApi('tasks', { ...args, causes: true });
  const waiting = useApi('tasks', { ...args, state: 'waiting' });
  const rows = result?.map(({ name, ...row }) => ({ handler: name, ...row }));
  const shownRows = rows?.filter(({ handler }) => (args.handler ?? handler) === handler);
  const changes = ({ handler, state }) => [
    ...[state === 'paused' ? 'resume' : 'pause', 'rerun'].map((name) => button(name, { handler })),
    button('handlers', { forget: handler }, 'forget'),
  ];
  const columns = ['handler', 'state', 'failingSince', 'waiting', 'done', 'dead', 'behind', 'fault'];
  return html`
    <h1>${args.handler ?? 'Handlers'}</h1>
    ${table({ result: shownRows, error }, { columns, actions: changes, empty: 'Handlers in src/handlers appear here' })}
    <h2>Failures by cause</h2>
    ${table(causes, {
      actions: ({ handler, state, error: cause }) =>
        ['retry', ...(state === 'dead' ? [] : ['discard'])].map((name) => button(name, { handler, error: cause })),
      empty: 'Failures appear here, by error',
    })}
    <h2>Waiting tasks</h2>
    ${table(waiting, {
      columns: ['handler', 'key', 'type', 'waitsFor', 'attempts', 'error'],
      actions: ({ handler, key }) => ['retry', 'discard'].map((name) => button(name, { handler, event: key })),
      empty: 'Waiting tasks appear here, with what they wait for',
    })}
  `;
}
