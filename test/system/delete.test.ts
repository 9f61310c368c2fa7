// A team can delete each module. The project is copied without the module, as the table in src/README.md says. The copy
// must type-check, start, accept and handle. Without any module, the tests of the core must pass.
import { execFile } from 'node:child_process';
import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { createKit, deliver, makeEvent, until } from './kit.ts';

const CORE_TESTS = ['wire', 'store', 'processes', 'receive', 'run', 'keep'].map((room) => `test/${room}`);
const COPIED = ['package.json', 'tsconfig.json', 'vitest.config.ts', 'compose.yaml', 'src', 'templates', 'test'];

/** The part of Vitest's JSON report that this test reads. */
interface Report {
  testResults: { assertionResults: { fullName: string; status: string; failureMessages: string[] }[] }[];
}

/** Rows of the table: the module, the paths to delete, and the files with lines to delete. */
const MODULES = [...readFileSync('src/README.md', 'utf8').matchAll(/^\| `(\w+)` \|([^|]*)\|([^|]*)\|[^|]*\|$/gm)].map(
  ([, name = '', paths = '', lines = '']) => ({ name, paths: namesIn(paths), lines: namesIn(lines) }),
);

function namesIn(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name.replace(/\/$/, ''));
}

async function copyWithout(modules: typeof MODULES): Promise<string> {
  const copy = mkdtempSync(join(tmpdir(), 'kit-delete-'));
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  for (const name of COPIED) cpSync(name, join(copy, name), { recursive: true });
  symlinkSync(resolve('node_modules'), join(copy, 'node_modules'));
  for (const { paths } of modules)
    for (const path of paths) rmSync(join(copy, 'src', path), { recursive: true, force: modules.length > 1 });
  const files = new Set(modules.flatMap(({ lines }) => lines).filter((path) => existsSync(join(copy, 'src', path))));
  for (const path of files) removeLines(join(copy, 'src', path));
  await removeDependents(copy);
  return copy;
}

/** Removes each line that imports a deleted file. */
function removeLines(file: string): void {
  const lines = readFileSync(file, 'utf8').split('\n');
  const kept = lines.filter((line) => importsOf(line).every((path) => existsSync(join(dirname(file), path))));
  expect(kept.length).toBeLessThan(lines.length);
  writeFileSync(file, kept.join('\n'));
}

/** Removes the templates and tests that do not compile. Fails if a file of src does not compile. */
async function removeDependents(copy: string): Promise<void> {
  // Files that import a deleted file are removed first, because each round of the compiler takes many seconds.
  const dependents = [...globSync('{test,templates}/**/*.ts', { cwd: copy })].map((file) => join(copy, file));
  const lacksImport = (file: string): boolean =>
    importsOf(readFileSync(file, 'utf8')).some((path) => !existsSync(join(dirname(file), path)));
  for (let left = dependents, gone = 1; gone > 0;) {
    const removed = left.filter(lacksImport);
    for (const file of removed) rmSync(file);
    left = left.filter((file) => !removed.includes(file));
    gone = removed.length;
  }
  for (;;) {
    const report = await run(copy, 'node_modules/typescript/bin/tsc').catch((error: Error) => error.message);
    const files = new Set([...report.matchAll(/^(\S+\.ts)\(\d+,\d+\): error/gm)].map(([, file = '']) => file));
    if (files.size === 0) return expect(report).toBe('');
    expect(
      [...files].filter((file) => !/^(test|templates)\//.test(file)),
      report,
    ).toEqual([]);
    for (const file of files) rmSync(join(copy, file));
  }
}

function importsOf(line: string): string[] {
  return [...line.matchAll(/from '(\.[^']+)'/g)].map(([, path = '']) => path);
}

async function run(copy: string, ...args: string[]): Promise<string> {
  const options = { cwd: copy, maxBuffer: 64 * 1024 * 1024 };
  const { stdout } = await promisify(execFile)(process.execPath, args, options).catch(
    ({ stdout: out, stderr }: { stdout: string; stderr: string }) => {
      throw new Error(`${args.join(' ')} failed:\n${out}\n${stderr.slice(-4_000)}`);
    },
  );
  return stdout;
}

test('the table in src/README.md lists every module', () => {
  expect(MODULES.map(({ name }) => name)).toEqual([
    'cli',
    'ops',
    'admin',
    'alarms',
    'backups',
    'reconcile',
    'service',
    'postgres',
    'tools',
  ]);
});

test.each(MODULES)('without $name the kit type-checks, starts, accepts and handles', async (module) => {
  const copy = await copyWithout([module]);
  const kit = await createKit({}, { HANDLERS_DIR: join(copy, 'src/handlers') }, [], copy);
  onTestFinished(() => kit.remove());
  await kit.start();
  expect(await deliver(kit, makeEvent(1))).toBe(204);
  await until(() => kit.query(`select 1 from tasks where state = 'done'`).length === 1);
  expect(await kit.stop()).toBe(0);
});

test('without any module the tests of the core pass', async () => {
  const copy = await copyWithout(MODULES);
  const args = [
    '--project',
    'unit',
    '--exclude',
    '**/documents.test.ts',
    '--reporter=json',
    '--outputFile=report.json',
  ];
  const ended = await run(copy, 'node_modules/vitest/vitest.mjs', 'run', ...args, ...CORE_TESTS).catch(String);
  const report = JSON.parse(readFileSync(join(copy, 'report.json'), 'utf8')) as Report;
  const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults);
  expect(tests.filter(({ status }) => status !== 'passed')).toEqual([]);
  expect(ended).not.toMatch(/^Error/);
  expect(tests.length).toBeGreaterThan(1_000);
});
