// The migrations of a kind of store: 001.sql, 002.sql and so on. The store notes only how many it has had, so one that is
// missing would never be applied, and those after it under wrong numbers.
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { inProject } from '../base/errors.ts';
import { StoreError } from './store.ts';

/** The names of the migrations in order, complete or not. */
export function stepsIn(folder: URL): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .toSorted();
}

/** Throws StoreError unless these are exactly 001.sql to the last one. */
export function requireComplete(steps: string[], folder: URL): void {
  const at = inProject(fileURLToPath(folder).replace(/\/$/, ''));
  const other = steps.find((name) => !/^(?!000)\d{3}\.sql$/.test(name));
  if (other !== undefined)
    throw new StoreError('missing', `${at}/${other} is no migration, their names are 001.sql and so on: take it out`);
  const last = Math.max(1, ...steps.map((name) => Number.parseInt(name, 10)));
  const all = Array.from({ length: last }, (_, index) => `${String(index + 1).padStart(3, '0')}.sql`);
  const lacking = all.filter((name) => !steps.includes(name)).join(', ');
  if (lacking === '') return;
  const words = `${at} lacks ${lacking}, perhaps because an update was reverted: see git log -- ${at}, then revert the revert, or git checkout <tag of the release> -- ${at}`;
  throw new StoreError('missing', words);
}
