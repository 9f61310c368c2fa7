// The frame of every view: it shows the view of the URL's hash, whether the kit answers, and an operation's dialog.
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Events } from './events.js';
import { Handlers } from './handlers.js';
import { Health } from './health.js';
import { useApi } from './api.js';
import { Actions, Dialog, html, onOpen, shown } from './parts.js';

export * from './api.js';
export * from './parts.js';

export const views = { health: Health, handlers: Handlers, events: Events };

/** `list`: views by name; another page may add one. A view gets `status`, and as `args` the query in the URL's hash. */
export function show(list) {
  render(html`<${Frame} views=${{ ...list, actions: Actions }} />`, document.body);
}

function placeOf({ hash }) {
  const [name, query] = hash.slice(1).split('?');
  return { name, args: Object.fromEntries(new URLSearchParams(query)) };
}

function Frame({ views: list }) {
  const [{ name, args }, setPlace] = useState(placeOf(location));
  const [asked, setAsked] = useState(null);
  const { result: status, error, at } = useApi('status', { charts: true });
  useEffect(() => {
    onOpen(setAsked);
    window.addEventListener('hashchange', () => {
      setPlace(placeOf(location));
      setAsked(null);
      document.querySelector('main').focus();
    });
  }, []);
  const current = Object.hasOwn(list, name) ? name : 'health';
  document.title = status ? `${status.headline.level}: ${status.headline.text}` : 'Webhook receiver';
  const link = (one) => html`<a href=${`#${one}`} aria-current=${one === current ? 'page' : null}>${one}</a>`;
  return html`
    <nav>${Object.keys(list).map(link)}</nav>
    ${error && html`<p class="critical"><b role="alert">${error}.</b> ${at && 'What you see is from '}${shown(at)}</p>`}
    <main tabindex="-1" class=${error ? 'old' : ''}>
      ${status && html`<${list[current]} args=${args} status=${status} />`}
    </main>
    ${asked && html`<${Dialog} ...${asked} onClose=${() => setAsked(null)} />`}
  `;
}
