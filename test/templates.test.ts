// The table in templates/README.md agrees with the header of each template.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const templates = readdirSync('templates')
  .filter((file) => /^[^.]+\.ts$/.test(file))
  .toSorted();

/** From the header: the first sentence, and the beginnings of the sentences about lane and freshness. */
function rowOf(file: string): string {
  const header = /^(?:\/\/.*\n)+/.exec(readFileSync(`templates/${file}`, 'utf8'))?.[0] ?? '';
  const text = header.replaceAll(/^\/\/ |\n/gm, (found) => (found === '\n' ? ' ' : ''));
  const [, what, lane, freshness] = /^(.+?\.) .* Lane: ([^.,]+).* Freshness: ([^.,;]+)/.exec(text) ?? [];
  return `| [\`${file.replace('.ts', '')}\`](${file}) | ${what} | ${lane} | ${freshness} |`;
}

test('the table of the templates agrees with their headers', () => {
  expect(templates.length).toBeGreaterThan(3);
  const rows = readFileSync('templates/README.md', 'utf8').match(/^\| \[`.*$/gm);
  expect(rows).toEqual(templates.map(rowOf));
});
