// Distinguishes errors of the store, which may pass, from errors that a statement or its values cause.
import Database from 'better-sqlite3';
import { DISK_FULL, StoreError } from '../store.ts';

const UNUSABLE =
  /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|PERM|NOMEM|PROTOCOL|INTERRUPT|ABORT|AUTH|SCHEMA|MISUSE|INTERNAL|NOLFS)/;

/** Codes of a disk or a machine that may recover, or that a person repairs without a change of the configuration. */
const PASSING = /FULL|IOERR|CANTOPEN|NOMEM|PROTOCOL|INTERRUPT|ENOSPC|EDQUOT|EIO|E[MN]FILE|EAGAIN|EINTR/;

/** Runs the work. Errors for which the store is at fault become StoreError, see `faultOf`. */
export function guarded<T>(work: () => T, path = 'the store'): T {
  try {
    return work();
  } catch (error) {
    throw faultOf(error, path) ?? error;
  }
}

/**
 * Returns a StoreError if the store is at fault: it is locked, full, read-only, damaged or cannot be opened. Undefined:
 * another error, for example one that the values of a statement cause.
 */
export function faultOf(error: unknown, path: string): StoreError | undefined {
  if (error instanceof StoreError) return error;
  if (error instanceof Database.SqliteError) {
    if (/^SQLITE_(BUSY|LOCKED)/.test(error.code))
      return new StoreError('busy', `${path} is locked by another process`, error);
    if (!UNUSABLE.test(error.code)) return undefined;
    return new StoreError(
      'unwritable',
      `${path} cannot be used: ${error.code}: ${error.message}. ${remedyOf(error.code)}`,
      error,
      mayPass(error),
    );
  }
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  if (typeof code !== 'string' || typeof syscall !== 'string') return undefined;
  const words = `${path} cannot be used: ${code} (${syscall}). ${remedyOf(code)}`;
  return new StoreError('unwritable', words, error, mayPass(error));
}

/** Whether a later start may succeed, for example after room was made on a full disk. */
export function mayPass(error: unknown): boolean {
  return PASSING.test(String((error as { code?: unknown } | null)?.code));
}

/** The remedy for an error code of SQLite or the system. */
export function remedyOf(code: string): string {
  if (DISK_FULL.test(code)) return 'The disk is full: make room, see df -h (DATABASE_URL)';
  if (/READONLY|PERM|EROFS|EACCES/.test(code))
    return 'The file or its disk is read-only: give this user the right to write, and see mount (DATABASE_URL)';
  if (/NOTADB/.test(code)) return 'It is no store: see DATABASE_URL, or stop the kit and npx kit restore <backup>';
  if (/CORRUPT/.test(code)) return 'The file is damaged: stop the kit, then npx kit restore <backup>';
  if (/E[MN]FILE/.test(code)) return 'Raise the limit of open files, see ulimit -n';
  if (/CANTOPEN|ENOENT/.test(code)) return 'The file cannot be opened: see its folder and its rights (DATABASE_URL)';
  return 'See the disk (df -h, dmesg) and the rights of the file (DATABASE_URL)';
}
