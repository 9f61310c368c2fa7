// Which cases `npm run prove -- faults --only <case>` runs.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { EXIT } from '../../src/base/errors.ts';
import { casesOf } from './faults.ts';

const prove = (...args: string[]) => spawnSync(process.execPath, ['test/prove/main.ts', ...args], { encoding: 'utf8' });

test('E50: the files that cases run are there', () => {
  const files = casesOf('').flatMap(({ what }) => what.match(/test\/[\w./-]+\.ts/g) ?? []);
  expect(files.length).toBeGreaterThan(0);
  expect(files.filter((file) => !existsSync(file))).toEqual([]);
});

test('E50: a number chooses its cases, and a text those whose name contains it', () => {
  expect(casesOf('F46').every(({ numbers }) => numbers.includes(46))).toBe(true);
  expect(casesOf('f4').map(({ numbers }) => numbers)).toEqual([[4], [4]]);
  expect(casesOf('1,000 copies')).toHaveLength(1);
  expect(casesOf('F48 1,000 copies of one event at once')).toHaveLength(1);
});

test.each([['F51'], ['F0'], ['no such case']])('E50: an unknown name (%s) lists the cases that there are', (only) => {
  const { status, stderr } = prove('faults', '--only', only);
  expect(status).toBe(EXIT.usage);
  expect(stderr).toContain(`No case is named "${only}"`);
  expect(stderr).toContain('F48 1,000 copies of one event at once');
});

test('E50: --only is refused for a campaign without cases', () => {
  expect(prove('inputs', '--only', 'F46').status).toBe(EXIT.usage);
});

test('E50: one case runs alone, and its row is the only one', () => {
  const { status, stdout } = prove('faults', '--only', '1,000 copies', '--json');
  const { rows } = JSON.parse(stdout) as { rows: { what: string }[] };
  expect(rows.map(({ what }) => what)).toEqual(['F48 1,000 copies of one event at once']);
  expect(status).toBe(EXIT.done);
});
