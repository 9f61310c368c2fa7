// `npx kit --version`: the kit, the schema of its store, Node, and the commit of the clone or of the image.
import { execFileSync } from 'node:child_process';
import { readFileSync, realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { orUndefined } from '../../base/errors.ts';
import { loadConfig, readEnv, type Env } from '../../config.ts';
import { requireComplete, stepsIn } from '../../store/migration-steps.ts';

const ROOT = new URL('../../../', import.meta.url);
/** A commit is shown with this many digits. */
const DIGITS = 12;

export function version(): string {
  const kit = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')) as { name: string; version: string };
  const { storePath } = loadConfig(readEnv(), { only: ['DATABASE_URL'] });
  const kind = storePath === null ? 'postgres' : 'sqlite';
  const schema = schemaIn(new URL(`src/store/${kind}/migrations/`, ROOT)) ?? 'incomplete';
  const commit = commitOf(fileURLToPath(ROOT));
  return `${kit.name} ${kit.version}, schema ${schema} (${kind}), Node ${process.versions.node}, commit ${commit}`;
}

/** Undefined: a migration is missing, which each use of the store reports. */
function schemaIn(folder: URL): number | undefined {
  const steps = stepsIn(folder);
  return orUndefined(() => {
    requireComplete(steps, folder);
    return steps.length;
  });
}

/** `unknown`: the folder is no clone, or git is missing, and nobody told the image its commit. */
export function commitOf(root: string, env: Env = process.env): string {
  return orUndefined(() => commitOfClone(root, env)) ?? (env['KIT_COMMIT']?.slice(0, DIGITS) || 'unknown');
}

function commitOfClone(cwd: string, env: Env): string | undefined {
  // A hook of git sets variables that name its own repository.
  const own = Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('GIT_')));
  const git = (...args: string[]): string =>
    execFileSync('git', args, { cwd, env: own, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  // Not if the kit is a folder of another repository.
  if (realpathSync(git('rev-parse', '--show-toplevel')) !== realpathSync(cwd)) return undefined;
  const commit = git('rev-parse', `--short=${DIGITS}`, 'HEAD');
  const changed = git('--no-optional-locks', 'status', '--porcelain', '--untracked-files=no') !== '';
  return `${commit}${changed ? ' (changed)' : ''}`;
}
