// Opens the SQLite file with the settings for durability: WAL, synced commits, short waits for locks. The owner
// migrates it once. Network file systems, foreign files and files of a newer kit are refused.
import { closeSync, existsSync, openSync, readFileSync, rmSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { requireComplete, stepsIn } from '../migration-steps.ts';
import type { Migrated } from '../site.ts';
import { StoreError } from '../store.ts';
import { copyBefore } from './backup.ts';
import { guarded, mayPass } from './fault.ts';
import { prepareFolder } from './folder.ts';
import { inodeOf, requireInPlace } from './file-identity.ts';
import { lockStore } from './lock.ts';

export type Connection = Database.Database;

/** Maximum milliseconds that the lock of another process may block the event loop; callers retry asynchronously. */
const BUSY_MS = 30;

const MIGRATIONS = new URL('migrations/', import.meta.url);
/** SQLite's application_id of a store, set by the first migration. */
const APPLICATION = 1_802_072_179;

/** Read once, because a process may have no file descriptor left when it opens its store again. */
const STEPS = stepsIn(MIGRATIONS);
/** Names of the kit's tables, indexes and triggers. */
export const NAMES = STEPS.flatMap((file) => {
  const text = readFileSync(new URL(file, MIGRATIONS), 'utf8');
  return [...text.matchAll(/^create (?:unique )?(?:table|index|trigger) (\w+)/gm)].map(([, name = '']) => name);
});

/** `anyVersion`: the file may be of a newer kit, which is refused otherwise before anything is written. */
export function connect(path: string, { create = false, busyMs = BUSY_MS, anyVersion = false } = {}): Connection {
  requireComplete(STEPS, MIGRATIONS);
  if (create && path !== ':memory:') prepareFolder(path);
  if (!create && !existsSync(path)) {
    throw new StoreError('missing', `there is no store at ${path}: start the receiver once, or set DATABASE_URL`);
  }
  guarded(() => requireInPlace(path, lockStore), path);
  if (create && path !== ':memory:') prepareFile(path);
  return guarded(() => {
    const before = inodeOf(path);
    const opened = new Database(path, { timeout: busyMs, fileMustExist: !create });
    try {
      // Checked before the first statement, because the first statement opens the WAL by the file's name.
      if (inodeOf(path) !== before) throw new StoreError('unwritable', `${path} was replaced while it was opened`);
      refuseForeign(opened, path);
      if (!anyVersion) refuseNewer(opened, path);
      setUp(opened);
      return opened;
    } catch (error) {
      // Otherwise repeated tries would use up the file descriptors of the process.
      opened.close();
      throw error;
    }
  }, path);
}

function setUp(db: Connection): void {
  db.pragma('journal_mode = WAL');
  // This build of SQLite falls back to NORMAL whenever it opens an existing WAL file.
  setSynchronous(db, 'FULL');
  db.pragma('wal_autocheckpoint = 0');
  db.pragma('cache_size = -8000');
  // SQLite clears freed bytes within a database page, so that erased data leaves no copy there.
  db.pragma('secure_delete = fast');
}

/** Call it before anything is written to the file. */
function refuseForeign(db: Connection, path: string): void {
  const tables = db.prepare<[], number>('select count(*) from sqlite_schema').pluck().get();
  if (!tables || db.pragma('application_id', { simple: true }) === APPLICATION) return;
  throw new StoreError(
    'missing',
    `${path} is not a store of this kit, or only a part of one: name another file (DATABASE_URL)`,
  );
}

export function setSynchronous(db: Connection, level: 'FULL' | 'NORMAL'): void {
  db.pragma(`synchronous = ${level}`);
  const set = db.pragma('synchronous', { simple: true });
  if (set !== (level === 'FULL' ? 2 : 1)) throw new StoreError('unwritable', `SQLite refused synchronous = ${level}`);
}

/**
 * Applies missing migrations, each in its own transaction. An existing file is copied first. Undefined: no migration was
 * missing.
 */
export function migrate(db: Connection, path: string, folder = MIGRATIONS): Migrated | undefined {
  const steps = stepsIn(folder);
  requireComplete(steps, folder);
  const from = versionOf(db);
  if (from >= steps.length) return undefined;
  const copy = `${path}.before-${from + 1}`;
  if (from > 0) {
    copyBefore(db, path, copy);
    // Copies with higher numbers are older than a copy that was restored, so they are not of this store.
    for (let n = from + 2; n <= steps.length; n++) rmSync(`${path}.before-${n}`, { force: true });
  }
  try {
    for (const [index, name] of steps.entries()) if (index >= from) applyStep(db, new URL(name, folder), index + 1);
  } catch (error) {
    // The file is unchanged, and the next try needs the room.
    if (versionOf(db) === from) rmSync(copy, { force: true });
    throw error;
  }
  return { from, to: steps.length, ...(from > 0 && { copy }) };
}

function applyStep(db: Connection, file: URL, version: number): void {
  const work = db.transaction(() => {
    db.exec(readFileSync(file, 'utf8'));
    db.pragma(`user_version = ${version}`);
  });
  work.immediate();
}

/** Throws StoreError if the file lacks migrations. Only the owner migrates. */
export function requireVersion(db: Connection, path: string): void {
  if (versionOf(db) < STEPS.length)
    throw new StoreError(
      'missing',
      `the store at ${path} is of an older kit than this code: start the receiver once, or restart it`,
    );
}

function refuseNewer(db: Connection, path: string): void {
  const version = versionOf(db);
  if (version <= STEPS.length) return;
  // The newer kit has made the copy before its first migration.
  const copy = `${path}.before-${STEPS.length + 1}`;
  const since = statSync(copy, { throwIfNoEntry: false })?.mtime.toISOString();
  const back = since ? `; or give up what came since ${since}: stop the kit, then npx kit restore ${copy}` : '';
  throw new StoreError(
    'newer',
    `the store at ${path} was written by a newer kit (${version}): update this clone${back}`,
  );
}

export function versionOf(db: Connection): number {
  return Number(db.pragma('user_version', { simple: true }));
}

/** Creates the file. It holds messages, so only its user may read it. */
function prepareFile(path: string): void {
  try {
    closeSync(openSync(path, 'a', 0o600));
  } catch (error) {
    const words = `${path} cannot be opened for writing: see the disk and the file's owner`;
    throw new StoreError('unwritable', words, error, mayPass(error));
  }
}
