// A repository of the kit with two releases, for tests of updates. The first is the newest tag before this commit, or
// this tree if there is none. The second is this tree, with changes as a release makes them.
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

/** What git ignores, and git itself. */
const IGNORED = ['.git', 'node_modules', 'data', '.env'];
const ENV = {
  ...process.env,
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_NOSYSTEM: '1',
  ...Object.fromEntries(
    ['AUTHOR', 'COMMITTER'].flatMap((who) => [
      [`GIT_${who}_NAME`, 'A developer'],
      [`GIT_${who}_EMAIL`, 'developer@example.com'],
    ]),
  ),
};

/** Runs a command line as people type it. Throws an error with its output if it fails. */
export function sh(cwd: string, command: string, env: Record<string, string> = {}): string {
  try {
    return execFileSync('sh', ['-c', command], { cwd, env: { ...ENV, ...env }, encoding: 'utf8', stdio: 'pipe' });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${command} failed in ${cwd}:\n${stdout}\n${stderr}`, { cause: error });
  }
}

/** The newest release that this commit follows. Null without one: in a shallow clone, or before the first. */
export function releaseBefore(): string | null {
  try {
    return sh('.', `git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>&1`).trim();
  } catch {
    return null;
  }
}

/** Creates the repository with its first release. Null: from this tree. Returns the release's tag. */
export function createKitRepository(folder: string, before = releaseBefore()): string {
  mkdirSync(folder);
  sh(folder, 'git init --quiet --initial-branch=main');
  if (before === null) copyTree(folder);
  else sh('.', `git archive ${before} | tar -x -C '${folder}'`);
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  return commitRelease(folder);
}

/** Adds the second release. Returns its tag. */
export function releaseNext(folder: string): string {
  for (const name of readdirSync(folder)) if (!IGNORED.includes(name)) rmSync(join(folder, name), { recursive: true });
  copyTree(folder);
  change(folder);
  return commitRelease(folder);
}

function copyTree(folder: string): void {
  const filter = (path: string): boolean => !IGNORED.includes(basename(path));
  for (const name of readdirSync('.').filter(filter)) cpSync(name, join(folder, name), { recursive: true, filter });
}

function commitRelease(folder: string): string {
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
  sh(folder, `git add --all && git commit --quiet --message v${version} && git tag v${version}`);
  return `v${version}`;
}

/** Changes the text of a file. Throws if nothing would change. */
export function edit(root: string, path: string, changed: (text: string) => string): void {
  const before = readFileSync(join(root, path), 'utf8');
  const after = changed(before);
  if (after === before) throw new Error(`${path} has nothing to change`);
  writeFileSync(join(root, path), after);
}

/** A release changes, adds, renames and deletes files of each ring, and migrates the store. */
function change(root: string): void {
  const comment = (text: string): string => `${text}// Changed by the release.\n`;
  for (const path of CHANGED) edit(root, path, comment);
  for (const path of ['package.json', 'package-lock.json']) {
    edit(root, path, (text) => text.replace(/"version": "[^"]+"/, `"version": "9.0.0"`));
    edit(root, path, (text) => text.replace(/("koa-body": ")(\d)/, '$1^$2'));
  }
  edit(root, 'package-lock.json', (text) => text.replace(/("": \{\s+"name": "[^"]+",\s+"version": ")[^"]+/, '$19.0.0'));
  edit(root, 'compose.yaml', (text) => text.replace('# 200 MB are usual.', '# 300 MB are usual.'));
  edit(root, 'src/keep/modules.ts', (text) =>
    text.replace(/(.*\/ops\/module.ts';\n)/, '// Changed by the release.\n$1'),
  );
  for (const path of ['.env.example', 'README.md']) edit(root, path, (text) => `${text}\n# Changed by the release\n`);
  for (const [path, source] of Object.entries(ADDED)) {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), source);
  }
  rename(root, 'src/run/steps.ts', 'src/run/setup-steps.ts');
  rename(root, 'src/backups/copy.ts', 'src/backups/copying.ts');
  rmSync(join(root, 'src/ops/prometheus.yaml'));
  const migrations = join(root, 'src/store/sqlite/migrations');
  const next = String(readdirSync(migrations).length + 1).padStart(3, '0');
  writeFileSync(join(migrations, `${next}.sql`), 'create table added_by_release (n integer) strict;\n');
}

function rename(root: string, from: string, to: string): void {
  renameSync(join(root, from), join(root, to));
  for (const file of globSync('{src,test}/**/*.ts', { cwd: root })) {
    const text = readFileSync(join(root, file), 'utf8');
    const changed = text.replaceAll(/(?<=from ')(\.[^']*\/)([^/']+)(?=')/g, (path: string, folder: string) =>
      join(dirname(file), path) === from ? `${folder}${basename(to)}` : path,
    );
    if (changed !== text) writeFileSync(join(root, file), changed);
  }
}

/** Files of the core, of a module that stays, of modules that the team deletes, of tools, and of tests. */
const CHANGED = [
  'src/receive/refusal-log.ts',
  'src/alarms/post.ts',
  'src/backups/copy.ts',
  'src/backups/schedule.ts',
  'src/cli/commands/status.ts',
  'src/tools/testing/clock.ts',
  'test/backups/schedule.test.ts',
  'test/receiver.system.test.ts',
];
const ADDED = {
  'src/receive/added.ts': 'export const added = 1;\n',
  'src/backups/added.ts': `import { createBackupFolder } from './folder.ts';\n\nexport const added = createBackupFolder;\n`,
  'test/backups/added.test.ts': `import { added } from '../../src/backups/added.ts';\n\nexport const tested = added;\n`,
};
