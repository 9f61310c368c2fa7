// A team takes an update of the kit, with real git, in a clone of a release and in the small repository of `npm run
// init`. It has handlers, an event type and a package of its own, has changed files of the kit, and deleted two modules.
// The commands are those of the documents.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { deliver, makeEvent, until, type Kit } from './kit.ts';
import { newKit } from './new-kit.ts';
import { deleteModules, readModules, removeDependents, removeImporters, removeLines, runNode } from './modules.ts';
import { createKitRepository, edit, releaseBefore, releaseNext, sh } from './repositories.ts';

/** The second one has lines of registration. */
const DELETED = ['cli', 'backups'];
/** In the lock file already, through Koa, so that npm needs no network. */
const PACKAGE = 'koa-compose';
/** The team's changes of the kit's own files, made again where the release has changed the same lines. */
const EDITS: Record<string, (text: string) => string> = {
  'compose.yaml': (text) => text.replace('mem_limit: 1g', 'mem_limit: 2g'),
  'package.json': addPackage,
  'src/receive/refusal-log.ts': (text) => `// Changed by the team.\n${text}`,
};

const HANDLERS = {
  'src/handlers/count.ts': `import { defineHandler } from '#kit';

export default defineHandler({
  on: ['MessageReceived', 'ReactionReceived'],
  order: 'arrival',
  setup: ['create table counts (type text primary key, n bigint not null)'],
  async handle(event, ctx) {
    const add = 'insert into counts values (?, 1) on conflict (type) do update set n = counts.n + 1';
    await ctx.complete(async (tx) => {
      await tx.run(add, event.type);
    });
  },
});
`,
  'test/handlers/count.test.ts': `import { expect, test } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import handler from '../../src/handlers/count.ts';

test('reactions are counted', async () => {
  const { tasks } = await deliver(handler, fixture('ReactionReceived', { data: { emoji: '!' } }));
  expect(tasks).toMatchObject([{ state: 'done' }]);
});
`,
  'src/handlers/gate.ts': `import { existsSync } from 'node:fs';
import { defineHandler, RetryAfter } from '#kit';

export default defineHandler({
  on: 'MessageReceived',
  order: 'arrival',
  lane: 'none',
  handle() {
    if (!existsSync(String(process.env['GATE']))) throw new RetryAfter(100, 'the gate is closed');
  },
});
`,
  'test/handlers/gate.test.ts': `import { expect, test } from 'vitest';
import { deliver, fixture } from '#kit/testing';
import handler from '../../src/handlers/gate.ts';

test('an open gate lets events through', async () => {
  process.env['GATE'] = import.meta.filename;
  const { tasks } = await deliver(handler, fixture('MessageReceived'));
  expect(tasks).toMatchObject([{ state: 'done' }]);
});
`,
};
const EVENT_TYPE = `  ReactionReceived: define({
    data: z.looseObject({ session_id: z.guid(), emoji: orElse(z.string(), '') }),
    example: ({ session }) => ({ session_id: session, emoji: '!' }),
  }),
};
`;

/** The release changes the lines of the team's changes, or their neighbours, and files that the team has deleted. */
const CONFLICTS = [
  'UU compose.yaml',
  'UU package-lock.json',
  'UU package.json',
  'DU src/backups/copying.ts',
  'DU src/backups/module.ts',
  'DU src/backups/schedule.ts',
  'DU src/cli/commands/backup.ts',
  'DU src/cli/commands/status.ts',
  'UU src/keep/modules.ts',
];
/** What no release touches. */
const YOURS = `src/handlers src/events.ts test/handlers ':!src/handlers/README.md'`;
const TEAM = 'my-receiver';
/** The commands of the documents, in their order. */
const [CLONE = ''] = commandsIn('README.md', '# Webhook receiver kit');
const [FETCH = '', INIT = '', MERGE = '', KEEP_DELETED = '', DELETE_AGAIN = '', LOCK = '', COMPILE = '', COMMIT = ''] =
  commandsIn('src/processes/README.md', '## Update');

