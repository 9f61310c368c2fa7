// Rules for all documents: short texts, short sentences, and only links, commands and variables that exist.
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { VARIABLES } from '../src/config.ts';
import { commands } from './documents.ts';

const DOCUMENTS = globSync(['**/*.md', '.github/*.md'], { exclude: ['**/node_modules/**', 'next/**'] }).map((path) =>
  path.replaceAll('\\', '/'),
);
/** Maximum number of words in the README, and in all documents together. Raise `all` for documents of your own. */
const LONGEST = { readme: 1_500, all: 18_000 };
const MOST_WORDS = 25;
/** Files of small repositories (`npm run init`). Their links begin at the root of such a repository. */
const OWN_FILES = 'src/tools/init/files/';

const known = await commands();
const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };
/** Variables of the tests, and of other programs: Compose, Node, systemd. */
const OTHERS = ['TEST_POSTGRES_URL', 'TEST_POSTGRES_URLS', 'SITE_ADDRESS', 'NODE_EXTRA_CA_CERTS', 'MAINPID'];

function folderOf(file: string): string {
  return dirname(file.startsWith(OWN_FILES) ? file.slice(OWN_FILES.length) : file);
}

/** The anchors of headings, as GitHub derives them. */
function anchorsOf(file: string): string[] {
  const headings = [...readFileSync(file, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, text = '']) => text);
  return headings.map((text) =>
    text
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}

/**
 * The sentences of paragraphs, list items and table cells. Code blocks are left out. A code span counts as one word.
 */
function sentencesIn(text: string): string[] {
  return text
    .replaceAll(/```[^]*?```/g, '')
    .replaceAll(/`[^`]+`/g, 'code')
    .replaceAll(/\[([^\]]+)\]\([^)]*\)/g, '$1')
    .split(/\n\n|\n\s*(?:- |\d+\. |\| )| \| |(?<=[.!?]\*{0,2})\s/)
    .map((sentence) => sentence.replaceAll(/[*|#\n]+/g, ' ').trim());
}

describe.each(DOCUMENTS)('%s', (file) => {
  const text = readFileSync(file, 'utf8');

  test('links only to files and headings that exist', () => {
    const links = [...text.matchAll(/\]\(([^)#]*)(?:#([^)]*))?\)/g)].filter(([, path = '']) => !path.includes('://'));
    const broken = links.filter(([, path = '', anchor]) => {
      const to = path === '' ? file : join(folderOf(file), path);
      return !existsSync(to) || (anchor !== undefined && !anchorsOf(to).includes(anchor));
    });
    expect(broken.map(([link]) => link)).toEqual([]);
  });

  test('names only commands, options and scripts that exist', () => {
    for (const [, words = ''] of text.matchAll(/(?:npx|receiver) kit ([^`\n|;&]*)/g)) {
      const [name = '', ...options] = words.match(/^<?\w+|(?<= )--[a-z-]+/g) ?? [];
      if (name.startsWith('<')) continue;
      const command = known.find((one) => one.name === name);
      expect(command, words).toBeDefined();
      for (const option of options) expect(`${command?.usage} --help`, words).toContain(option);
    }
    const code = [...text.matchAll(/```[^]*?```|`[^`]+`/g)].join('\n');
    for (const [, name = ''] of code.matchAll(/npm (?:run )?(?:-s )?([a-z][a-z:]*)\b/g))
      expect([...Object.keys(scripts), 'ci', 'install', 'run']).toContain(name);
  });

  test('names only variables that exist', () => {
    const spans = [...text.matchAll(/```[^]*?```|`[^`]+`/g)].join('\n');
    const names = spans.match(/(?<![\w/{-])[A-Z][A-Z]+_[A-Z_]+\b(?! =)/g) ?? [];
    expect(names.filter((name) => ![...VARIABLES, ...OTHERS].includes(name) && !name.startsWith('SQLITE_'))).toEqual(
      [],
    );
  });

  test(`has no sentence of more than ${MOST_WORDS} words`, () => {
    const sentences = sentencesIn(text);
    expect(sentences.length).toBeGreaterThan(5);
    expect(sentences.filter((sentence) => sentence.split(/\s+/).length > MOST_WORDS)).toEqual([]);
  });
});

function wordsOf(file: string): number {
  return readFileSync(file, 'utf8').split(/\s+/).filter(Boolean).length;
}

function linksOf(file: string): string[] {
  const text = readFileSync(file, 'utf8').replaceAll(/```[^]*?```/g, '');
  const paths = [...text.matchAll(/\]\(([^)#]+)(?:#[^)]*)?\)/g)].map(([, path = '']) => path);
  return paths.filter((path) => !path.includes('://')).map((path) => join(folderOf(file), path));
}

test('the documents are short', () => {
  expect(DOCUMENTS).toContain('src/README.md');
  expect(wordsOf('README.md')).toBeLessThanOrEqual(LONGEST.readme);
  const words = DOCUMENTS.reduce((sum, file) => sum + wordsOf(file), 0);
  expect(words, 'for documents of your own raise LONGEST in this file').toBeLessThanOrEqual(LONGEST.all);
});

test('every document can be reached from the README', () => {
  const reached = new Set(['README.md']);
  for (const file of reached) for (const path of linksOf(file)) if (DOCUMENTS.includes(path)) reached.add(path);
  expect(DOCUMENTS.filter((file) => !reached.has(file))).toEqual([]);
});

test('pictures are small', () => {
  const pictures = linksOf('README.md').filter((path) => path.endsWith('.png'));
  expect(pictures.length).toBeGreaterThan(0);
  for (const path of pictures) expect(statSync(path).size).toBeLessThan(150_000);
});
