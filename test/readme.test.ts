// What the log warns of stands in the README's "Troubleshoot", word by word: people search for what they read.
import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const readme = readFileSync('README.md', 'utf8');
const troubleshoot = readme.slice(readme.indexOf('## Troubleshoot'), readme.indexOf('## What is guaranteed'));
/** Said of the kit itself, or in words of their own; there is nothing to look up. */
const PLAIN = [
  /all clear/,
  /^an ops (request failed|answer broke)/,
  /^tasks (retried|discarded) by hand/,
  /^\$\{name\}: \$\{detail\}$/,
];

function messages(): { file: string; text: string }[] {
  return globSync('src/**/*.ts', { exclude: ['src/simulator/**', 'src/demo/**', 'src/handlers/**'] }).flatMap(
    (file) => {
      const source = readFileSync(file, 'utf8');
      const logged = [...source.matchAll(/\blog\.(?:warn|error|fatal)\(/g)].flatMap(({ index }) =>
        lastText(source.slice(index, closing(source, index))),
      );
      const sampled = file.endsWith('sampler.ts')
        ? [...source.matchAll(/return '([^']+)';/g)].map(([, text]) => text)
        : [];
      return [...logged, ...sampled].flatMap((text) => (text ? [{ file, text }] : []));
    },
  );
}

function closing(source: string, from: number): number {
  let depth = 0;
  for (let i = source.indexOf('(', from); i < source.length; i++) {
    if (source[i] === '(') depth++;
    if (source[i] === ')' && --depth === 0) return i;
  }
  return source.length;
}

/** The message is the last argument. */
function lastText(call: string): string[] {
  const texts = [...call.matchAll(/'([^']{8,})'|`([^`]{8,})`/g)].map(([, plain, template]) => plain ?? template ?? '');
  return texts.slice(-1);
}

test('every warning and error of the log is explained by its words', () => {
  const missing = messages().filter(({ text }) => {
    if (PLAIN.some((plain) => plain.test(text))) return false;
    // Up to a remedy behind a colon or semicolon; what is filled in splits a template.
    const parts = (text.split(/[:;]/)[0] ?? '').split(/\$\{[^}]*\}/).map((part) => part.trim());
    return !parts.filter((part) => part.length > 3).every((part) => troubleshoot.includes(part));
  });
  expect(missing).toEqual([]);
});
