// The pieces of screens: tables, figures, times, forms. Pure functions without HTTP.
import { html, type Html } from './html.ts';

export type Cell = Html | string | number | null;
const NOTHING = html`<span class="none">–</span>`;

/**
 * A column whose name begins with `#` holds numbers. `whenEmpty` is shown if there are no rows. `least`: the columns that
 * a narrow window leaves out, the least important first; at most three.
 */
export function table(caption: string, columns: string[], rows: Cell[][], whenEmpty: Cell, least: string[] = []): Html {
  if (rows.length === 0) return html`<p class="empty">${whenEmpty}</p>`;
  const names = columns.map((name) => name.replace('#', ''));
  const classes = columns.map((name, i) => {
    const rank = least.indexOf(names[i] ?? '') + 1;
    const both = [...(name.startsWith('#') ? ['figure'] : []), ...(rank > 0 ? [`least-${rank}`] : [])].join(' ');
    return both && html`class="${both}"`;
  });
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          ${names.map((name, i) => (name === '' ? html`<td></td>` : html`<th scope="col" ${classes[i]}>${name}</th>`))}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${row.map((cell, i) => html`<td data-name="${names[i]}" ${classes[i]}>${shown(cell)}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

export interface Figure {
  name: string;
  value: Cell;
  note?: Cell;
  tone?: 'bad' | 'warn' | undefined;
}

export function figures(list: Figure[]): Html {
  return html`<dl class="figures">
    ${list.map(
      ({ name, value, note = null, tone }) =>
        html`<div class="${tone}">
          <dt>${name}</dt>
          <dd>${shown(value)}${note === null ? null : html` <small>${note}</small>`}</dd>
        </div>`,
    )}
  </dl>`;
}

function shown(cell: Cell): Cell {
  if (typeof cell === 'number') return count(cell);
  return cell ?? NOTHING;
}

export function count(n: number): string {
  return n.toLocaleString('en');
}

/** `at`: ISO 8601. It is shown in UTC. */
export function time(at: string | null): Html {
  if (at === null) return NOTHING;
  return html`<time datetime="${at}" title="${at}">${at.slice(0, 19).replace('T', ' ')}</time>`;
}

/** How long ago it was; the exact time is its title. */
export function ago(at: string | null, now: number): Html {
  if (at === null) return NOTHING;
  return html`<time datetime="${at}" title="${at}">${span((now - Date.parse(at)) / 1000)} ago</time>`;
}

/** A duration in at most two units: `42 s`, `3 min`, `5 h 12 min`, `9 d 4 h`. */
export function span(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return `${s} s`;
  if (s < 7_200) return `${Math.floor(s / 60)} min`;
  if (s < 172_800) return `${Math.floor(s / 3_600)} h ${Math.floor((s % 3_600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3_600)} h`;
}

export function size(bytes: number): string {
  const [unit, name] = bytes < 1e6 ? [1e3, 'kB'] : bytes < 1e9 ? [1e6, 'MB'] : [1e9, 'GB'];
  return `${(bytes / unit).toLocaleString('en', { maximumSignificantDigits: 3 })} ${name}`;
}

/** An id, a key or another long name, in the font of code. It may break at any character. */
export function code(text: string | null): Html {
  return text === null ? NOTHING : html`<code>${text}</code>`;
}

export function state(tone: string, words: Cell): Html {
  return html`<span class="state ${tone}">${words}</span>`;
}

/** A part of a screen that is folded on a phone, and always open on a wide screen: see style.css. */
export function fold(title: string, content: Html): Html {
  return html`<h2 class="wide">${title}</h2>
    <details class="fold">
      <summary>${title}</summary>
      ${content}
    </details>`;
}

/** The first click opens the form, the second sends it. While it is open, the page does not refresh (live.js). */
export function confirm(id: string, words: string, form: Html): Html {
  return html`<details id="${id}">
    <summary>${words}</summary>
    ${form}
  </details>`;
}

/** A form with one button. Its fields travel in the body of the request, never in the address. */
export function action(to: string, button: Html | string, fields: Html | null, tone = ''): Html {
  return html`<form method="post" action="${to}">${fields} <button class="${tone}">${button}</button></form>`;
}

export function hidden(name: string, value: string | number): Html {
  return html`<input type="hidden" name="${name}" value="${value}" />`;
}

/** An input for the reason of a change. The reason is stored and logged. */
export function reason(id: string, label = 'Reason', isRequired = true): Html {
  return html`<label for="${id}">${label}</label>
    <input
      id="${id}"
      name="reason"
      ${isRequired ? html`required minlength="3"` : null}
      maxlength="500"
      autocomplete="off"
    />`;
}
