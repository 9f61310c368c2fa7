// Every file in the folder of commands is listed by `npx kit`.
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Command } from '../../src/cli/lib/command.ts';

const names = readdirSync('src/cli/commands').map((file) => file.replace(/\.ts$/, ''));

function kit(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  return new Promise((done) => {
    const child = execFile(process.execPath, ['src/cli/kit.js', ...args], (_, out, err) =>
      done({ code: child.exitCode ?? -1, out, err }),
    );
  });
}

test('--help lists each command of the folder, with its summary', async () => {
  expect(names.length).toBeGreaterThan(10);
  const { code, out } = await kit('--help');
  expect(code).toBe(0);
  const listed = [...out.matchAll(/^ {2}(\w+) +(\S.+)$/gm)].map(([, name, summary]) => [name, summary]);
  const expected: [string, string][] = [];
  for (const name of names.toSorted()) {
    const { default: command } = (await import(`../../src/cli/commands/${name}.ts`)) as { default: Command };
    expect(command.usage, 'usage begins with the name').toMatch(new RegExp(`^${name}\\b`));
    for (const line of `Usage: npx kit ${command.usage}`.split('\n'))
      expect(line.length, line).toBeLessThanOrEqual(100);
    expected.push([name, command.summary]);
  }
  expect(listed).toEqual(expected);
});

test('--help after a command prints its usage; no command, and an unknown command, are wrong usage', async () => {
  expect(await kit('gaps', '--help')).toMatchObject({ code: 0, out: expect.stringContaining('Usage: npx kit gaps') });
  expect((await kit()).code).toBe(2);
  for (const name of ['nope', '../main', 'constructor', 'status.ts'])
    expect(await kit(name)).toMatchObject({ code: 2, out: '', err: expect.stringContaining('npx kit --help') });
});

test('a misspelt command is answered with the nearest one', async () => {
  expect((await kit('sttaus')).err).toBe(
    'there is no command "sttaus": did you mean status? npx kit --help lists them\n',
  );
});

test('--version names the kit and its commit on one line, also of a kit that does not start', async () => {
  vi.stubEnv('DATABASE_URL', 'nonsense');
  onTestFinished(() => void vi.unstubAllEnvs());
  expect(await kit('--version')).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^\S+ [\d.]+, schema .+, commit .+\n$/),
  });
  const { out } = await kit('--version', '--json');
  expect(JSON.parse(out)).toMatchObject({ node: process.versions.node, schemas: { sqlite: expect.any(Number) } });
});
