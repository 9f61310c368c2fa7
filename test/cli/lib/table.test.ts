// Tables on a narrow terminal: cells that people copy or compare are not cut.
import { stripVTControlCharacters } from 'node:util';
import { afterEach, expect, test, vi } from 'vitest';
import { printTable } from '../../../src/cli/lib/table.ts';

const { isTTY, columns } = process.stdout;
afterEach(() => {
  Object.assign(process.stdout, { isTTY, columns });
  vi.restoreAllMocks();
});

/** The lines of a table on a terminal with `room` columns. If `room` is undefined, the table goes to a pipe. */
function printed(room: number | undefined, ...table: Parameters<typeof printTable>): string[] {
  let text = '';
  vi.spyOn(process.stdout, 'write').mockImplementation((part) => ((text += String(part)), true));
  Object.assign(process.stdout, { isTTY: room !== undefined, columns: room });
  printTable(...table);
  return stripVTControlCharacters(text)
    .trimEnd()
    .split('\n')
    .map((line) => line.trimEnd());
}

const HEAD = ['received', 'key', 'type', 'session', 'again'];
const ROW = [
  '2026-01-31T12:34:56.789Z',
  'c:1795327194052045843',
  'MessageReceived',
  'd6db3486-2611-49fd-a8fe-e0942b7a23b6',
  3,
];

test('on eighty columns, a long cell is cut, but neither a key nor a time', () => {
  const [, row = ''] = printed(80, HEAD, [ROW]);
  expect(row).toMatch(/^01-31 12:34:56 {2}c:1795327194052045843 {2}MessageReceived {2}d6db[-\w]+… +3$/);
  expect(row.length).toBeLessThanOrEqual(80);
});

test('E65: columns give way in the order of their importance before a cell is cut', () => {
  const head = ['group', 'dead', 'handler', 'first', 'last', 'cause'];
  const times = ['2026-01-31T12:34:56.789Z', '2026-01-31T12:34:56.789Z'];
  const rows = [[1, 2, 'answer', ...times, 'TypeError: the cause is what matters']];
  const least = { least: ['first', 'last'] };
  expect(printed(120, head, rows, least)[0]).toMatch(/^group +dead +handler +first +last +cause$/);
  expect(printed(85, head, rows, least)).toEqual([
    'group  dead  handler  last            cause',
    '1      2     answer   01-31 12:34:56  TypeError: the cause is what matters',
  ]);
  expect(printed(60, head, rows, least)[1]).toBe('1      2     answer   TypeError: the cause is what matters');
  expect(printed(40, head, rows, least)[1]).toBe('1      2     answer   TypeError: the ca…');
});

test('a table without rows is one line', () => {
  expect(printed(80, HEAD, [], { none: 'no event matches' })).toEqual(['no event matches']);
});

test('a key that does not fit stays whole, and the line is longer than the terminal', () => {
  expect(printed(20, HEAD, [ROW])[1]).toContain('c:1795327194052045843');
});

test('with enough room, and in a pipe, nothing is cut', () => {
  for (const room of [160, undefined]) expect(printed(room, HEAD, [ROW])[1]).toBe(ROW.join('  '));
});

test.each([
  ['East Asian signs', '日本語', 6],
  ['an emoji of several parts', '👩‍👩‍👧', 2],
  ['a letter with an accent of its own', 'e\u0301', 1],
])('%s count as wide as a terminal shows them, so the next column is aligned', (_, sign, width) => {
  const [, row = '', below = ''] = printed(
    undefined,
    ['word', 'next'],
    [
      [sign, 'x'],
      ['plain', 'x'],
    ],
  );
  const column = Math.max(width, 'plain'.length) + 2;
  expect(row).toBe(`${sign}${' '.repeat(column - width)}x`);
  expect(below).toBe(`plain${' '.repeat(column - 'plain'.length)}x`);
});

test('a cell is cut between two characters, never inside one', () => {
  const [, row = ''] = printed(20, ['name', 'at'], [['👩‍👩‍👧'.repeat(12), '2026-01-31T12:34:56.789Z']]);
  expect(row).toMatch(/^(👩‍👩‍👧){3}… +01-31 12:34:56$/u);
});
