// Makes sure that a WAL is applied only to its own store. SQLite matches them by name alone, so a replaced file would
// get the old WAL. A store therefore has an id in the file, and a mark: a small file beside it with the id and the last
// inodes.
import {
  chownSync,
  closeSync,
  fstatSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { StoreError } from '../store.ts';

export interface Mark {
  id: string;
  /** The previous id, which the file has until the new id is written into it. Null: none. */
  was: string | null;
  /** Device and inode of the store's file, and of the owner's lock file. */
  file: string;
  owner: string;
  /** The owner's process id. */
  pid: number;
}

/** Device and inode; undefined if there is no file. */
export function inodeOf(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found && `${found.dev}:${found.ino}`;
}

/**
 * The inodes of the store and of its WAL. A store without its WAL has lost its latest commits, and SQLite does not
 * notice.
 */
export function inodesOf(path: string): string {
  if (path === ':memory:') return '';
  return [path, `${path}-wal`].map((file) => statSync(file, { throwIfNoEntry: false })?.ino ?? 'none').join();
}

export function readMark(path: string): Mark | undefined {
  try {
    const mark = JSON.parse(readFileSync(`${path}-id`, 'utf8')) as Mark;
    return typeof mark?.id === 'string' ? mark : undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined || code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw error;
  }
}

/** If root works on a store, the user that runs the kit must own its files: the owner of `like`, or of the folder. */
export function giveToOwner(file: string, like = dirname(file)): void {
  const { uid, gid } = statSync(like);
  if (process.getuid?.() === 0) chownSync(file, uid, gid);
}

/** Only the holder of the lock may call it. `at` is the file that the mark describes, if it is not at `path` yet. */
export function writeMark(path: string, id: string, was: string | null, at = path): void {
  const [file = '', owner = ''] = [inodeOf(at), inodeOf(`${path}-owner`)];
  const mark: Mark = { id, was, file, owner, pid: process.pid };
  const part = `${path}-id.part`;
  writeFileSync(part, `${JSON.stringify(mark)}\n`, { mode: 0o600, flush: true });
  giveToOwner(part);
  renameSync(part, `${path}-id`);
  sync(dirname(path));
}

/** Of a file or a folder. */
export function sync(path: string): void {
  const file = openSync(path, 'r');
  fsyncSync(file);
  closeSync(file);
}

/**
 * Throws StoreError `replaced` if the file at the path is not the store that the mark names, because the WAL must not
 * be applied to another file. Otherwise updates the mark. Only the lock's holder may call it, without a connection.
 */
export function requireSame(path: string): void {
  const mark = readMark(path);
  if (!mark) return;
  const here = inodeOf(path);
  const logged = sizeOf(`${path}-wal`) > 0;
  const id = sizeOf(path) === 0 ? undefined : idWithoutLog(path);
  if (sizeOf(path) === 0 && !logged) throw gone(path);
  // A file that is no store is reported when it is opened next. A damaged store with its old inode is still this store.
  if (id === undefined && (!logged || (here === mark.file && sizeOf(path) > 0))) return;
  const known = id !== undefined && (id === mark.id || id === mark.was);
  // A copy of the file alone, beside a WAL that may be newer. If the whole folder was copied, so was the lock file.
  const alone = logged && here !== mark.file && inodeOf(`${path}-owner`) === mark.owner;
  if (!known || alone) throw replaced(path, logged);
  if (here !== mark.file) writeMark(path, mark.id, mark.was);
}

/**
 * Call it if the WAL is gone after a kill, because perhaps only a part of the WAL was copied into the file. Throws
 * StoreError `replaced` if the file is damaged.
 */
export function requireUnharmed(path: string): void {
  const db = new Database(path, { readonly: true });
  try {
    if (db.pragma('quick_check(1)', { simple: true }) === 'ok') return;
  } catch (error) {
    if (!isNoStore(error)) throw error;
  } finally {
    db.close();
  }
  throw new StoreError(
    'replaced',
    `${path} is damaged: the kit was killed, and then its log ${path}-wal was deleted. Put a backup in its place with npx kit restore <file>`,
  );
}

/** Throws StoreError `replaced` if another file is at the path. A changed inode is checked under the lock of `take`. */
export function requireInPlace(path: string, take: (path: string) => { close(): unknown }): void {
  if (path === ':memory:') return;
  const mark = readMark(path);
  if (!mark || inodeOf(path) === mark.file || sizeOf(path) + sizeOf(`${path}-wal`) === 0) return;
  let lock: { close(): unknown };
  try {
    lock = take(path);
  } catch (error) {
    // The owner is alive and has another file open.
    if (error instanceof StoreError && error.code === 'owned') throw replaced(path, true);
    throw error;
  }
  try {
    requireSame(path);
  } finally {
    lock.close();
  }
}

function replaced(path: string, logged: boolean): StoreError {
  const log = logged ? `, and ${path}-wal is the log of the one before` : '';
  return new StoreError(
    'replaced',
    `${path} is not the file that was this store${log}: nothing was opened. Stop the kit, then put a backup (or this file) in its place with npx kit restore <file>`,
  );
}

function gone(path: string): StoreError {
  return new StoreError(
    'replaced',
    `${path} is gone or empty, and ${path}-id says that it was a store: nothing was opened. Put a backup in its place with npx kit restore <file>, or delete ${path}-id to begin with an empty store`,
  );
}

export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** Bytes to search for the id. The table with the id is made first, so its database page is among the first. */
const SEAL_WITHIN = 1024 * 1024;
/** The offset of the change counter in the header of a SQLite file: 4 bytes, whose number rises when the file grows. */
const CHANGE_COUNTER_AT = 24;

/**
 * Detects that another file was copied over the file of a running kit, which keeps the inode. A backup has another id.
 * A raw copy of the same run has the same id. It is smaller or has a lower change counter, because a store in use only
 * grows.
 */
export function createSeal(path: string) {
  let file: number | undefined;
  let bytes = Buffer.alloc(0);
  let at = -1;
  let most = { size: 0, counter: 0 };

  /** Whether the file has at least the size and the change counter that it had at the last call. */
  function hasGrown(opened: number): boolean {
    const now = { size: fstatSync(opened).size, counter: read(4, CHANGE_COUNTER_AT).readUInt32BE() };
    if (now.size < most.size || now.counter < most.counter) return false;
    most = now;
    return true;
  }

  function read(length: number, from: number): Buffer {
    const found = Buffer.alloc(length);
    return file === undefined ? found : found.subarray(0, readSync(file, found, 0, length, from));
  }

  return {
    /** Call it when the id has been copied into the file. */
    set(id: string): void {
      file ??= openSync(path, 'r');
      bytes = Buffer.from(id);
      at = read(SEAL_WITHIN, 0).indexOf(bytes);
    },
    holds: (): boolean => file === undefined || at === -1 || (read(bytes.length, at).equals(bytes) && hasGrown(file)),
    /** Call it after closing the connection: closing a file frees all locks that the process has on it. */
    close(): void {
      if (file !== undefined) closeSync(file);
      file = undefined;
    },
  };
}

/**
 * The id in the file alone, without the WAL: the file is opened under a second name that has no WAL. Undefined: the
 * file is no store of this kit.
 */
function idWithoutLog(path: string): string | undefined {
  const name = `${path}-look`;
  const clear = (): void => {
    for (const suffix of ['', '-wal', '-shm']) rmSync(name + suffix, { force: true });
  };
  clear();
  try {
    linkSync(realpathSync(path), name);
    const db = new Database(name, { readonly: true });
    try {
      return db.prepare<[], string>('select id from store').pluck().get() ?? '';
    } finally {
      db.close();
    }
  } catch (error) {
    if (isNoStore(error)) return undefined;
    throw error;
  } finally {
    clear();
  }
}

/** Whether the error means that this is no store, or that the file system has no hard links. */
function isNoStore(error: unknown): boolean {
  const { code = '' } = error as { code?: string };
  return /^SQLITE_(NOTADB|CORRUPT|ERROR|IOERR_SHORT_READ)|^(EPERM|ENOTSUP|EOPNOTSUPP|ENOSYS)$/.test(code);
}
