// src/cli/README.md is generated from the commands and the configuration. `vitest -u` updates it.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { EXIT } from '../../src/base/errors.ts';
import { loadConfig, VARIABLES, type Config } from '../../src/config.ts';
import { commands, rowsUnder, withRows } from '../documents.ts';

const FILE = 'src/cli/README.md';
const SECRETS = VARIABLES.filter((name) => VARIABLES.includes(`${name}_FILE`));
const DEFAULTS = loadConfig({ WEBHOOK_SECRET: 'whsec_0000000000000000' });
const BLOCK = /(?<=\n## Commands\n[^]*?\n```sh\n)[^]*?(?=\n```\n)/;

/** The lines of a usage that people can type, without their explanations. */
function formsOf(name: string, usage: string): string[] {
  const lines = `npx kit ${usage}`
    .replaceAll(/\n\s+\[/g, ' [')
    .replaceAll(` | ${name}`, `\nnpx kit ${name}`)
    .split('\n');
  const forms = lines.flatMap((line) => /^\s*npx (kit .*?)(?: {3}.*)?$/.exec(line)?.[1] ?? []);
  if (forms.length === 0) throw new Error(`the usage of ${name} has no line to type`);
  return forms;
}

async function commandsBlock(): Promise<string> {
  const known = await commands();
  return known.map(({ name, summary, usage }) => [`# ${summary}`, ...formsOf(name, usage)].join('\n')).join('\n\n');
}

/** The variable with its default, as in `.env`. */
function lineOf(name: string): string {
  const value = name === 'WEBHOOK_SECRET' ? undefined : DEFAULTS[name as keyof Config];
  return `\`${name}${value === undefined ? '' : `=${String(value)}`}\``;
}

function variableRows(): string[][] {
  const fixed =
    /const FIXED = \[([^\]]*)\]/.exec(readFileSync('src/receive/reload.ts', 'utf8'))?.[1]?.match(/\w+/g) ?? [];
  if (fixed.length === 0) throw new Error('src/receive/reload.ts names no variables that take a restart');
  const rest = VARIABLES.filter((name) => !name.endsWith('_FILE') && !fixed.some((one) => one === name));
  // Two rows, because one would be too long to read.
  const half = Math.ceil(rest.length / 2);
  return [
    ['a restart', fixed.map(lineOf).join(', ')],
    ['`npx kit reload`', rest.slice(0, half).map(lineOf).join(', ')],
    ['also a reload', rest.slice(half).map(lineOf).join(', ')],
  ];
}

test('src/cli/README.md lists the commands and variables of the code', async () => {
  const text = readFileSync(FILE, 'utf8');
  expect(text).toMatch(BLOCK);
  const anew = text.replace(BLOCK, (await commandsBlock()).replaceAll('$', '$$$$'));
  await expect(withRows(anew, FILE, 'Variables', variableRows())).toMatchFileSnapshot(resolve(FILE));
});

test('src/cli/README.md names the variables whose value may be in a file', () => {
  const text = readFileSync(FILE, 'utf8');
  expect(SECRETS.length).toBeGreaterThan(3);
  expect([...text.matchAll(/`([A-Z_]+)_FILE`/g)].map(([, name]) => name)).toEqual(SECRETS);
});

test('src/cli/README.md lists all exit codes', () => {
  expect(rowsUnder(FILE, 'Exit codes').map(([code]) => Number(code))).toEqual(Object.values(EXIT));
});