/** How the team begins, and the commands that merge the next release, which begin in `folder`. */
const WAYS = {
  clone: { begin: cloneOf, folder: TEAM, merge: FETCH, conflicts: ['DU test/backups/schedule.test.ts'] },
  init: { begin: smallOf, folder: 'clone', merge: `${INIT} && ${MERGE}`, conflicts: [] },
};

/** The lines of the shell blocks under this heading, without comments. */
function commandsIn(document: string, heading: string): string[] {
  const [, section = ''] = readFileSync(document, 'utf8').split(new RegExp(`^${heading}\n`, 'm'));
  const blocks = (section.split(/^## /m)[0] ?? '').matchAll(/^( *)```sh\n(.*?)^\1```/gms);
  const lines = [...blocks].flatMap(([, , block = '']) => block.trim().split(/\s*\n\s*/));
  return lines.map((line) => line.replace(/\s{2,}#.*/, ''));
}

function cloneOf(root: string): string {
  const tag = sh(join(root, 'kit'), 'git describe --tags').trim();
  return sh(root, CLONE.replace(/--branch \S+/, `--branch ${tag}`).replace('<address>', './kit'));
}

function smallOf(root: string): string {
  return sh(join(root, 'clone'), `npm run -s init ../${TEAM}`);
}

function addPackage(text: string): string {
  const manifest = JSON.parse(text) as { dependencies: object };
  const { version } = JSON.parse(readFileSync(`node_modules/${PACKAGE}/package.json`, 'utf8')) as { version: string };
  const dependencies = Object.fromEntries(
    Object.entries({ ...manifest.dependencies, [PACKAGE]: version }).toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
  return `${JSON.stringify({ ...manifest, name: TEAM, dependencies }, null, 2)}\n`;
}

/** npm without the network, and without changing node_modules, which is a link to that of this clone. */
const NPM = { npm_config_offline: 'true', npm_config_package_lock_only: 'true' };

/** What the team does before the next release. */
function develop(team: string): void {
  symlinkSync(resolve('node_modules'), join(team, 'node_modules'));
  for (const [path, source] of Object.entries(HANDLERS)) {
    mkdirSync(join(team, path, '..'), { recursive: true });
    writeFileSync(join(team, path), source);
  }
  rmSync(join(team, 'src/handlers/log.ts'));
  edit(team, 'src/events.ts', (text) => text.replace(/\};\n$/, EVENT_TYPE));
  for (const [path, change] of Object.entries(EDITS)) edit(team, path, change);
  sh(team, 'npm install', NPM);
  writeFileSync(join(team, '.env'), 'WEBHOOK_SECRET=whsec_of_the_team\n');
  deleteModules(team, deletedOf(team));
  removeImporters(team);
  sh(team, 'git add --all && git commit --quiet --message "Our receiver"');
}

function deletedOf(team: string) {
  return readModules(team).filter(({ name }) => DELETED.includes(name));
}

/** Runs the commands that merge the release. Returns the conflicts, as git status names them. */
function merge(root: string, way: keyof typeof WAYS, tag: string): string[] {
  const { folder, merge: command } = WAYS[way];
  const merging = (): unknown => sh(join(root, folder), command.replace('v1.1.0', tag));
  expect(merging).toThrow('Automatic merge failed; fix conflicts');
  const status = sh(join(root, TEAM), 'git status --porcelain').split('\n');
  return status.filter((line) => /^(DD|AU|UD|UA|DU|AA|UU) /.test(line));
}

async function resolveConflicts(team: string, conflicts: string[]): Promise<void> {
  const modules = deletedOf(team);
  for (const path of Object.keys(EDITS).filter((one) => conflicts.includes(`UU ${one}`))) resolveByHand(team, path);
  sh(team, KEEP_DELETED);
  const paths = modules.flatMap((module) => module.paths).map((path) => `src/${path}`);
  const lines = modules.flatMap((module) => module.lines).map((path) => `src/${path}`);
  sh(team, DELETE_AGAIN.replace(/src\/\S+( src\/\S+)*/, paths.join(' ')));
  for (const path of lines.filter((one) => conflicts.includes(`UU ${one}`))) resolveByHand(team, path);
  sh(team, LOCK, NPM);
  expect(COMPILE).toBe('npx tsc');
  await removeDependents(team);
  sh(team, COMMIT);
}

/** Takes the release's file, and makes the team's change again. */
function resolveByHand(team: string, path: string): void {
  sh(team, `git checkout --theirs ${path}`);
  const change = EDITS[path];
  if (change) edit(team, path, change);
  else removeLines(join(team, path));
}

/** Conflicts in files that the team has neither changed nor deleted. */
function unexpected(team: string, conflicts: string[], begun: string): string[] {
  const touched = sh(team, `git diff --name-only ${begun} HEAD`).split('\n');
  const deleted = deletedOf(team).flatMap(({ paths }) => paths.map((path) => `src/${path}`));
  return conflicts
    .map((line) => line.slice('UU '.length))
    .filter((path) => !touched.includes(path) && !deleted.some((folder) => path.startsWith(`${folder}/`)));
}

function statesOf(kit: Kit): string[] {
  const rows = `select h.name || ' ' || t.state as it from tasks t join handlers h on h.id = t.handler order by 1`;
  return kit.query<{ it: string }>(rows).map(({ it }) => it);
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kit-update-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

test.each(Object.keys(WAYS) as (keyof typeof WAYS)[])('a team takes an update: %s', async (way) => {
  const root = newFolder();
  const team = join(root, TEAM);
  const first = createKitRepository(join(root, 'kit'));
  sh(root, 'git clone --quiet kit clone');
  symlinkSync(resolve('node_modules'), join(root, 'clone/node_modules'));
  WAYS[way].begin(root);
  const begun = sh(team, 'git rev-parse HEAD').trim();
  develop(team);
  const gate = join(root, 'gate');
  const kit = await newKit({}, { HANDLERS_DIR: join(team, 'src/handlers'), GATE: gate }, [], team);
  await kit.start();
  expect(await deliver(kit, makeEvent(1))).toBe(204);
  await until(() => statesOf(kit).includes('count done'));
  expect(await kit.stop()).toBe(0);
  expect(statesOf(kit)).toEqual(['count done', 'gate ready']);

  const next = releaseNext(join(root, 'kit'));
  expect(sh(join(root, 'kit'), `git diff --name-only ${first} ${next} -- ${YOURS}`)).toBe('');
  const conflicts = merge(root, way, next);
  expect(unexpected(team, conflicts, begun)).toEqual([]);
  if (releaseBefore() === null) expect(conflicts).toEqual([...CONFLICTS, ...WAYS[way].conflicts]);
  for (const path of ['.env.production', 'before-update.db', 'notes.txt']) writeFileSync(join(team, path), '');
  await resolveConflicts(team, conflicts);

  expect(sh(team, 'git status --porcelain')).toBe('?? notes.txt\n');
  const { version } = JSON.parse(readFileSync(join(team, 'package.json'), 'utf8')) as { version: string };
  expect(version).toBe('9.0.0');
  expect(readFileSync(join(team, 'src/receive/refusal-log.ts'), 'utf8')).toMatch(
    /^\/\/ Changed by the team[^]*release\.\n$/,
  );
  expect(await runNode(team, 'node_modules/vitest/vitest.mjs', 'run', '--project', 'handlers')).toMatch(/2 passed/);

  await kit.start();
  expect(await deliver(kit, makeEvent(2))).toBe(204);
  writeFileSync(gate, '');
  await until(() => statesOf(kit).filter((state) => state === 'gate done').length === 2);
  await until(() => statesOf(kit).filter((state) => state === 'count done').length === 2);
  expect(kit.query('select * from counts')).toEqual([{ type: 'MessageReceived', n: 2 }]);
  expect(kit.query('select * from added_by_release')).toEqual([]);
  const [{ user_version: schema } = { user_version: 0 }] = kit.query<{ user_version: number }>('pragma user_version');
  expect(existsSync(join(kit.folder, `events.db.before-${schema}`))).toBe(true);
  expect(await kit.stop()).toBe(0);
});
