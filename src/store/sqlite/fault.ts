// Whose fault an error is: the store's, which is said in our words and may pass, or that of the statement and its values.
import Database from 'better-sqlite3';
import { StoreError } from '../store.ts';

const UNUSABLE =
  /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|PERM|NOMEM|PROTOCOL|INTERRUPT|ABORT|AUTH|SCHEMA|MISUSE|INTERNAL|NOLFS)/;

/** Runs it, and says in our words what SQLite and the system say in theirs. */
export function guarded<T>(work: () => T, path = 'the store'): T {
  try {
    return work();
  } catch (error) {
    throw faultOf(error, path) ?? error;
  }
}

/** What the store is to blame for, whatever was written to it; undefined where the statement and its values are. */
export function faultOf(error: unknown, path: string): StoreError | undefined {
  if (error instanceof StoreError) return error;
  if (error instanceof Database.SqliteError) {
    if (/^SQLITE_(BUSY|LOCKED)/.test(error.code))
      return new StoreError('busy', `${path} is locked by another process`, error);
    if (!UNUSABLE.test(error.code)) return undefined;
    const remedy = error.code === 'SQLITE_FULL' ? ': make room on its disk, see df -h' : '';
    return new StoreError('unwritable', `${path} cannot be used: ${error.code}: ${error.message}${remedy}`, error);
  }
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  if (typeof code !== 'string' || typeof syscall !== 'string') return undefined;
  const remedy = /^E[MN]FILE$/.test(code) ? ': raise the limit of open files, see ulimit -n' : '';
  return new StoreError('unwritable', `${path} cannot be used: ${code} (${syscall})${remedy}`, error);
}
