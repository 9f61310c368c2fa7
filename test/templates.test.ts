// The table in templates/README.md says about each template what the header of its file says.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const templates = readdirSync('templates')
  .filter((file) => /^[^.]+\.ts$/.test(file))
  .toSorted();

/** The first sentence of the header, and the beginnings of two others. */
function rowOf(file: string): string {
  const header = /^(?:\/\/.*\n)+/.exec(readFileSync(`templates/${file}`, 'utf8'))?.[0] ?? '';
  const text = header.replaceAll(/^\/\/ |\n/gm, (found) => (found === '\n' ? ' ' : ''));
  const [, what, lane, freshness] = /^(.+?\.) .* Lane: ([^.,]+).* Freshness: ([^.,;]+)/.exec(text) ?? [];
  return `| [\`${file.replace('.ts', '')}\`](${file}) | ${what} | ${lane} | ${freshness} |`;
}

test('the table of the templates is what their headers say', () => {
  expect(templates.length).toBeGreaterThan(3);
  const rows = readFileSync('templates/README.md', 'utf8').match(/^\| \[`.*$/gm);
  expect(rows).toEqual(templates.map(rowOf));
});
