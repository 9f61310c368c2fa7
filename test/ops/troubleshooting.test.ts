// Each warning and error must name its remedy, or troubleshooting.md must quote its words, because people search for
// the words that they read. All words that the document quotes must be in the code.
import { globSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { NOTICES } from '../../src/receive/causes.ts';

/** The words that troubleshooting.md quotes: in the first cells of its tables, and in its list. */
const quotes = readFileSync('src/ops/troubleshooting.md', 'utf8')
  .split('\n')
  .flatMap(
    (line) => /^(?:\| (?:\d+ \| `\w+` \| )?|- )((?:`[^`]+`(?:, )?)+)/.exec(line)?.[1]?.match(/[^`]+(?=`)/g) ?? [],
  )
  .filter((text) => text.trim().includes(' '));

const sources = globSync('src/**/*.{ts,js}', { exclude: ['src/tools/**', 'src/handlers/**'] }).map((file) =>
  readFileSync(file, 'utf8').replaceAll(/^\s*(\/\/|\/?\*).*$/gm, ''),
);

/** A message that matches names its remedy. */
const REMEDY =
  /npx kit|retrying|tried again|[A-Z]+_[A-Z]|remedyOf|\$\{remedy\}|: (see|create|stop|start|end|name|take) /;
/** Messages that need no remedy: they report a broken assumption of the kit, which nobody can cause. */
const NOBODY = ['SQLite refused synchronous', 'commits are not synced'];

/** The arguments of the call whose bracket follows `from`. Commas and brackets inside strings do not count. */
function argumentsOf(source: string, from: number): string[] {
  const found = [''];
  let depth = 0;
  for (const [token] of source.slice(source.indexOf('(', from)).matchAll(/'[^'\n]*'|"[^"\n]*"|`[^`]*`|[^]/g)) {
    if (/^[)\]}]$/.test(token) && --depth === 0) return found;
    if (depth === 1 && token === ',') found.push('');
    else if (depth > 0) found.push((found.pop() ?? '') + token);
    if (/^[([{]$/.test(token)) depth++;
  }
  throw new Error(`a bracket is not closed: ${source.slice(from, from + 60)}`);
}

/** Appends to the code the declarations of the constants and functions that it names, from the file `source`. */
function withNames(code: string, source: string): string {
  const names = code.replaceAll(/'[^'\n]*'|`[^`]*`/g, '').match(/(?<!\.)\b[A-Za-z]{3,}\b/g) ?? [];
  const declared = (name: string): string => {
    const [unpacked, from] = new RegExp(`\\bconst \\{[^}]*\\b${name}\\b[^}]*\\} = ([A-Z]+)\\b`).exec(source) ?? [];
    if (unpacked !== undefined) return declared(from ?? '');
    const own = `\\bconst ${name}\\b[^]*?;\\n|\\nfunction ${name}\\([^]*?\\n\\}\\n`;
    return new RegExp(own).exec(source)?.[0] ?? '';
  };
  return [code, ...new Set(names.map(declared))].join('\n');
}

/** The string literals in the code that are sentences. */
function textsIn(code: string): string[] {
  const literals = [...code.matchAll(/'([^'\n]*)'|`([^`]*)`/g)].map(([, plain, filled]) => plain ?? filled ?? '');
  return literals.filter(
    (text) => /\w+ \w+ \w+/.test(text.replaceAll(/\$\{[^}]*\}/g, '')) || text.startsWith('dead letter'),
  );
}

/** The messages in calls that match `said`. Arguments before the position `place` are left out. */
function messages(said: RegExp, place: number): string[] {
  return sources.flatMap((source) =>
    [...source.matchAll(said)].flatMap(({ index }) =>
      textsIn(withNames(argumentsOf(source, index).slice(place).join(','), source)),
    ),
  );
}

test.each([
  {
    what: 'a warning or error of the log',
    said: /\blog\??\.(?:warn|error|fatal)\(|\blog\[level\]\(/g,
    place: -1,
    least: 40,
  },
  { what: 'an error of the store', said: /\bnew StoreError\(/g, place: 1, least: 20 },
])('$what names its remedy, or troubleshooting.md quotes it', ({ said, place, least }) => {
  const all = messages(said, place);
  expect(all.length).toBeGreaterThan(least);
  const known = [...quotes, ...NOBODY];
  expect(all.filter((text) => !REMEDY.test(text) && !known.some((words) => text.includes(words)))).toEqual([]);
});

test('a warning about deliveries names its remedy, or troubleshooting.md quotes it', () => {
  const all = Object.values(NOTICES).map(({ log }) => log);
  expect(all.length).toBeGreaterThan(5);
  expect(all.filter((text) => !REMEDY.test(text) && !quotes.some((words) => text.includes(words)))).toEqual([]);
});

test('all words that troubleshooting.md quotes are in the code', () => {
  expect(quotes.length).toBeGreaterThan(60);
  const said = (words: string): boolean => sources.some((source) => source.replace('${OLDEST}', '24').includes(words));
  expect(quotes.filter((words) => !said(words))).toEqual([]);
});
