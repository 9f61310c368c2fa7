// Whether all is well: the headline, what stands in the way with the button that helps, and the last day.
import { button, facts, html, shown, table, time, useApi } from './parts.js';

const DAY_MS = 86_400_000;
const BOX = { viewBox: '0 0 100 100', preserveAspectRatio: 'none', role: 'img' };
/** By title and name, a field of the status's charts. */
const CHARTS = {
  Deliveries: { stored: 'events', duplicates: 'duplicates' },
  Tasks: { handled: 'done', failed: 'failed' },
  'Waiting tasks': { waiting: 'waiting' },
  'Refused requests': { refused: 'refused' },
};

const alarm = ({ name, about, level, text, since, remedy }) =>
  html`<li key=${name + about} class=${level}>
    <span>${text}</span>
    <span>${name} ${about && shown(about, 'handler')} since ${time(since)}</span>
    ${remedy && button(remedy.operation, remedy.args)}
  </li>`;

function chart(title, lines, points) {
  const x = ({ at }) => 100 - (100 * (Date.now() - Date.parse(at))) / DAY_MS;
  const top = Math.max(1, ...points.flatMap((one) => lines.map(([, field]) => one[field])));
  const line = ([, field], n) => {
    const path = points.map((one) => `${x(one)},${100 - (100 * one[field]) / top}`).join(' ');
    return html`<polyline class=${`line-${n}`} points=${path} />`;
  };
  const words = lines.map(([name, field]) => {
    const { [field]: most, at } = points.reduce((best, one) => (one[field] > best[field] ? one : best));
    return `${name}: ${most > 0 ? `at most ${most.toLocaleString('en')}, ${at.slice(11, 16)}Z` : 'none'}`;
  });
  return html`<figure>
    <figcaption><b>${title}</b> ${words.map((text, n) => html`<span class=${`line-${n}`}>${text}</span>`)}</figcaption>
    <svg ...${BOX} aria-label=${`${title} of 24 hours. ${words.join('. ')}`}>${lines.map(line)}</svg>
    <small><span>24 hours ago</span><span>now</span></small>
  </figure>`;
}

function charts(points) {
  if (points.length < 2) return html`<p class="empty">Lines come here when the kit has run for half an hour</p>`;
  const list = Object.entries(CHARTS).map(([title, lines]) => chart(title, Object.entries(lines), points));
  return html`<div class="charts">${list}</div>`;
}

export function Health({ status }) {
  const { headline, alarms, tasks, behind, reconcile, watermark, newestCursor, gaps, processes } = status;
  const { events, duplicates, quarantined, failuresInARow } = status;
  const numbers = { ...tasks, notYetTakenUp: behind, events, duplicates, quarantined };
  const bytes = ({ id }) => button('quarantine', { id }, 'bytes');
  const empty = 'Authentic bytes that are no new, readable event come here';
  return html`
    <h1 class=${headline.level}><b>${headline.level}</b> ${headline.text}</h1>
    <ul>
      ${alarms.map(alarm)}
    </ul>
    ${facts({ ...numbers, failuresInARow: `${failuresInARow} of 15`, ...processes })}
    <h2>History</h2>
    ${facts({ ...reconcile, watermark, newestCursor, gaps })}
    <h2>The last 24 hours</h2>
    ${charts(status.charts)}
    <h2>Quarantine</h2>
    ${table(useApi('quarantine'), { actions: bytes, empty })}
  `;
}
