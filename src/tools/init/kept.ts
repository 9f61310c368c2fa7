// The only list of what a small repository has of the kit. Everything else is left out.

/** Files and folders. A folder ends in /. */
const FILES = [
  '.dockerignore',
  '.env.example',
  '.gitignore',
  '.node-version',
  '.npmrc',
  '.oxfmtrc.json',
  '.oxlintrc.json',
  'Dockerfile',
  'LICENSE',
  'compose.yaml',
  'knip.json',
  'package-lock.json',
  'package.json',
  'src/',
  'templates/',
  'test/check.ts',
  'test/handler-store.ts',
  'test/handlers/',
  'test/receiver.system.test.ts',
  'tsconfig.json',
];
/** Of src/tools, what tests of handlers need. */
const TESTING = ['advice.ts', 'own-schema.ts', 'random.ts', 'testing/'].map((name) => `src/tools/${name}`);
const INIT = 'src/tools/init/';
/** Replaces files of the kit, or adds to them. */
export const OWN_FILES = `${INIT}files/`;

const CHECKS = ['types', 'lint', 'format', 'unused'].map((name) => `check:${name}`);
const SCRIPTS = ['start', 'test', 'test:handlers', 'check', ...CHECKS, 'format'];
const TOOL_SCRIPTS = ['demo', 'service', 'dev'];
const DEVELOPMENT = ['typescript', 'vitest', 'oxfmt', 'oxlint', 'oxlint-tsgolint', 'knip'];
const TYPES = ['better-sqlite3', 'koa', 'node', 'pg'].map((name) => `@types/${name}`);

export function isKept(path: string, tools: boolean): boolean {
  if (path.startsWith(INIT)) return false;
  if (path.startsWith('src/tools/') && !tools) return isIn(path, TESTING);
  return isIn(path, FILES) || (tools && path.startsWith('.vscode/'));
}

function isIn(path: string, places: string[]): boolean {
  return places.some((place) => path === place || (place.endsWith('/') && path.startsWith(place)));
}

export function keptScripts(tools: boolean): string[] {
  return tools ? [...TOOL_SCRIPTS, ...SCRIPTS] : SCRIPTS;
}

export const KEPT_PACKAGES = [...DEVELOPMENT, ...TYPES];
