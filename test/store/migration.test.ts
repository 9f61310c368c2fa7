// The copy of a store before its migration: only its owner can read it, and a try that fails leaves neither a part of it nor
// a changed store.
import { execFileSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { connect, migrate, versionOf } from '../../src/store/sqlite/connection.ts';
import { lockStore } from '../../src/store/sqlite/lock.ts';
import { StoreError } from '../../src/store/store.ts';

const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;

let folder: string;
let migrations: string;
const mounted: string[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kit-migration-'));
  migrations = join(folder, 'migrations');
  mkdirSync(migrations);
  write('001.sql', 'pragma application_id = 1802072179; create table one (n integer, text text) strict;');
});
afterEach(() => {
  for (const at of mounted.splice(0)) execFileSync('umount', ['-l', at]);
  rmSync(folder, { recursive: true, force: true });
});

function write(name: string, text: string): void {
  writeFileSync(join(migrations, name), text);
}

/** A store of the first migration in a folder of its own. */
function storeIn(at = join(folder, 'data')): { db: Database.Database; path: string; run: () => unknown } {
  const path = join(at, 'events.db');
  const db = connect(path, { create: true });
  onTestFinished(() => void db.close());
  const run = (): unknown => migrate(db, path, pathToFileURL(`${migrations}/`));
  run();
  return { db, path, run };
}

const beside = (path: string): string[] =>
  readdirSync(join(path, '..')).filter((name) => name.startsWith('events.db.before'));

/** Mounts a disk of a few megabytes. Undefined without the right to mount. */
function smallDisk(): string | undefined {
  const at = join(folder, 'disk');
  mkdirSync(at);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', at], { stdio: 'ignore' });
  } catch {
    return undefined;
  }
  mounted.push(at);
  return at;
}

test('the copy is named, and readable for its owner alone', () => {
  const { path, run } = storeIn();
  write('002.sql', 'alter table one add column m integer;');
  expect(run()).toEqual({ from: 1, to: 2, copy: `${path}.before-2` });
  expect(statSync(`${path}.before-2`).mode & 0o777).toBe(0o600);
  expect(run(), 'nothing is left to migrate').toBeUndefined();
});

test.skipIf(!isRoot)('if root migrates, the copy belongs to the owner of the store', () => {
  const { path, run } = storeIn();
  chownSync(path, NOBODY, NOBODY);
  write('002.sql', 'alter table one add column m integer;');
  run();
  expect(statSync(`${path}.before-2`)).toMatchObject({ uid: NOBODY, gid: NOBODY });
});

test.skipIf(!isRoot)('the lock file that root makes belongs to the owner of the folder, who alone can read it', () => {
  const at = join(folder, 'data');
  mkdirSync(at);
  chownSync(at, NOBODY, NOBODY);
  lockStore(join(at, 'events.db')).close();
  const { uid, mode } = statSync(join(at, 'events.db-owner'));
  expect([uid, mode & 0o777]).toEqual([NOBODY, 0o600]);
});

test('a migration that fails leaves no copy, and the next one makes it', () => {
  const { db, path, run } = storeIn();
  write('002.sql', 'create table one (n integer) strict;');
  expect(run).toThrow('already exists');
  expect(beside(path)).toEqual([]);
  write('002.sql', 'create table two (n integer) strict;');
  run();
  expect([versionOf(db), ...beside(path)]).toEqual([2, 'events.db.before-2']);
});

test('a migration that fails after another has succeeded keeps the copy from before both', () => {
  const { db, path, run } = storeIn();
  write('002.sql', 'create table two (n integer) strict;');
  write('003.sql', 'create table one (n integer) strict;');
  expect(run).toThrow('already exists');
  expect([versionOf(db), ...beside(path)]).toEqual([2, 'events.db.before-2']);
});

test('a copy that fails leaves nothing beside the store', () => {
  const { db, path } = storeIn();
  for (let n = 0; n < 3; n++) db.exec(`insert into one values (${n}, hex(zeroblob(100000)))`);
  db.pragma('wal_checkpoint(TRUNCATE)');
  const bytes = readFileSync(path);
  writeFileSync(path, bytes.fill(0x55, 8_192, 12_288));
  write('002.sql', 'alter table one add column m integer;');
  const damaged = connect(path, { create: true });
  expect(() => migrate(damaged, path, pathToFileURL(`${migrations}/`))).toThrow('malformed');
  expect([versionOf(damaged), ...beside(path)]).toEqual([1]);
  damaged.close();
});

test('without room for the copy, nothing is begun: the error says how much is missing, and may pass', ({ skip }) => {
  const at = smallDisk();
  skip(at === undefined, 'no right to mount a disk');
  const { db, path, run } = storeIn(at);
  db.exec(`insert into one values (1, hex(zeroblob(1000000)))`);
  write('002.sql', 'alter table one add column m integer;');
  const refused = refusalOf(run);
  expect(refused.message).toMatch(/is copied before it is migrated: \d+ MB are free, and the copy takes \d+ MB/);
  expect(refused.passes).toBe(true);
  expect([versionOf(db), ...beside(path)]).toEqual([1]);
  db.exec('delete from one');
  db.exec('vacuum');
  db.pragma('wal_checkpoint(TRUNCATE)');
  run();
  expect(existsSync(`${path}.before-2`)).toBe(true);
});

function refusalOf(work: () => unknown): StoreError {
  try {
    work();
  } catch (error) {
    if (error instanceof StoreError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}
