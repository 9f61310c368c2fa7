// A store notes how many migrations it has had. So it is not migrated by a clone that lacks one of them, for example because
// an update was reverted and the next one was merged.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { requireComplete, stepsIn } from '../../src/store/migration-steps.ts';
import { connect, migrate, versionOf } from '../../src/store/sqlite/connection.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kit-steps-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function folderWith(...names: string[]): URL {
  const at = join(folder, 'migrations');
  mkdirSync(at, { recursive: true });
  for (const name of names) writeFileSync(join(at, name), 'create table t (n integer) strict;');
  return pathToFileURL(`${at}/`);
}

test('001 to the last one are complete; other files than .sql do not count', () => {
  const at = folderWith('001.sql', '002.sql', '003.sql', '002.sql.orig', 'README.md');
  expect(stepsIn(at)).toEqual(['001.sql', '002.sql', '003.sql']);
  expect(() => requireComplete(stepsIn(at), at)).not.toThrow();
});

test.each([
  [['001.sql', '003.sql'], 'lacks 002.sql, perhaps because an update was reverted: see git log -- '],
  [['001.sql', '004.sql'], 'lacks 002.sql, 003.sql, '],
  [['002.sql'], 'lacks 001.sql, '],
  [[], 'lacks 001.sql, '],
  [['001.sql', '002.sql', '002b.sql'], '/002b.sql is no migration'],
  [['001.sql', '2.sql'], '/2.sql is no migration'],
  [['000.sql', '001.sql'], '/000.sql is no migration'],
])('%s are refused', (names, words) => {
  const at = folderWith(...names);
  expect(() => requireComplete(stepsIn(at), at)).toThrow(words);
});

test('a store at 1 stays as it is if the clone has 001 and 003', () => {
  const path = join(folder, 'events.db');
  const db = connect(path, { create: true });
  const at = folderWith('001.sql');
  migrate(db, path, at);
  writeFileSync(new URL('003.sql', at), 'create table three (n integer) strict;');
  expect(() => migrate(db, path, at)).toThrow('lacks 002.sql');
  expect(versionOf(db)).toBe(1);
  expect(db.prepare('select name from sqlite_schema').pluck().all()).toEqual(['t']);
  db.close();
});
