// Both kinds of stores are fed the same: the catalogue of bad inputs (hazards C1), random bytes and random batches. They
// must answer the same and hold the same rows, which are compared by digests.
import { expect, test } from 'vitest';
import { sqlite } from '../stores.ts';
import { kind as postgres } from './kind.ts';
import { feed } from './both.ts';

/** Fewer would mean that something was not fed. */
const LEAST = { answers: 12_000, rows: 12_000 };

test('SQLite and PostgreSQL give the same answers and hold the same rows', { timeout: 180_000 }, async () => {
  const [one, other] = [await feed(sqlite), await feed(postgres)];
  const answers = one.answers.map((answer, n) => [answer, other.answers[n]]);
  expect(answers.find(([a, b]) => a !== b)?.map((answer) => answer?.slice(0, 1_000))).toBeUndefined();
  expect(other.answers).toHaveLength(one.answers.length);
  expect(one.answers.length).toBeGreaterThan(LEAST.answers);

  expect([...other.tables.keys()]).toEqual([...one.tables.keys()]);
  const differing = [...one.tables].flatMap(([table, { rows, digest }]) => {
    const there = other.tables.get(table);
    if (there?.digest === digest) return [];
    return [{ table, sqlite: firstNotIn(there?.rows ?? [], rows), postgres: firstNotIn(rows, there?.rows ?? []) }];
  });
  expect(differing).toEqual([]);
  const rows = [...one.tables.values()].reduce((sum, table) => sum + table.rows.length, 0);
  expect(rows).toBeGreaterThan(LEAST.rows);
});

function firstNotIn(others: string[], rows: string[]): string | undefined {
  const there = new Set(others);
  return rows.find((row) => !there.has(row))?.slice(0, 1_000);
}
