// The store's interface: a few roles, each small enough to be written again for another store.
import { expect, test } from 'vitest';
import { openSqlite } from '../../src/store/sqlite/open.ts';

/** House rule: the maximum number of methods of a role. */
const MOST = 20;

test('no role of the store has more than twenty methods', () => {
  const store = openSqlite(':memory:', { owner: true });
  const sizes = Object.entries(store).flatMap(([name, role]: [string, unknown]) =>
    typeof role === 'object' && role !== null ? [[name, Object.keys(role).length] as const] : [],
  );
  store.close();
  expect(sizes.length).toBeGreaterThan(5);
  expect(sizes.filter(([, methods]) => methods > MOST)).toEqual([]);
});
