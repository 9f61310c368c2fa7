// `npm run check` reports a forgotten await in handlers and templates, and finds nothing in the kit's files when a team
// adds its own. The tests lint such files with the same configuration.
import { execFile } from 'node:child_process';
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';

const OXLINT = resolve('node_modules/oxlint/bin/oxlint');

function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kit-lint-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function reportOf(folder: string, paths: string[]): Promise<string> {
  return outputOf([OXLINT, '--type-aware', '--deny-warnings', '-c', resolve('.oxlintrc.json'), ...paths], folder);
}

async function outputOf(args: string[], folder: string): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder }).catch(
    (error: { stdout: string }) => error,
  );
  return stdout;
}

async function lint(line: string): Promise<string> {
  const folder = emptyFolder();
  const types = { extends: resolve('tsconfig.json'), compilerOptions: { types: [] }, include: ['.'] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(types));
  const source = `import { defineHandler } from '${resolve('src/kit.ts')}';
export default defineHandler({ on: 'MessageReceived', async handle(event, ctx) { await null; ${line} } });\n`;
  writeFileSync(join(folder, 'handler.ts'), source);
  return reportOf(folder, [folder]);
}

test.each(['ctx.complete(() => {});', `ctx.service.call('GetSession', { id: event.id });`])(
  'a forgotten await is found: %s',
  async (line) => {
    expect(await lint(line)).toContain('no-floating-promises');
    expect(await lint(`await ${line}`)).not.toContain('no-floating-promises');
  },
);

test('a handler in JavaScript and an own app bring no findings of lint and of unused files', async () => {
  const folder = emptyFolder();
  cpSync('src', join(folder, 'src'), { recursive: true });
  for (const file of ['package.json', 'tsconfig.json', 'knip.json']) cpSync(file, join(folder, file));
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  const plain = `import { defineHandler } from '#kit';
export default defineHandler({ on: 'MessageReceived', handle({ data }, ctx) { ctx.log.info({ is: data.is_group }); } });\n`;
  writeFileSync(join(folder, 'src/handlers/plain.js'), plain);
  const own = /```ts\n(\/\/ app\/counts\.ts[^]*?)```/.exec(readFileSync('src/handlers/README.md', 'utf8'))?.[1] ?? '';
  mkdirSync(join(folder, 'app'));
  writeFileSync(join(folder, 'app/counts.ts'), own);
  const paths = ['app', 'src/handlers', ...globSync('src/**/*.js')];
  expect(await reportOf(folder, paths)).toMatch(/^Found 0 warnings and 0 errors\.$/m);
  const unused = await outputOf([resolve('node_modules/knip/bin/knip.js'), '--include', 'files'], folder);
  expect(unused.match(/^(app|src)\/.*/gm)).toBe(null);
});

test('npm run check lints handlers and templates with types', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };
  expect(scripts['check:lint']).toBe('oxlint --type-aware --deny-warnings');
  expect(readFileSync('.oxlintrc.json', 'utf8')).not.toContain('ignorePatterns');
});
