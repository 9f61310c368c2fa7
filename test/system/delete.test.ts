// A team can delete each module. The project is copied without the module, as the table in src/README.md says. The copy
// must type-check, start, accept and handle. Without any module, the tests of the core must pass.
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { open } from '../../src/store/open.ts';
import { deliver, makeEvent, SECRET, until } from './kit.ts';
import { kitCommand } from './kit-command.ts';
import { newKit } from './new-kit.ts';
import { deleteModules, readModules, removeDependents, runNode } from './modules.ts';

const MODULES = readModules();
const CORE_TESTS = ['wire', 'store', 'processes', 'receive', 'run', 'keep'].map((room) => `test/${room}`);
const COPIED = [
  '.oxlintrc.json',
  'package.json',
  'tsconfig.json',
  'vitest.config.ts',
  'compose.yaml',
  'src',
  'templates',
  'test',
];

/** The part of Vitest's JSON report that this test reads. */
interface Report {
  testResults: { assertionResults: { fullName: string; status: string; failureMessages: string[] }[] }[];
}

async function copyWithout(modules: typeof MODULES): Promise<string> {
  const copy = mkdtempSync(join(tmpdir(), 'kit-delete-'));
  onTestFinished(() => rmSync(copy, { recursive: true, force: true }));
  for (const name of COPIED) cpSync(name, join(copy, name), { recursive: true });
  symlinkSync(resolve('node_modules'), join(copy, 'node_modules'));
  deleteModules(copy, modules);
  await removeDependents(copy);
  return copy;
}

test('the table in src/README.md lists every module', () => {
  expect(MODULES.map(({ name }) => name)).toEqual([
    'cli',
    'ops',
    'admin',
    'alarms',
    'backups',
    'reconcile',
    'service',
    'postgres',
    'tools',
  ]);
});

test.each(MODULES)(
  'without $name the kit type-checks, has no fault of lint, starts, accepts and handles',
  async (module) => {
    const copy = await copyWithout([module]);
    await runNode(copy, 'node_modules/oxlint/bin/oxlint', '--deny-warnings', 'src');
    const kit = await newKit({}, { HANDLERS_DIR: join(copy, 'src/handlers') }, [], copy);
    await kit.start();
    expect(await deliver(kit, makeEvent(1))).toBe(204);
    await until(() => kit.query(`select 1 from tasks where state = 'done'`).length === 1);
    expect(await kit.stop()).toBe(0);
  },
);

test('an alarm that was up when the module alarms was deleted goes with it', async () => {
  const [alarms] = MODULES.filter(({ name }) => name === 'alarms');
  const copy = await copyWithout(alarms ? [alarms] : []);
  const kit = await newKit({}, {}, [], copy);
  const store = open(`sqlite:${kit.folder}/events.db`, { owner: true });
  await store.alarms.raise('secret_mismatch', 'of a kit with alarms', 1);
  store.close();
  await kit.start();
  await until(() => kit.query('select 1 from alarms').length === 0);
  const env = { DATABASE_URL: `sqlite:${kit.folder}/events.db`, WEBHOOK_SECRET: SECRET };
  const [status, doctor] = await Promise.all([['status'], ['doctor']].map((args) => kitCommand(kit, env, args, copy)));
  expect(status?.out).toContain('This kit has no alarms (src/alarms)');
  expect(doctor?.out).toMatch(/^ok +store file/m);
  expect(doctor?.out).not.toContain('alarms');
  expect(await kit.stop()).toBe(0);
});

test('without any module the tests of the core pass', { timeout: 600_000 }, async () => {
  const copy = await copyWithout(MODULES);
  const args = [
    '--project',
    'unit',
    '--exclude',
    '**/documents.test.ts',
    '--reporter=json',
    '--outputFile=report.json',
  ];
  const ended = await runNode(copy, 'node_modules/vitest/vitest.mjs', 'run', ...args, ...CORE_TESTS).catch(String);
  const report = JSON.parse(readFileSync(join(copy, 'report.json'), 'utf8')) as Report;
  const tests = report.testResults.flatMap(({ assertionResults }) => assertionResults);
  expect(tests.filter(({ status }) => status !== 'passed')).toEqual([]);
  expect(ended).not.toMatch(/^Error/);
  expect(tests.length).toBeGreaterThan(1_000);
});
