// The table of refused deliveries in src/ops/troubleshooting.md has one row for each cause, with its status and its log
// text, and no other rows.
import { expect, test } from 'vitest';
import { REFUSALS } from '../../src/receive/causes.ts';
import { rowsUnder } from '../documents.ts';

const rows = rowsUnder('src/ops/troubleshooting.md', 'Refused deliveries').map(([status, cause = '', words = '']) => ({
  status: Number(status),
  cause: cause.replaceAll('`', ''),
  words: words.replaceAll('`', ''),
}));

test('the document has a row for each refusal', () => {
  expect(rows.length).toBeGreaterThan(10);
  expect(rows.map(({ cause }) => cause).toSorted()).toEqual(Object.keys(REFUSALS).toSorted());
});

test.each(rows)('$status $cause: $words', ({ status, cause, words }) => {
  const { status: answered, log } = REFUSALS[cause as keyof typeof REFUSALS];
  expect(status).toBe(answered);
  expect(log).toContain(words);
});
