// Whether all is well: the headline, each alarm with the button that helps, and the last day.
import { useApi } from './api.js';
import { button, facts, html, shown, table } from './parts.js';

const DAY_MS = 86_400_000;
const BOX = { viewBox: '0 0 100 100', preserveAspectRatio: 'none', role: 'img' };

/** `lines`: by the name of each line, the field of the points that the line shows. */
function chart(title, lines, points) {
  const fields = Object.entries(lines);
  const top = Math.max(1, ...points.flatMap((one) => fields.map(([, field]) => one[field])));
  const x = ({ at }) => 100 - (100 * (Date.now() - Date.parse(at))) / DAY_MS;
  const line = ([, field], n) => {
    const path = points.map((one) => `${x(one)},${100 - (100 * one[field]) / top}`).join(' ');
    return html`<polyline class=${`line-${n}`} points=${path} />`;
  };
  const words = fields.map(([name, field]) => {
    const { [field]: most, at } = points.reduce((best, one) => (one[field] > best[field] ? one : best), { [field]: 0 });
    return `${name}: ${most > 0 ? `peak ${most.toLocaleString('en')}, at ${at.slice(11, 16)}Z` : 'none'}`;
  });
  return html`<figure>
    <figcaption><b>${title}</b> ${words.map((text, n) => html`<span class=${`line-${n}`}>${text}</span>`)}</figcaption>
    <svg ...${BOX} aria-label=${`${title} of 24 hours. ${words.join('. ')}`}>${fields.map(line)}</svg>
  </figure>`;
}

export function Health({ status }) {
  const { headline, alarms, tasks, reconcile, processes, instances, charts, behind, failuresInARow } = status;
  const { events, duplicates, quarantined, watermark, newestCursor, gaps } = status;
  const numbers = { ...tasks, notYetTakenUp: behind, events, duplicates, quarantined };
  const alarm = ({ name, about, level, text, since, remedy }) =>
    html`<p key=${name + about} class=${level}>
      ${text === headline.text ? name : text} ${about && shown(about, 'handler')} since ${shown(since)}
      ${remedy && button(remedy.operation, remedy.args)}
    </p>`;
  const bytes = ({ id }) => button('quarantine', { id }, 'bytes');
  const empty = 'Authentic bytes that are unreadable, or contradict a stored event, appear here';
  return html`
    <h1 class=${headline.level}><b>${headline.level}</b> ${headline.text}</h1>
    ${alarms.toSorted((one) => (one.text === headline.text ? -1 : 0)).map(alarm)}
    ${facts({ ...numbers, failuresInARow, ...processes, instances })}
    <h2>History</h2>
    ${facts({ ...reconcile, watermark, newestCursor, gaps })}
    <h2>The last 24 hours</h2>
    <div class="charts">
      ${chart('Events', { stored: 'events', duplicates: 'duplicates' }, charts)}
      ${chart('Tasks', { handled: 'done', failed: 'failed' }, charts)}
      ${chart('Waiting tasks', { waiting: 'waiting' }, charts)}
      ${chart('Refused requests', { refused: 'refused' }, charts)}
    </div>
    <h2>Quarantine</h2>
    ${table(useApi('quarantine'), { actions: bytes, empty })}
  `;
}
