// `npm run check` in a project whose parts the test chooses.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

const PARTS = ['check:types', 'check:lint', 'check:format', 'check:unused'];

function check(failing: string[]): { status: number | null; out: string } {
  const cwd = mkdtempSync(join(tmpdir(), 'kit-check-'));
  onTestFinished(() => rmSync(cwd, { recursive: true }));
  const scripts = PARTS.map((part) => [part, `echo ran ${part}; exit ${failing.includes(part) ? 1 : 0}`]);
  writeFileSync(join(cwd, 'package.json'), JSON.stringify({ scripts: Object.fromEntries(scripts) as object }));
  const { status, stdout, stderr } = spawnSync(process.execPath, [resolve('test/check.ts')], { cwd, encoding: 'utf8' });
  return { status, out: `${stdout}${stderr}` };
}

test('every part runs even if one has failed; each failed part says how to fix it, and the exit code tells', () => {
  const { status, out } = check(['check:types', 'check:format']);
  for (const part of PARTS) expect(out).toContain(`ran ${part}`);
  expect(out).toMatch(/✗ check:types: correct the types\n✗ check:format: npm run format\n$/);
  expect(status).toBe(1);
});

test('without a failure the exit code is 0', () => {
  const { status, out } = check([]);
  expect(out).toContain('✓ every part holds');
  expect(status).toBe(0);
});

test('its parts are scripts of package.json', () => {
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };
  expect(Object.keys(scripts).filter((name) => name.startsWith('check:'))).toEqual(PARTS);
});
