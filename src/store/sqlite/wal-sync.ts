// Syncs the write-ahead log (WAL) after the transaction, so that a sync delays only the answers for its own events.
// SQLite's own sync, within the commit, would also hold the write lock and the event loop.
import { open, type FileHandle } from 'node:fs/promises';
import { StoreError } from '../store.ts';
import type { Connection } from './connection.ts';

export type Log = ReturnType<typeof createLog>;

export function createLog(path: string) {
  let file: Promise<FileHandle> | undefined;
  /** True after a failed sync. The kernel then treats the lost pages as clean, so another sync would prove nothing. */
  let doubted = false;
  /** The last sync. Syncs run one after another, because the kernel reports a disk error to only one of two at once. */
  let last = Promise.resolve();
  let next: Promise<void> | undefined;

  async function ready(): Promise<FileHandle> {
    try {
      file ??= open(`${path}-wal`, 'r');
      return await file;
    } catch (error) {
      file = undefined;
      throw unsyncable(error);
    }
  }

  async function begin(): Promise<void> {
    next = undefined;
    const opened = await ready();
    try {
      if (doubted) throw new Error('a sync before it has failed');
      await opened.datasync();
    } catch (error) {
      throw unsyncable(error);
    }
  }

  function unsyncable(cause: unknown): StoreError {
    return new StoreError('unwritable', `${path} cannot be synced: see the disk`, cause);
  }

  return {
    /**
     * Call before the commit, because the kernel reports an error of the disk only to processes that had the WAL open.
     * Throws StoreError `unwritable`.
     */
    async open(): Promise<void> {
      if (path !== ':memory:') await ready();
    },
    /**
     * Resolves when everything committed before the call is on disk. One sync serves all calls made before it begins.
     * Throws StoreError `unwritable`.
     */
    sync(): Promise<void> {
      if (path === ':memory:') return last;
      if (next) return next;
      next = last.then(begin).catch((error: unknown) => {
        doubted = true;
        throw error;
      });
      last = next.catch(() => {});
      return next;
    },
    /**
     * Call before the next commit. After a failed sync it makes sure that the WAL is on disk, or throws StoreError
     * `busy`. With `always` it does so even if this process knows of no failed sync.
     */
    settle(db: Connection, always = false): void {
      if (!doubted && !always) return;
      // Copies the WAL into the file, syncs it and empties the WAL. Otherwise a power failure could lose everything
      // that is in the WAL behind the part that was not synced.
      const [result] = db.pragma('wal_checkpoint(truncate)') as { busy: number }[];
      if (result?.busy !== 0)
        throw new StoreError('busy', `${path} is being read: a failed sync cannot be made good yet`);
      doubted = false;
    },
    /** Closes the WAL file. The next sync opens it again. */
    close(): void {
      void file?.then(
        (opened) => opened.close(),
        () => {},
      );
      file = undefined;
    },
  };
}
