// Runs git so that neither the user's settings nor a surrounding hook change what is written: no hooks, no signatures,
// no other line ends.
import { spawnSync } from 'node:child_process';

/** A refusal. Its message says what happened and what to do. */
export class InitError extends Error {}

/** What a hook of another repository would make git use. */
const SURROUNDING = [
  'GIT_DIR',
  'GIT_WORK_TREE',
  'GIT_INDEX_FILE',
  'GIT_OBJECT_DIRECTORY',
  'GIT_NAMESPACE',
  'GIT_PREFIX',
];
const KIT = { NAME: 'webhook-receiver-kit', EMAIL: 'kit@localhost' };
const IDENTITY = Object.entries(KIT).flatMap(([field, value]) => [
  [`GIT_AUTHOR_${field}`, value],
  [`GIT_COMMITTER_${field}`, value],
]);
const SETTINGS = {
  'core.hooksPath': '/dev/null',
  'core.autocrlf': 'false',
  'core.eol': 'lf',
  'core.safecrlf': 'false',
  'core.fileMode': 'true',
  'core.fsmonitor': 'false',
  'core.quotePath': 'false',
  'core.excludesFile': '/dev/null',
  'core.attributesFile': '/dev/null',
  'log.showSignature': 'false',
  'i18n.commitEncoding': 'utf-8',
};
const FLAGS = Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

interface Options {
  env?: Record<string, string>;
  input?: string;
}

/** What git prints, without the last line end. Throws InitError with git's own words. */
export function git(folder: string, args: string[], options: Options = {}): string {
  const { status, stdout, stderr } = run(folder, args, options);
  if (status === 0) return stdout.replace(/\n$/, '');
  throw new InitError(`git ${args[0]} failed in ${folder}: ${stderr.trim()}`);
}

/** What git prints. Undefined if it fails. Throws InitError if the repository is of another user. */
export function tryGit(folder: string, args: string[]): string | undefined {
  const { status, stdout, stderr } = run(folder, args, {});
  if (stderr.includes('safe.directory')) throw new InitError(stderr.trim());
  return status === 0 ? stdout.replace(/\n$/, '') : undefined;
}

function run(cwd: string, args: string[], { env, input = '' }: Options) {
  const clean = Object.entries(process.env).filter(([name]) => !SURROUNDING.includes(name));
  const { error, ...result } = spawnSync('git', [...FLAGS, ...args], {
    cwd,
    input,
    env: Object.fromEntries([...clean, ...IDENTITY, ...Object.entries(env ?? {})]) as Record<string, string>,
    encoding: 'utf8',
    maxBuffer: 256 * 1024 * 1024,
  });
  if (result.signal) throw new InitError(`git was ended by ${result.signal}`);
  if (!error) return result;
  const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
  throw new InitError(missing ? 'git cannot be run: install git' : `git cannot be run: ${error.message}`);
}
