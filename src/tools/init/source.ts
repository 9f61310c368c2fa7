// The kit that a small repository is made from: the commit that this clone has checked out, without changes that are
// not committed.
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { git, InitError, tryGit } from './git.ts';

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

export interface Source {
  commit: string;
  /** As git reads it, so that everybody who takes this commit makes the same one. */
  date: string;
  version: string;
  paths: string[];
  warnings: string[];
}

export function readSource(): Source {
  const top = tryGit(ROOT, ['rev-parse', '--show-toplevel']);
  if (top === undefined || realpathSync(top) !== realpathSync(ROOT))
    throw new InitError(`${ROOT} is not a clone of the kit: git clone its repository, and run this there`);
  const { version } = JSON.parse(git(ROOT, ['show', 'HEAD:package.json'])) as { version: string };
  return {
    commit: git(ROOT, ['rev-parse', 'HEAD']),
    date: `${git(ROOT, ['show', '-s', '--format=%ct', 'HEAD'])} +0000`,
    version,
    paths: git(ROOT, ['ls-tree', '-r', '-z', '--name-only', 'HEAD']).split('\0').filter(Boolean),
    warnings: [...changesLeftOut(), ...notTheTag(version)],
  };
}

function changesLeftOut(): string[] {
  const changed = git(ROOT, ['status', '--porcelain', '--untracked-files=no']).split('\n').filter(Boolean);
  return changed.length === 0
    ? []
    : [`changes that are not committed are left out: git status lists ${changed.length}`];
}

function notTheTag(version: string): string[] {
  const tags = git(ROOT, ['tag', '--points-at', 'HEAD']).split('\n');
  return tags.includes(`v${version}`) ? [] : [`this is not the release: git checkout v${version} for that`];
}

/** Writes files of the commit into `folder`. */
export function extract(paths: string[], folder: string): void {
  const env = { GIT_INDEX_FILE: join(folder, '.index') };
  git(ROOT, ['read-tree', 'HEAD'], { env });
  const input = paths.join('\0');
  git(ROOT, ['checkout-index', '-z', '--stdin', `--prefix=${join(folder, 'tree')}/`], { env, input });
}
