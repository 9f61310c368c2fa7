// Commits of the kit in a small repository. Each names its own tree in its message, and follows only another commit of
// the kit. So a squash merge, which repeats the message, or a commit of the team is never taken for one.
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
const COMMIT = /^[0-9a-f]{40,64}$/;

export function messageOf({ version, commit }: Source, tree: string): string {
  return `webhook-receiver-kit ${version}\n\n${SOURCE}: ${commit}\n${TREE}: ${tree}\n`;
}

/** The commit of the newest version that `revision` contains. */
export function newestKitCommit(repository: string, revision: string): KitCommit | undefined {
  const trailers = [TREE, SOURCE].map((key) => `%(trailers:key=${key},valueonly,separator=%x20)`);
  const format = `--format=%H;%P;%T;${trailers.join(';')}`;
  const log = ['log', '--topo-order', '--reverse', `--grep=^${TREE}: `, format, revision, '--'];
  const found = new Map<string, KitCommit>();
  for (const line of git(repository, log).split('\n')) {
    const [id = '', parents = '', tree, named, source = ''] = line.split(';');
    if (tree !== named || !COMMIT.test(source) || !(parents === '' || found.has(parents))) continue;
    const kit = readCommit(repository, id, source);
    if (kit) found.set(id, kit);
  }
  return [...found.values()].toReversed().toSorted((a, b) => compareVersions(b.version, a.version))[0];
}

/** The commit that `revision` names. Undefined if it is not the kit's. */
export function kitCommitAt(repository: string, revision: string): KitCommit | undefined {
  const id = tryGit(repository, ['rev-parse', '--verify', '--quiet', `${revision}^{commit}`]);
  const found = id === undefined ? undefined : newestKitCommit(repository, id);
  return found?.id === id ? found : undefined;
}

function readCommit(repository: string, id: string, source: string): KitCommit | undefined {
  const manifest = kitPackage(repository, id);
  const tools = tryGit(repository, ['cat-file', '-e', `${id}:src/tools/dev`]) !== undefined;
  return manifest && { id, source, tools, ...manifest };
}

/** What package.json says. Undefined if it is missing or cannot be read. */
export function kitPackage(repository: string, revision: string): { name: string; version: string } | undefined {
  try {
    const text = git(repository, ['show', `${revision}:package.json`]);
    const { name, version } = JSON.parse(text) as { name: string; version: string };
    return { name, version };
  } catch {
    return undefined;
  }
}

/** In the order of semver: a pre-release comes before its release, and build metadata does not count. */
export function compareVersions(a: string, b: string): number {
  const [[coreA = '', preA = ''], [coreB = '', preB = '']] = [partsOf(a), partsOf(b)];
  return byNumber(coreA, coreB) || Number(preA === '') - Number(preB === '') || byNumber(preA, preB);
}

function partsOf(version: string): string[] {
  return version.replace(/\+.*/, '').split(/-(.*)/);
}

function byNumber(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}
