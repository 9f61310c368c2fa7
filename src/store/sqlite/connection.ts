// Opens the SQLite file the one way that keeps the promises: WAL, every commit synced, short waits for locks.
// Migrates it, once, by its owner. Refuses network file systems, foreign files and files of a newer kit.
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { StoreError } from '../store.ts';

export type Connection = Database.Database;

/** A lock held elsewhere blocks the loop for this long at the most; callers try again, awaited. */
const BUSY_MS = 30;

const MIGRATIONS = new URL('migrations/', import.meta.url);
/** SQLite's application_id of a store, as the first migration sets it. */
const APPLICATION = 1_802_072_179;

/** statfs types of file systems on which SQLite's locks or syncs cannot be relied on. */
const NETWORK = new Map([
  [0x6969, 'NFS'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB'],
  [0x517b, 'SMB'],
  [0x01021997, '9p'],
  [0x00c36400, 'Ceph'],
  [0x5346414f, 'AFS'],
]);

export function connect(path: string, { create = false, busyMs = BUSY_MS } = {}): Connection {
  if (create && path !== ':memory:') prepareFolder(path);
  if (!create && !existsSync(path)) {
    throw new StoreError('missing', `there is no store at ${path}: start the receiver once, or set DATABASE_URL`);
  }
  if (create && path !== ':memory:') prepareFile(path);
  return guarded(() => {
    const opened = new Database(path, { timeout: busyMs, fileMustExist: !create });
    try {
      prepare(opened, path);
    } catch (error) {
      // Who cannot open it tries again and again.
      opened.close();
      throw error;
    }
    return opened;
  }, path);
}

function prepare(opened: Connection, path: string): void {
  refuseForeign(opened, path);
  opened.pragma('journal_mode = WAL');
  // SQLite is compiled here to fall back to NORMAL whenever an existing WAL file is opened.
  setSynchronous(opened, 'FULL');
  opened.pragma('wal_autocheckpoint = 0');
  opened.pragma('cache_size = -8000');
  // What moves within a page leaves no copy behind, so that what is erased is gone.
  opened.pragma('secure_delete = fast');
}

/** Before anything is written to it. */
function refuseForeign(db: Connection, path: string): void {
  const tables = db.prepare<[], number>('select count(*) from sqlite_schema').pluck().get();
  if (!tables || db.pragma('application_id', { simple: true }) === APPLICATION) return;
  throw new StoreError('missing', `${path} is not a store of this kit: set DATABASE_URL to another file`);
}

export function setSynchronous(db: Connection, level: 'FULL' | 'NORMAL'): void {
  db.pragma(`synchronous = ${level}`);
  const set = db.pragma('synchronous', { simple: true });
  if (set !== (level === 'FULL' ? 2 : 1)) throw new StoreError('unwritable', `SQLite refused synchronous = ${level}`);
}

/** Applies what is missing, each in a transaction of its own; the file is copied before, unless it is new. */
export function migrate(db: Connection, path: string, folder = MIGRATIONS): void {
  const steps = stepsIn(folder);
  const version = versionOf(db);
  refuseNewer(version, steps.length, path);
  if (version > 0 && version < steps.length) {
    const copy = `${path}.before-${version + 1}`;
    // One that is there is of a migration that failed and left the file as it was.
    rmSync(copy, { force: true });
    db.prepare('vacuum into ?').run(copy);
  }
  for (const [index, name] of steps.entries()) {
    if (index < version) continue;
    db.transaction(() => {
      db.exec(readFileSync(new URL(name, folder), 'utf8'));
      db.pragma(`user_version = ${index + 1}`);
    }).immediate();
  }
}

/** For everyone but the owner, who migrates. */
export function requireVersion(db: Connection, path: string): void {
  const version = versionOf(db);
  const newest = stepsIn(MIGRATIONS).length;
  refuseNewer(version, newest, path);
  if (version < newest)
    throw new StoreError('missing', `the store at ${path} is of an older kit: start the receiver once`);
}

function refuseNewer(version: number, newest: number, path: string): void {
  if (version <= newest) return;
  throw new StoreError('newer', `the store at ${path} was written by a newer kit (${version}): update this clone`);
}

function stepsIn(folder: URL): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .toSorted();
}

export function versionOf(db: Connection): number {
  return Number(db.pragma('user_version', { simple: true }));
}

/** Runs it, and says in our words what SQLite says in its own. */
export function guarded<T>(work: () => T, path = 'the store'): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Database.SqliteError)) throw error;
    if (error.code.startsWith('SQLITE_BUSY'))
      throw new StoreError('busy', `${path} is locked by another process`, error);
    if (/^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|PERM|NOMEM|PROTOCOL)/.test(error.code)) {
      const remedy = error.code === 'SQLITE_FULL' ? ': make room on its disk, see df -h' : '';
      throw new StoreError('unwritable', `${path} cannot be used: ${error.code}: ${error.message}${remedy}`, error);
    }
    throw error;
  }
}

/** Makes the folder of the file. Throws StoreError where it cannot, or where it lies on a network. */
export function prepareFolder(path: string): void {
  const folder = dirname(path);
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new StoreError('unwritable', `the folder ${folder} cannot be made: create it, writable for this user`, error);
  }
  const network = networkOf(folder);
  if (network) {
    throw new StoreError(
      'unwritable',
      `${folder} lies on ${network}: SQLite needs a local disk, set DATABASE_URL to one`,
    );
  }
}

/** It holds what people wrote: for its user alone. */
function prepareFile(path: string): void {
  try {
    closeSync(openSync(path, 'a', 0o600));
  } catch (error) {
    throw new StoreError(
      'unwritable',
      `${path} cannot be opened for writing: see the disk and the file's owner`,
      error,
    );
  }
}

/** What is left on the disk of the store. */
export function freeBytesOf(path: string): number {
  const { bavail, bsize } = statfsSync(dirname(path));
  return bavail * bsize;
}

/** The name of the network file system that a folder lies on, or undefined. */
export function networkOf(folder: string): string | undefined {
  return NETWORK.get(statfsSync(folder).type);
}
