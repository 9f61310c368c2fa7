// The processes of the kit look each second for a few marked tasks. With a million waiting tasks, a look that reads them
// all would stop deliveries.
import Database from 'better-sqlite3';
import { expect, onTestFinished, test, vi } from 'vitest';
import { openSqlite } from '../../src/store/sqlite/open.ts';

test.each([
  ['isolated = 1', 'tasks_isolated'],
  ['rerun > 0', 'tasks_rerun'],
])('statements that look for tasks with %s find them by %s', (mark, index) => {
  const prepare = vi.spyOn(Database.prototype, 'prepare');
  const store = openSqlite(':memory:', { owner: true });
  onTestFinished(() => {
    prepare.mockRestore();
    store.close();
  });
  const looks = prepare.mock.calls.flatMap(([sql], n) => {
    if (!sql.trimStart().startsWith('select') || !sql.includes(mark)) return [];
    const db = prepare.mock.contexts[n] as Database.Database;
    const plan = db.prepare<unknown[], { detail: string }>(`explain query plan ${sql.replaceAll(/@\w+|\?/g, '1')}`);
    return [plan.all().map(({ detail }) => detail)];
  });
  expect(looks.length).toBeGreaterThan(1);
  for (const look of looks) expect(look).toContainEqual(expect.stringContaining(index));
});
