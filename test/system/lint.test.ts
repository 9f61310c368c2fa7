// `npm run check` reports a forgotten await in handlers and templates. The test lints a handler that forgets an await,
// with the same configuration.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';

const OXLINT = resolve('node_modules/oxlint/bin/oxlint');

async function lint(line: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-lint-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const types = { extends: resolve('tsconfig.json'), compilerOptions: { types: [] }, include: ['.'] };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(types));
  const source = `import { defineHandler } from '${resolve('src/kit.ts')}';
export default defineHandler({ on: 'MessageReceived', async handle(event, ctx) { await null; ${line} } });\n`;
  writeFileSync(join(folder, 'handler.ts'), source);
  const args = [OXLINT, '--type-aware', '--deny-warnings', '-c', resolve('.oxlintrc.json'), folder];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: folder }).catch(
    (error: { stdout: string }) => error,
  );
  return stdout;
}

test.each(['ctx.complete(() => {});', `ctx.service.call('GetSession', { id: event.id });`])(
  'a forgotten await is found: %s',
  async (line) => {
    expect(await lint(line)).toContain('no-floating-promises');
    expect(await lint(`await ${line}`)).not.toContain('no-floating-promises');
  },
);

test('npm run check lints handlers and templates with types', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };
  expect(scripts['check:lint']).toBe('oxlint --type-aware --deny-warnings');
  expect(readFileSync('.oxlintrc.json', 'utf8')).not.toContain('ignorePatterns');
});
