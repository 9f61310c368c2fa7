// Runs `npx kit new` as people do, in a folder of its own.
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'kit-new-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const templates = readdirSync('templates')
  .filter((file) => /^[^.]+\.ts$/.test(file))
  .map((file) => file.replace('.ts', ''));

function run(script: string, args: string[], cwd = folder, env = {}): Promise<{ code: number; output: string }> {
  return new Promise((done) => {
    const child = execFile(
      process.execPath,
      [resolve(script), ...args],
      { cwd, env: { ...process.env, ...env } },
      (_, out, err) => done({ code: child.exitCode ?? -1, output: out + err }),
    );
  });
}
const kitNew = (...args: string[]) => run('src/cli/kit.js', ['new', ...args]);

test('kit new without arguments lists every template with the first sentence of its header', async () => {
  const { code, output } = await kitNew('--json');
  expect(code).toBe(0);
  const list = JSON.parse(output) as { name: string; line: string }[];
  expect(list.map(({ name }) => name)).toEqual(templates);
  for (const { name, line } of list) {
    expect(line).toMatch(/^[A-Z].{10,100}\.$/);
    const header = readFileSync(`templates/${name}.ts`, 'utf8').split('import')[0] ?? '';
    expect(header.replaceAll(/\n?\/\/ /g, ' ')).toContain(line);
    // Every header says when to use the template, its lane and freshness, what it needs and what it assumes.
    expect(header).toMatch(/ Use it .* Lane: .* Freshness: .* Needs: .* Assumed: /s);
  }
  expect((await kitNew()).output).toContain(list[0]?.line);
});

test('a new handler passes its new test, also outside the repository', async () => {
  for (const template of templates) {
    const { code, output } = await kitNew(template, `my-${template}`);
    expect(output).toContain(`src/handlers/my-${template}.ts`);
    expect(output).toContain(`npm test -- test/handlers/my-${template}.test.ts`);
    expect(code).toBe(0);
  }
  // The folder is outside of the repository, so it needs a configuration that resolves '#kit'.
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  const config = `import { resolve } from '${resolve('vitest.config.ts')}';\nexport default { resolve };\n`;
  writeFileSync(join(folder, 'vitest.config.mjs'), config);
  const { code, output } = await run(resolve('node_modules/vitest/vitest.mjs'), ['run'], folder, { NO_COLOR: '1' });
  expect(output).toMatch(new RegExp(`Test Files +${templates.length} passed`));
  expect(code).toBe(0);
}, 60_000);

test('it overwrites neither handler nor test', async () => {
  expect((await kitNew('opt-out', 'mine')).code).toBe(0);
  const handler = join(folder, 'src/handlers/mine.ts');
  writeFileSync(handler, '// changed');
  const { code, output } = await kitNew('notify', 'mine');
  expect([code, output]).toEqual([1, `${handler} is there already: choose another name\n`]);
  expect(readFileSync(handler, 'utf8')).toBe('// changed');
  rmSync(handler);
  expect((await kitNew('notify', 'mine')).code).toBe(1);
  expect(existsSync(handler)).toBe(false);
});

test.each([
  [['nothing', 'mine'], 'there is no template "nothing"'],
  [['notify'], 'one name is needed'],
  [['notify', '../mine'], 'the name begins with'],
])('kit new %j is wrong usage', async (args, words) => {
  const { code, output } = await kitNew(...args);
  expect(code).toBe(2);
  expect(output).toContain(words);
});
