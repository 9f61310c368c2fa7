// The table of `npm run -s contract`, and that the tests name every section that concerns the kit and every reason.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { REASONS } from './reasons.ts';
import { statementsOf, tableOf, type Report } from './table.ts';

type Result = Report['testResults'][number]['assertionResults'][number];

const result = (title: string, status = 'passed', meta: Result['meta'] = {}): Result => ({ title, status, meta });
const reportOf = (...assertionResults: Result[]): Report => ({
  testResults: [{ name: '/kit/test/contract/one.test.ts', assertionResults }],
});
const statementsIn = (...results: Result[]) => statementsOf(reportOf(...results), '/kit');

test('each title that begins with a section is a row, by section; other titles are left out', () => {
  const titles = ['10: a', '2.10: b', '2.9, 7.1: c', '2: d: e', 'E28: f', 'the 2: g', '4.1:h'];
  expect(statementsIn(...titles.map((title) => result(title)))).toEqual([
    { section: '2', statement: 'd: e', test: 'test/contract/one.test.ts', holds: true },
    { section: '2.9, 7.1', statement: 'c', test: 'test/contract/one.test.ts', holds: true },
    { section: '2.10', statement: 'b', test: 'test/contract/one.test.ts', holds: true },
    { section: '10', statement: 'a', test: 'test/contract/one.test.ts', holds: true },
  ]);
});

test.each([
  ['passed', {}, true],
  ['failed', {}, false],
  ['skipped', {}, false],
  ['passed', { holds: false }, false],
  ['failed', { holds: false }, true],
  ['skipped', { holds: false }, false],
])('a statement whose test is %s, with %j, holds: %s', (status, meta, holds) => {
  expect(statementsIn(result('2: a', status, meta))).toMatchObject([{ holds }]);
});

test('a run without statements is an error, and no table of which everything holds', () => {
  expect(() => statementsIn()).toThrow('no test has a statement');
  expect(() => statementsIn(result('a test'))).toThrow('no test has a statement');
});

test('no line has more than 160 columns', () => {
  const { head, rows } = tableOf(statementsIn(result(`2: ${'long '.repeat(50)}`), result('7.1, 7.2, 7.3: short')));
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)));
  expect(widths.reduce((sum, width) => sum + width) + 2 * (head.length - 1)).toBe(160);
  expect(rows).toMatchObject([
    ['2', expect.stringMatching(/long…$|…$/), 'test/contract/one.test.ts', 'yes'],
    ['7.1, 7.2, 7.3', 'short', 'test/contract/one.test.ts', 'yes'],
  ]);
});

/** The sections of the contract that concern the kit. Sections 2.15, 3.5 and 5.7 concern the service alone. */
const SECTIONS = [
  ...['2', '2.1', '2.2', '2.3', '2.4', '2.5', '2.6', '2.7', '2.8', '2.9', '2.10', '2.11', '2.12', '2.13', '2.14'],
  ...['2.16', '3.1', '3.2', '3.3', '3.4', '4.1', '4.2', '4.3', '4.4', '4.5', '5.1', '5.2', '5.3', '5.4', '5.5', '5.6'],
  ...['6.1', '6.2', '6.3', '6.4', '7.1', '7.2', '7.3', '7.4', '8', '9'],
];

test('every section that concerns the kit has a statement, and no test names another section', () => {
  const files = readdirSync(import.meta.dirname).filter((file) => /^(?!table).*\.test\.ts$/.test(file));
  const text = files.map((file) => readFileSync(join(import.meta.dirname, file), 'utf8')).join('\n');
  const named = [...text.matchAll(/\b(?:holds(?:\.not)?|prove|table)\(\s*'([\d.]+)'/g)].map(
    ([, section = '']) => section,
  );
  expect(new Set(named)).toEqual(new Set(SECTIONS));
});

// Each listed reason is a row: errors-and-limits.test.ts makes a test of it.
test('the list of reasons has the 68 of contract 7.4, each once', () => {
  expect(new Set(REASONS.map(([reason]) => reason)).size).toBe(REASONS.length);
  expect(REASONS).toHaveLength(68);
});

test('each reason that the simulator sends is listed with the same status, and its tests name it', () => {
  const root = join(import.meta.dirname, '..', '..');
  const textOf = (folder: string): string =>
    readdirSync(join(root, folder))
      .map((file) => readFileSync(join(root, folder, file), 'utf8'))
      .join('\n');
  const source = textOf('src/tools/simulator');
  const tests = textOf('test/tools/simulator');
  const sent = [...source.matchAll(/\((\d{3}), '([A-Z_]+)'/g)].map(([, status, reason = '']) => ({ status, reason }));
  expect(sent.length).toBeGreaterThan(30);
  const listed = REASONS.map(([reason, status]) => `${status} ${reason}`);
  // Contract 4.2 names this reason without a status.
  const known = [...listed, '409 ASSIGNMENT_CONFLICT'];
  expect(sent.filter(({ status, reason }) => !known.includes(`${status} ${reason}`))).toEqual([]);
  expect(sent.filter(({ reason }) => !tests.includes(reason))).toEqual([]);
});
