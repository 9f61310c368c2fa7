import { expect, test } from 'vitest';
import { compareCursors, parseCursor, type Cursor } from '../../src/wire/cursor.ts';

test('a cursor is compared as an integer, not as text', () => {
  const cursors = ['10', '9', '9223372036854775807', '0', '100'] as Cursor[];
  expect(cursors.toSorted(compareCursors)).toEqual(['0', '9', '10', '100', '9223372036854775807']);
});

test.each(['', ' 12', '1e3', '0x10', '-1', '01', '١٢', '12abc', '9223372036854775808', '1'.repeat(1000), 12, null])(
  'I38, I39: %j is no cursor',
  (text) => {
    expect(parseCursor(text)).toBeUndefined();
  },
);
