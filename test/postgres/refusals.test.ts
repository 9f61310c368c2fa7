// What people are told if the server refuses.
import { expect, test } from 'vitest';
import { faultOf, remedyOf } from '../../src/store/postgres/fault.ts';

const refused = (code: string, message: string): string | undefined =>
  faultOf(Object.assign(new Error(message), { code }), 'db/kit')?.message;

test('a missing right is named, with what to grant', () => {
  expect(refused('42501', 'permission denied for table events')).toBe(
    'db/kit cannot be used: 42501, permission denied for table events. Grant this user create on the database for the first start, and all rights on the schema kit and its tables',
  );
});

test('if no connection is left, the limit of the user is named too', () => {
  expect(remedyOf('53300')).toContain('the connection limit of this user');
});
