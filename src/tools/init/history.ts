// Commits of the kit in a small repository. Each names its own tree in its message. A squash merge repeats the message
// with another tree, so it is never taken for a commit of the kit.
import { git, tryGit } from './git.ts';
import type { Source } from './source.ts';
import type { Kind } from './small-tree.ts';

export interface KitCommit extends Kind {
  id: string;
  version: string;
  /** The commit in the kit's own repository. */
  source: string;
}

const TREE = 'Kit-Tree';
const SOURCE = 'Kit-Commit';

export function messageOf({ version, commit }: Source, tree: string): string {
  return `webhook-receiver-kit ${version}\n\n${SOURCE}: ${commit}\n${TREE}: ${tree}\n`;
}

/** The commit of the newest version that `revision` contains. */
export function newestKitCommit(repository: string, revision: string): KitCommit | undefined {
  const trailers = [TREE, SOURCE].map((key) => `%(trailers:key=${key},valueonly,separator=%x20)`);
  const log = ['log', '--topo-order', `--grep=^${TREE}: `, `--format=%H;%T;${trailers.join(';')}`, revision, '--'];
  return git(repository, log)
    .split('\n')
    .map((line) => line.split(';'))
    .filter(([, tree, named]) => tree !== undefined && tree === named)
    .map(([id = '', , , source = '']) => readCommit(repository, id, source))
    .toSorted((a, b) => compareVersions(b.version, a.version))[0];
}

/** The commit that `revision` names. Undefined if it is not the kit's. */
export function kitCommitAt(repository: string, revision: string): KitCommit | undefined {
  const id = tryGit(repository, ['rev-parse', '--verify', '--quiet', `${revision}^{commit}`]);
  const found = id === undefined ? undefined : newestKitCommit(repository, id);
  return found?.id === id ? found : undefined;
}

function readCommit(repository: string, id: string, source: string): KitCommit {
  const manifest = JSON.parse(git(repository, ['show', `${id}:package.json`])) as { name: string; version: string };
  const tools = tryGit(repository, ['cat-file', '-e', `${id}:src/tools/dev`]) !== undefined;
  return { id, source, tools, name: manifest.name, version: manifest.version };
}

export function compareVersions(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}
