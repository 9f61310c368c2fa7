// Compiles every code example of the documents in a copy of the project, and runs the handlers among them.
import { execFile } from 'node:child_process';
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

const DOCUMENTS = globSync('**/*.md', { exclude: ['**/node_modules/**'] });
/** The first line of an example names its file. With `in eventTypes`, the example is added to that list in the file. */
const blocks = DOCUMENTS.flatMap((document) =>
  [...readFileSync(document, 'utf8').matchAll(/^```ts\n(?:\/\/ (\S+?\.ts)(, in eventTypes)?\n)?(.*?)^```/gms)].map(
    ([, file, within, source = '']) => ({ document, file, within, source }),
  ),
);
const handlers = blocks.filter(({ file = '' }) => file.startsWith('src/handlers/'));
/** test/postgres/recipe.test.ts runs those that need a server. */
const alone = handlers.filter(({ source }) => !source.includes(`from 'pg'`));
const tested = blocks.flatMap(({ file = '' }) => (file.startsWith('test/') ? basename(file, '.test.ts') : []));

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'kit-examples-'));
  // Leaves out the user's handlers, because an example may have the same name as one of them.
  const filter = (path: string): boolean => dirname(path) !== 'src/handlers';
  for (const path of [
    'package.json',
    'tsconfig.json',
    'vitest.config.ts',
    'src',
    'test/memory-folder.ts',
    'test/handler-store.ts',
  ])
    cpSync(path, join(folder, path), { recursive: true, filter });
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  for (const { file = '', within, source } of blocks) {
    const path = join(folder, file);
    mkdirSync(dirname(path), { recursive: true });
    if (within) writeFileSync(path, readFileSync(path, 'utf8').replace(/\};\n$/, `${source}};\n`));
    else writeFileSync(path, source, { flag: 'wx' });
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

function run(script: string, ...args: string[]): Promise<{ code: number | null; output: string }> {
  return new Promise((done) => {
    const options = { cwd: folder, env: { ...process.env, NO_COLOR: '1' } };
    const child = execFile(process.execPath, [resolve('node_modules', script), ...args], options, (_, out, err) =>
      done({ code: child.exitCode, output: out + err }),
    );
  });
}

test('every example names its file', () => {
  expect(blocks.filter(({ file }) => file === undefined)).toEqual([]);
  expect(new Set(handlers.map(({ document }) => document))).toEqual(new Set(['README.md', 'src/handlers/README.md']));
});

test('the examples type-check', async () => {
  expect(await run('typescript/bin/tsc')).toEqual({ code: 0, output: '' });
});

test('each example handler without a server runs in its own test, or with an event of each type', async () => {
  const rest = alone.map(({ file = '' }) => basename(file, '.ts')).filter((name) => !tested.includes(name));
  expect(rest.length).toBeGreaterThan(0);
  const source = `import { expect, test } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import { eventTypes } from '../../src/events.ts';
const events = Object.keys(eventTypes).map((type) => fixture(type));
const states = async (handler) => (await deliver(handler, events)).tasks.map(({ state }) => state);
test.each(${JSON.stringify(rest)})('%s', async (name) => {
  const { default: handler } = await import('../../src/handlers/' + name + '.ts');
  expect(new Set(await states(handler))).toEqual(new Set(['done']));
});
test('every type of events', async () => {
  expect(await states({ on: '*', handle() {} })).toEqual(events.map(() => 'done'));
});`;
  writeFileSync(join(folder, 'test/handlers/rest.test.ts'), source, { flag: 'wx' });
  const { code, output } = await run('vitest/vitest.mjs', 'run', '--project', 'handlers');
  expect(output).toMatch(new RegExp(`Test Files +${tested.length + 1} passed`));
  expect(output).toMatch(new RegExp(`Tests +${tested.length + rest.length + 1} passed`));
  expect(code).toBe(0);
});
