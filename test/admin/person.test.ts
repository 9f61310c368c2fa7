// The addresses of one person.
import { expect, test } from 'vitest';
import { isOf } from '../../src/admin/person.ts';

test.each([
  ['15550100', '15550100', true],
  ['+1 (555) 0100', '15550100', true],
  ['15550100', '15550100@s.network', true],
  ['15550100', '155501001', false],
  ['ana@example.com', 'Ana@example.com', true],
])('the address %s matches %s: %s', (address, found, same) => {
  expect(isOf(address)(Buffer.from(JSON.stringify({ a: [{ from: found }] })))).toBe(same);
});
