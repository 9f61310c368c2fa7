// Where a small repository is made, and how a newer kit comes to it: a commit on the branch kit, for the team to merge.
// The team's files and branches are not touched.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { git, InitError, tryGit } from './git.ts';
import { compareVersions, kitCommitAt, kitPackage, messageOf, newestKitCommit, type KitCommit } from './history.ts';
import { writeSmallTree, type Kind } from './small-tree.ts';
import { ROOT, type Source } from './source.ts';

/** The name that npm takes for a package: this is stricter than npm, and the same on every machine. */
const NAME = /^[a-z0-9][a-z0-9-]{0,99}$/;

/** What was written. `before`: the kit that the team has. */
export interface Written {
  folder: string;
  commit: string;
  tools: boolean;
  before?: KitCommit;
}

/** Creates the repository, or adds this kit to its branch kit. Undefined: the team has this kit already. */
export function write(source: Source, folder: string, tools: boolean): Written | undefined {
  if (isNew(folder)) return create(source, folder, tools);
  const before = kitOf(folder);
  refuseReverted(folder, before);
  const kind = { name: before.name, tools: before.tools || tools };
  if (before.source === source.commit && before.tools === kind.tools) return undefined;
  refuseOlder(source, before, folder);
  refuseOwnBranch(folder);
  const commit = commitTree(source, kind, folder, ['-p', before.id]);
  git(folder, ['branch', '--no-track', '--force', 'kit', commit]);
  return { folder, commit, tools: kind.tools, before };
}

/** Whether nothing is there yet. Throws InitError if the folder is neither new nor a repository of its own. */
function isNew(folder: string): boolean {
  const there = nearest(folder);
  if (!statSync(there).isDirectory()) throw new InitError(`${there} is a file: choose a folder`);
  const top = repositoryOf(there);
  const own = top !== undefined && there === folder && realpathSync(top) === realpathSync(folder);
  if (top !== undefined && !own)
    throw new InitError(
      `${folder} is inside the repository ${top}, but the kit takes updates in a repository of its own:` +
        ' choose a folder outside, and add it to yours as a submodule if you need it there',
    );
  const entries = there === folder ? readdirSync(folder) : [];
  if (own) return entries.length === 1 && !hasCommits(folder);
  if (entries.length === 0) return true;
  throw new InitError(`${folder} has files and is no git repository: choose a folder that is empty or missing`);
}

/** The repository that has this folder. If git refuses a repository that is there, its words are thrown. */
function repositoryOf(folder: string): string | undefined {
  const read = existsSync(join(folder, '.git')) ? git : tryGit;
  return read(folder, ['rev-parse', '--show-toplevel']);
}

function hasCommits(folder: string): boolean {
  return tryGit(folder, ['rev-parse', '--verify', '--quiet', 'HEAD']) !== undefined;
}

function nearest(folder: string): string {
  if (existsSync(folder)) return folder;
  if (lstatSync(folder, { throwIfNoEntry: false }))
    throw new InitError(`${folder} is a link to nothing: choose another folder`);
  return nearest(dirname(folder));
}

function create(source: Source, folder: string, tools: boolean): Written {
  const name = basename(folder);
  if (!NAME.test(name))
    throw new InitError(`${name} is no name for a package: name the folder with lower-case letters, digits and -`);
  const kind = { name, tools };
  const commit = existsSync(folder) ? fill(source, kind, folder) : createBeside(source, kind, folder);
  return { folder, commit, tools };
}

