// A small repository of the kit, with its own `npm run init`, for tests that need several versions.
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';

/** What `npm run init` needs of the kit, and a part of what it copies and leaves out. */
const COPIED = [
  'package.json',
  'package-lock.json',
  'README.md',
  '.ci',
  'LICENSE',
  'knip.json',
  'src/base',
  'src/tools/init',
  'src/tools/random.ts',
  'src/tools/dev/watch.ts',
];
const { PATH = '' } = process.env;

export interface Ended {
  status: number | null;
  out: string;
}

export interface Place {
  /** The user's git configuration is root/gitconfig, the folder for temporary files root/tmp. */
  root: string;
  kit: string;
  team: string;
  /** Runs a command line in a folder below root. Throws an error with its output if it fails. */
  sh(folder: string, command: string): string;
  /** Without arguments: for the team's folder. */
  init(...args: string[]): Ended;
  /** Runs shell lines whenever `npm run init` calls git with this argument, before git. */
  atGit(argument: string, lines: string): void;
  /** Writes a file of the kit, and commits it as this version. */
  release(version: string, files?: Record<string, string>): void;
}

export function createPlace(): Place {
  const root = mkdtempSync(join(tmpdir(), 'kit-init-test-'));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const [kit, team] = [join(root, 'kit'), join(root, 'my-receiver')];
  writeFileSync(join(root, 'gitconfig'), '');
  for (const folder of ['kit', 'tmp', 'bin']) mkdirSync(join(root, folder));
  for (const path of COPIED) cpSync(path, join(kit, path), { recursive: true });
  const env = {
    PATH,
    HOME: root,
    TMPDIR: join(root, 'tmp'),
    GIT_CONFIG_GLOBAL: join(root, 'gitconfig'),
    GIT_CONFIG_NOSYSTEM: '1',
  };
  const run = (folder: string, path: string, command: string, ...args: string[]): Ended => {
    const options = { cwd: join(root, folder), env: { ...env, PATH: path }, encoding: 'utf8' } as const;
    const { status, stdout, stderr } = spawnSync(command, args, options);
    return { status, out: `${stdout}${stderr}` };
  };
  const place: Place = {
    root,
    kit,
    team,
    sh(folder, command) {
      const plain =
        'export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a';
      const { status, out } = run(folder, PATH, 'sh', '-c', `${plain}; ${command}`);
      if (status !== 0) throw new Error(`${command} failed:\n${out}`);
      return out.trim();
    },
    init(...args) {
      const path = `${join(root, 'bin')}:${PATH}`;
      return run('kit', path, process.execPath, 'src/tools/init/main.ts', ...(args.length > 0 ? args : [team]));
    },
    atGit(argument, lines) {
      const file = join(root, 'bin/git');
      const when = `case " $* " in *' ${argument} '*) ${lines};; esac`;
      writeFileSync(file, `#!/bin/sh\nPATH='${PATH}'\n${when}\nexec git "$@"\n`);
      chmodSync(file, 0o755);
    },
    release(version, files = {}) {
      const manifest = readFileSync(join(kit, 'package.json'), 'utf8');
      const all = { ...files, 'package.json': manifest.replace(/"version": "[^"]+"/, `"version": "${version}"`) };
      for (const [path, text] of Object.entries(all)) {
        mkdirSync(dirname(join(kit, path)), { recursive: true });
        writeFileSync(join(kit, path), text);
      }
      place.sh('kit', `git add --all && git commit --quiet --message ${version} && git tag v${version}`);
    },
  };
  place.sh('kit', 'git init --quiet --initial-branch=main');
  place.release('1.0.0', { 'src/shared.ts': '1\n2\n3\n4\n5\n6\n7\n8\n9\n' });
  return place;
}
