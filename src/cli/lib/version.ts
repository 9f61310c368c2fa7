// `npx kit --version`: the kit, the schemas of its stores, Node, and the commit of the clone or of the image.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { orUndefined } from '../../base/errors.ts';
import type { Env } from '../../config.ts';
import { requireComplete, stepsIn } from '../../store/migration-steps.ts';

const ROOT = new URL('../../../', import.meta.url);
/** A commit is shown with this many digits. */
const DIGITS = 12;

export interface Version {
  name: string;
  version: string;
  /** The newest schema of each kind of store. Null: a migration is missing, which each use of that store reports. */
  schemas: Record<string, number | null>;
  node: string;
  commit: string;
}

/** Reads no configuration, because people also ask for the version of a kit that does not start. */
export function version(): Version {
  const kit = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8')) as { name: string; version: string };
  const kinds = ['sqlite', 'postgres'].map((kind) => ({
    kind,
    folder: new URL(`src/store/${kind}/migrations/`, ROOT),
  }));
  const schemas = kinds.flatMap(({ kind, folder }) => (existsSync(folder) ? [[kind, schemaIn(folder)] as const] : []));
  return {
    name: kit.name,
    version: kit.version,
    schemas: Object.fromEntries(schemas),
    node: process.versions.node,
    commit: commitOf(fileURLToPath(ROOT)),
  };
}

export function versionText({ name, version: number, schemas, node, commit }: Version): string {
  const shown = Object.entries(schemas).map(([kind, schema]) => `${schema ?? 'incomplete'} (${kind})`);
  return `${name} ${number}, schema ${shown.join(', ')}, Node ${node}, commit ${commit}`;
}

function schemaIn(folder: URL): number | null {
  const steps = stepsIn(folder);
  const complete = orUndefined(() => {
    requireComplete(steps, folder);
    return steps.length;
  });
  return complete ?? null;
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