/** The folder appears complete, or not at all. Returns the commit. */
function createBeside(source: Source, kind: Kind, folder: string): string {
  const temporary = mkdtempSync(join(nearest(dirname(folder)), '.kit-init-'));
  try {
    const made = join(temporary, kind.name);
    mkdirSync(made);
    const commit = fill(source, kind, made);
    mkdirSync(dirname(folder), { recursive: true });
    moveTo(folder, made);
    return commit;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

function moveTo(folder: string, made: string): void {
  try {
    renameSync(made, folder);
  } catch (error) {
    if (!existsSync(folder)) throw error;
    const words = `${folder} was made by another program meanwhile, and is left as it is: run this again`;
    throw new InitError(words, { cause: error });
  }
}

/** In an empty folder or an empty clone. A branch comes last, so that a run that ends early can be repeated. */
function fill(source: Source, kind: Kind, folder: string): string {
  git(folder, ['init', '--quiet', '--initial-branch=main', '--template=']);
  const commit = commitTree(source, kind, folder);
  git(folder, ['merge', '--quiet', '--ff-only', '--no-verify-signatures', commit]);
  git(folder, ['branch', '--force', 'kit', commit]);
  return commit;
}

/** Writes the tree and its commit, without the repository's index and working tree. Returns the commit. */
function commitTree(source: Source, kind: Kind, folder: string, parent: string[] = []): string {
  const work = mkdtempSync(join(tmpdir(), 'kit-init-'));
  try {
    const files = writeSmallTree(source, kind, work);
    const env = { GIT_INDEX_FILE: join(work, 'index'), GIT_AUTHOR_DATE: source.date, GIT_COMMITTER_DATE: source.date };
    git(folder, [`--work-tree=${files}`, 'add', '--all', '--force', files], { env });
    const tree = git(folder, ['write-tree'], { env });
    return git(folder, ['commit-tree', tree, ...parent], { env, input: messageOf(source, tree) });
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** The kit that HEAD contains. */
function kitOf(folder: string): KitCommit {
  if (tryGit(folder, ['rev-parse', '--is-shallow-repository']) === 'true')
    throw new InitError(`${folder} lacks a part of its history: git fetch --unshallow, then run this again`);
  const kit = hasCommits(folder) ? newestKitCommit(folder, 'HEAD') : undefined;
  if (kit) return kit;
  throw new InitError(
    `${folder} has no commit of the kit in the history of HEAD: choose an empty folder. If its history was rewritten,` +
      ' make a repository of the kit that it has in an empty folder of the same name, then connect the two once:' +
      ' git fetch <that folder> kit && git merge -s ours --allow-unrelated-histories FETCH_HEAD',
  );
}

function refuseOlder(source: Source, before: KitCommit, folder: string): void {
  const order = compareVersions(source.version, before.version);
  const contained = tryGit(ROOT, ['merge-base', '--is-ancestor', before.source, source.commit]) !== undefined;
  if (order > 0 || (order === 0 && contained)) return;
  throw new InitError(
    `${folder} has kit ${before.version} (${before.source.slice(0, 12)}), and this clone ${source.version} is not newer:` +
      ' git fetch --tags, then git checkout of a newer tag',
  );
}

/** A revert takes away the files of a merge, but git still has it as merged, and no later merge brings them. */
function refuseReverted(folder: string, before: KitCommit): void {
  const version = kitPackage(folder, 'HEAD')?.version;
  const parent = kitCommitAt(folder, `${before.id}^`);
  if (!parent || version !== parent.version || version === before.version) return;
  throw new InitError(
    `${folder} has merged kit ${before.version}, but its package.json says ${version}. If that merge was reverted, git` +
      ' would leave its files out: git revert <the commit of that revert>, then run this again.' +
      ` Otherwise set the version in package.json to ${before.version}, and commit it`,
  );
}

/** The branch kit moves. Whatever else is on it would be lost. A tag of the same name hides it from git merge. */
function refuseOwnBranch(folder: string): void {
  if (tryGit(folder, ['rev-parse', '--verify', '--quiet', 'refs/tags/kit']) !== undefined)
    throw new InitError(
      `${folder} has a tag named kit, which git merge kit would take for the branch:` +
        ' git tag <another name> refs/tags/kit && git tag --delete kit',
    );
  if (tryGit(folder, ['symbolic-ref', '--quiet', 'HEAD']) === 'refs/heads/kit')
    throw new InitError(`${folder} has the branch kit checked out, which this would move: git switch main`);
  if (tryGit(folder, ['rev-parse', '--verify', 'refs/heads/kit']) === undefined) return;
  if (!kitCommitAt(folder, 'refs/heads/kit'))
    throw new InitError(`the branch kit of ${folder} has commits of yours: git branch -m kit <another name>`);
}
