// The runbook as a page, with an anchor for each alarm. It reads the Markdown that runbook.md uses: headings,
// paragraphs, bold, code and links. HTML in the file is shown as text.
import { readFileSync } from 'node:fs';
import { html, type Html } from './shell/html.ts';

const FILE = new URL('../runbook.md', import.meta.url);

export function runbookScreen(text = readFileSync(FILE, 'utf8')): Html {
  const [, ...blocks] = text.trim().split(/\n{2,}/);
  const names = blocks.flatMap((block) => (block.startsWith('## ') ? [block.slice(3)] : []));
  return html`<p>${names.map((name) => html`<a href="#${name}">${name}</a> `)}</p>
    ${blocks.map((block) => (block.startsWith('## ') ? heading(block.slice(3)) : html`<p>${inline(block)}</p>`))}`;
}

function heading(name: string): Html {
  return html`<h2 id="${name}">${name}</h2>`;
}

/** Every second part is marked: bold, code or a link. */
function inline(text: string): Html[] {
  const parts = text.split(/(\*\*.+?\*\*|`[^`]+`|\[[^\]]+\]\([^)]+\))/);
  return parts.map((part, i) => (i % 2 === 0 ? html`${part}` : marked(part)));
}

/** Other files are not served, so a link to one becomes its path. */
function marked(part: string): Html {
  if (part.startsWith('*')) return html`<strong>${inline(part.slice(2, -2))}</strong>`;
  if (part.startsWith('`')) return html`<code>${part.slice(1, -1)}</code>`;
  const [, words = '', to = ''] = /^\[(.+)\]\((.+)\)$/.exec(part) ?? [];
  if (to.startsWith('#')) return html`<a href="${to}">${inline(words)}</a>`;
  return html`${inline(words)} (<code>${new URL(to, 'file:///src/ops/').pathname.slice(1)}</code>)`;
}
