// Deletes modules from a copy of the project, as src/README.md says.
import { execFile } from 'node:child_process';
import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';

export interface Module {
  name: string;
  /** What to delete in src. */
  paths: string[];
  /** Files of src with lines to delete. */
  lines: string[];
}

/** The rows of the table in src/README.md. */
export function readModules(root = '.'): Module[] {
  const rows = readFileSync(join(root, 'src/README.md'), 'utf8').matchAll(/^\| `(\w+)` \|([^|]*)\|([^|]*)\|[^|]*\|$/gm);
  return [...rows].map(([, name = '', paths = '', lines = '']) => ({
    name,
    paths: namesIn(paths),
    lines: namesIn(lines),
  }));
}

function namesIn(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name.replace(/\/$/, ''));
}

/** Modules share paths, so that a path may be gone already if there are several. */
export function deleteModules(copy: string, modules: Module[]): void {
  for (const { paths } of modules)
    for (const path of paths) rmSync(join(copy, 'src', path), { recursive: true, force: modules.length > 1 });
  const files = new Set(modules.flatMap(({ lines }) => lines).filter((path) => existsSync(join(copy, 'src', path))));
  for (const path of files) removeLines(join(copy, 'src', path));
}

/** Removes each line that imports a deleted file. */
export function removeLines(file: string): void {
  const lines = readFileSync(file, 'utf8').split('\n');
  const kept = lines.filter((line) => importsOf(line).every((path) => existsSync(join(dirname(file), path))));
  expect(kept.length).toBeLessThan(lines.length);
  writeFileSync(file, kept.join('\n'));
}

/** Removes the templates and tests that do not compile. Fails if a file of src does not compile. */
export async function removeDependents(copy: string): Promise<void> {
  // Files that import a deleted file are removed first, because each round of the compiler takes many seconds.
  removeImporters(copy);
  for (;;) {
    const report = await runNode(copy, 'node_modules/typescript/bin/tsc').catch((error: Error) => error.message);
    const files = new Set([...report.matchAll(/^(\S+\.ts)\(\d+,\d+\): error/gm)].map(([, file = '']) => file));
    if (files.size === 0) return expect(report).toBe('');
    expect(
      [...files].filter((file) => !/^(test|templates)\//.test(file)),
      report,
    ).toEqual([]);
    for (const file of files) rmSync(join(copy, file));
  }
}

/** Removes the templates and tests that import a deleted file, or a file that was removed therefore. */
export function removeImporters(copy: string): void {
  const testing = existsSync(join(copy, 'src/testing.ts'));
  const lacksImport = (file: string): boolean => {
    const text = readFileSync(file, 'utf8');
    if (!testing && text.includes(`from '#kit/testing'`)) return true;
    return importsOf(text).some((path) => !existsSync(join(dirname(file), path)));
  };
  const dependents = globSync('{test,templates}/**/*.ts', { cwd: copy }).map((file) => join(copy, file));
  for (let left = dependents, gone = 1; gone > 0;) {
    const removed = left.filter(lacksImport);
    for (const file of removed) rmSync(file);
    left = left.filter((file) => !removed.includes(file));
    gone = removed.length;
  }
}

function importsOf(line: string): string[] {
  return [...line.matchAll(/from '(\.[^']+)'/g)].map(([, path = '']) => path);
}

/** Runs a script of the copy. Returns its output, or throws it. */
export async function runNode(copy: string, ...args: string[]): Promise<string> {
  const options = { cwd: copy, maxBuffer: 64 * 1024 * 1024 };
  const { stdout } = await promisify(execFile)(process.execPath, args, options).catch(
    ({ stdout: out, stderr }: { stdout: string; stderr: string }) => {
      throw new Error(`${args.join(' ')} failed:\n${out}\n${stderr.slice(-4_000)}`);
    },
  );
  return stdout;
}
