// `npx kit --version` says which code runs: the commit of the clone, or the one that its image was built from.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { commitOf, version, versionText } from '../../src/cli/lib/version.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kit-version-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const PATH = process.env['PATH'];

function git(...args: string[]): string {
  const own = ['-c', 'user.name=a', '-c', 'user.email=a@localhost', '-c', 'commit.gpgsign=false'];
  return execFileSync('git', [...own, ...args], { cwd: folder, encoding: 'utf8', env: { PATH } }).trim();
}

/** A repository with one file, and its commit. */
function repository(): string {
  git('init', '--quiet');
  writeFileSync(join(folder, 'file'), 'a');
  git('add', '.');
  git('commit', '--quiet', '--message', 'Begin');
  return git('rev-parse', 'HEAD').slice(0, 12);
}

test('the kit, the schema of each kind of store, Node and the commit are named', () => {
  const kit = JSON.parse(readFileSync('package.json', 'utf8')) as { name: string; version: string };
  const [sqlite, postgres] = ['sqlite', 'postgres'].map((kind) => readdirSync(`src/store/${kind}/migrations`).length);
  const begin = `${kit.name} ${kit.version}, schema ${sqlite} (sqlite), ${postgres} (postgres), Node ${process.versions.node}`;
  expect(versionText(version())).toBe(`${begin}, commit ${commitOf(process.cwd())}`);
});

test('the commit is that of the clone, which says so if a tracked file has changed since', () => {
  const commit = repository();
  expect(commitOf(folder, { PATH })).toBe(commit);
  writeFileSync(join(folder, 'untracked'), 'b');
  expect(commitOf(folder, { PATH })).toBe(commit);
  writeFileSync(join(folder, 'file'), 'b');
  expect(commitOf(folder, { PATH })).toBe(`${commit} (changed)`);
  git('add', 'file');
  expect(commitOf(folder, { PATH })).toBe(`${commit} (changed)`);
});

test('a repository that only contains the kit, or that a variable of git names, is not its own', () => {
  repository();
  const inside = join(folder, 'kit');
  mkdirSync(inside);
  expect(commitOf(inside, { PATH })).toBe('unknown');
  const bare = mkdtempSync(join(tmpdir(), 'kit-version-'));
  expect(commitOf(bare, { PATH, GIT_DIR: join(folder, '.git'), GIT_WORK_TREE: bare })).toBe('unknown');
  rmSync(bare, { recursive: true });
});

test('without git, without a repository and before the first commit it is unknown, and no error', () => {
  expect(commitOf(folder, { PATH })).toBe('unknown');
  expect(commitOf(folder, { PATH: folder })).toBe('unknown');
  git('init', '--quiet');
  expect(commitOf(folder, { PATH })).toBe('unknown');
});

test('an image has the commit that it was built with, if it was told one', () => {
  const commit = '1a2b3c4d5e6f1a2b3c4d5e6f1a2b3c4d5e6f1a2b';
  expect(commitOf(folder, { PATH, KIT_COMMIT: commit })).toBe('1a2b3c4d5e6f');
  expect(commitOf(folder, { PATH, KIT_COMMIT: '' })).toBe('unknown');
  const image = readFileSync('Dockerfile', 'utf8');
  const stage = image.slice(image.lastIndexOf('\nFROM '));
  expect(stage).toContain('\nARG COMMIT\n');
  expect(stage).toContain('\nLABEL org.opencontainers.image.revision=$COMMIT\n');
  expect(stage).toContain('\nENV KIT_COMMIT=$COMMIT\n');
  for (const file of ['compose.yaml', 'src/store/postgres/compose.yaml'])
    expect(readFileSync(file, 'utf8'), file).toContain("COMMIT: '${COMMIT:-}'");
});
