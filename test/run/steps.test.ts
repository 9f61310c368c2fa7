// The digests of the steps of `setup`: a formatter does not change them, and an edit does.
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { runInThisContext } from 'node:vm';
import { expect, test } from 'vitest';
import { digestOf, type Step } from '../../src/run/steps.ts';
import { createFolder } from './fixture.ts';

const run = promisify(execFile);
const OXFMT = resolve('node_modules/oxfmt/bin/oxfmt');
const codeOf = (text: string): Step => runInThisContext(`(${text})`) as Step;

/** Steps as people write them, with what formatters of all kinds and settings change. */
const WRITTEN = `
import type { Tx } from '#kit';
const table = "a";
export default [
  'create table counts (sender text primary key, n bigint not null default \\'none\\')',
  tx => tx.run("insert into a values ('it''s', ?)", 1),
  async (tx: Tx) => { await tx.run('alter table a add column "b" text'); },
  async function named(tx: Tx,): Promise<void> {
    // why it is so
    for (const { sender, n, } of await tx.all(\`select sender, n from \${ table + 'x' } -- all of them
        where n > 1\`)) {
      /* each row */
      await tx.run('update a set n = ? where sender = ?', (n as number) + 1, sender); await tx.run("it's", 'say "no"')
    }
  },
  async (tx: Tx) => {
    const sizes = { 'a': 1, b: /x'y/.test('z') ? 0xff : 2 };
    const longer = [ 'create table one (a text, b text, c text)', 'create table two (a text, b text, c text)', 'create table three (a text)' ];
    if (sizes.a > 0) for (const sql of longer) await tx.run(sql); else return
    const rows = \`insert into a values \${longer.map(name => \`('\${name.replace(/['"]/g, "")}')\`).join(', ')}\`; // it's "so"
    const half = (sizes.a + sizes.b) / 2 // a half
    return void (await tx.run('insert into sizes values (?, ?)', half, sizes['a']))
  },
];
`;
const STYLES = [
  { singleQuote: true, printWidth: 120 },
  { singleQuote: false, semi: false, trailingComma: 'none', arrowParens: 'avoid', printWidth: 60 },
  { useTabs: true, quoteProps: 'consistent', bracketSpacing: false, trailingComma: 'all', printWidth: 200 },
  { singleQuote: true, semi: false, objectWrap: 'collapse', endOfLine: 'crlf', printWidth: 40 },
];

/** The digests that Node computes of the steps in this file. */
async function digestsIn(file: string): Promise<string[]> {
  const code = `const { default: steps } = await import('file://${file}');
    const { digestOf } = await import('file://${resolve('src/run/steps.ts')}');
    console.log(JSON.stringify(steps.map(digestOf)));`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', code]);
  return JSON.parse(stdout) as string[];
}

test('no style of a formatter changes a digest', async () => {
  const folder = createFolder();
  const file = join(folder, 'steps.ts');
  writeFileSync(file, WRITTEN);
  const written = await digestsIn(file);
  expect(new Set(written).size).toBe(5);
  const texts = new Set<string>();
  for (const [n, style] of STYLES.entries()) {
    writeFileSync(join(folder, `${n}.json`), JSON.stringify(style));
    await run(process.execPath, [OXFMT, '-c', join(folder, `${n}.json`), file]);
    const { stdout } = await run('cat', [file]);
    texts.add(stdout);
    expect(await digestsIn(file), stdout).toEqual(written);
  }
  expect(texts.size).toBe(STYLES.length);
});

test.each<[string, string, string]>([
  ['white space', 'create table a (b text, c text)', 'create  table\n a(\n  b text ,\n  c text\n)'],
  ['a comment', 'create table a (b text)', '-- why\ncreate /* not\n b */ table a (b text) -- it is so'],
  ['a semicolon at the end', 'create table a (b text)', 'create table a (b text);\n'],
])('%s does not change the digest of SQL', (_, one, other) => {
  expect(digestOf(other)).toBe(digestOf(one));
});

test('comments do not change the digest of a function: of the code, and of the SQL in it', () => {
  const bare = '(tx) => { tx.run(`create table a (b text)`); }';
  const full = '(tx) => { /* why */ tx.run(`create table a ( -- it is so\n b text)`); // it\'s "so"\n }';
  expect(digestOf(codeOf(full))).toBe(digestOf(codeOf(bare)));
});

test.each<[string, string, string]>([
  ['a column', 'create table a (b text)', 'create table a (c text)'],
  ['white space within a value', `update a set b = 'x y'`, `update a set b = 'xy'`],
  ['what looks like a comment within a value', `update a set b = '--x'`, `update a set b = '--y'`],
  ['a name in quotes', 'create table "a b" (b text)', 'create table "ab" (b text)'],
  ['a space between words', 'alter table a add column b text', 'alter table a add columnb text'],
])('%s changes the digest of SQL', (_, one, other) => {
  expect(digestOf(other)).not.toBe(digestOf(one));
});

test.each<[string, string, string]>([
  ['a value', '(tx) => tx.run("update a set n = 1")', '(tx) => tx.run("update a set n = 2")'],
  ['an operator', '(tx) => tx.run("x", 1 + 2)', '(tx) => tx.run("x", 1 - 2)'],
  ['what follows an address', '(tx) => tx.run("https://a", 1)', '(tx) => tx.run("https://a", 2)'],
  ['a template', '(tx) => tx.run(`a ${1} b`)', '(tx) => tx.run(`a ${1} c`)'],
  ['a comma between values', '(tx) => tx.run("x", 1, 2)', '(tx) => tx.run("x", 12)'],
  ['a comma in a text', '(tx) => tx.run("x", "No, thanks")', '(tx) => tx.run("x", "Nothanks")'],
])('%s changes the digest of a function', (_, one, other) => {
  expect(digestOf(codeOf(other))).not.toBe(digestOf(codeOf(one)));
});

test('the digests of this release stay the same, because stores hold them', () => {
  expect(digestOf('create table a (b text)')).toMatchInlineSnapshot(
    `"24a30f8304d99233b6b4287e183fcafbda80d58e07df8a4871e08208a9cca6a7"`,
  );
  expect(digestOf(codeOf('async (tx) => { await tx.run("create table a (b text)"); }'))).toMatchInlineSnapshot(
    `"06fdc9611efb6a536cd93dfb52f491a422fbc94565fc76c7df683d8e38887352"`,
  );
});
