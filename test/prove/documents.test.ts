// Compares the commands `prove` and `bench` with their documents: campaigns, options, exit codes, parts and columns.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { EXIT } from '../../src/base/errors.ts';
import { withSection } from '../bench/sections.ts';

const [prove, bench] = ['test/prove/README.md', 'test/bench/README.md'].map((file) => readFileSync(file, 'utf8'));
const textOf = (file: string): string => readFileSync(file, 'utf8');

/** The first group of each match. */
function allOf(pattern: RegExp, text = ''): string[] {
  return [...text.matchAll(pattern)].map(([, found = '']) => found);
}

test('the README of prove lists the campaigns, options and exit codes of the command', () => {
  const source = textOf('test/prove/main.ts');
  const campaigns = allOf(/'(\w+)'/g, /const CAMPAIGNS = \[([^\]]+)\]/.exec(source)?.[1]);
  expect(campaigns.length).toBeGreaterThan(2);
  expect(allOf(/^\| `npm run prove -- (\w+)`/gm, prove)).toEqual(campaigns);
  const options = allOf(/^ {8}(\w+): \{ type/gm, source);
  expect(options.length).toBeGreaterThan(2);
  expect(allOf(/^\| `--(\w+)/gm, prove).toSorted()).toEqual(options.toSorted());
  const codes = [...new Set(allOf(/EXIT\.(\w+)/g, source))].map((name) => EXIT[name as keyof typeof EXIT]);
  expect(allOf(/^\| (\d+) \|/gm, prove).map(Number)).toEqual(codes.toSorted((a, b) => a - b));
});

test('the README of bench has the tables at the place where the command writes them, each below its command', () => {
  const place = /<!-- npm run bench -- --readme -->\n([^]*)<!-- bench -->/.exec(bench ?? '')?.[1];
  const source = textOf('test/bench/parts.ts') + textOf('test/bench/postgres.ts');
  const parts = allOf(/export async function (\w+)\(/g, source);
  const titles = allOf(/return \{ title: '([^']+)'/g, source);
  expect(parts.length).toBeGreaterThan(2);
  expect(allOf(/^`npm run bench -- (\w+)`$/gm, place)).toEqual(parts);
  expect(allOf(/^## (.+)$/gm, place)).toEqual(titles);
  for (const title of titles) {
    const written = withSection(bench ?? '', title, `## ${title}\n\nnew\n`);
    expect(written).toContain(`## ${title}\n\nnew\n\n`);
    expect(allOf(/^(## .+|<!-- bench -->)$/gm, written)).toEqual(allOf(/^(## .+|<!-- bench -->)$/gm, bench));
  }
  const heads = allOf(/^## [^]*?\n\| (.+) \|\n\| ---/gm, place).flatMap((line) => line.split(' | '));
  expect(heads.length).toBeGreaterThan(15);
  for (const head of heads) expect(source).toMatch(new RegExp(`(^|[' ])${head}'?[:,]`, 'm'));
});
