// The owner of a store holds an exclusive transaction on a small file beside it. The kernel frees that lock when the
// owner dies, so no stale lock can remain. A pid file cannot do that, and in a container every pid is 1.
import { createHash } from 'node:crypto';
import { closeSync, existsSync, openSync, readFileSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { startOf } from '../../base/process-start.ts';
import { StoreError } from '../store.ts';
import { guarded } from './fault.ts';
import { prepareFolder } from './folder.ts';
import { giveToOwner, readMark } from './file-identity.ts';

/** Takes the lock. No other process can own the store until the lock is closed. Throws StoreError `owned`. */
export function lockStore(path: string): Database.Database {
  prepareFolder(path);
  return guarded(() => takeLock(path), path);
}

function takeLock(path: string): Database.Database {
  const file = `${path}-owner`;
  // SQLite would create it readable for all, and as root's file if root restores a store.
  if (!existsSync(file)) {
    closeSync(openSync(file, 'a', 0o600));
    giveToOwner(file);
  }
  try {
    const lock = new Database(file, { timeout: 0 });
    lock.exec('begin exclusive');
    return lock;
  } catch (error) {
    if (!(error instanceof Database.SqliteError) || !error.code.startsWith('SQLITE_BUSY')) throw error;
    throw new StoreError(
      'owned',
      `${path} is served by process ${ownerOf(path)}: stop that one first, or set DATABASE_URL to another file`,
    );
  }
}

/** The pid of the owner, from the file beside the store. The store is not opened, because it may have been replaced. */
function ownerOf(path: string): string {
  const pid = readMark(path)?.pid;
  return pid !== undefined && startOf(pid) !== '' ? String(pid) : 'unknown, which is just starting';
}

/** A hash of the path: distinguishes stores without showing their paths. */
export function fingerprintOf(path: string): string {
  return createHash('sha256').update(path).digest('hex').slice(0, 16);
}

/** The byte of the -shm file that a writer locks. */
const WRITE_BYTE = '120';

/** The process that holds the store's write lock now, according to the kernel; undefined if unknown. */
export function writerOf(path: string): number | undefined {
  try {
    const inode = String(statSync(`${path}-shm`).ino);
    const locks = readFileSync('/proc/locks', 'utf8').split('\n');
    // A line of /proc/locks: `7: POSIX  ADVISORY  WRITE 4711 fe:00:131077 120 120`
    const fields = locks.map((line) => line.trim().split(/\s+/));
    const held = fields.find(([, , , kind, , file, from]) => {
      return kind === 'WRITE' && from === WRITE_BYTE && file?.split(':').at(-1) === inode;
    });
    return held === undefined ? undefined : Number(held[4]);
  } catch {
    return undefined;
  }
}
