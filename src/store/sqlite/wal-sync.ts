// Syncs the write-ahead log outside of the transaction, so that nobody waits for the disk but those whose event is on its
// way there: the lock is free meanwhile, and the loop as well. SQLite's own sync, within the commit, would hold both.
import { open, type FileHandle } from 'node:fs/promises';
import { StoreError } from '../store.ts';
import type { Connection } from './connection.ts';

export interface Log {
  /** Before the commit: what fails is told to those alone who had the log open. Throws StoreError `unwritable`. */
  open(): Promise<void>;
  /** Resolves when all that was committed before is on disk; one serves all who ask before it begins. Throws StoreError `unwritable`. */
  sync(): Promise<void>;
  /** Before the next commit. Throws while it is not certain that what a failed sync left is on disk. `always`: also
   * where this process knows of none. */
  settle(db: Connection, always?: boolean): void;
  /** The next sync opens it again. */
  close(): void;
}

export function createLog(path: string): Log {
  let file: Promise<FileHandle> | undefined;
  /** After a failed sync the kernel takes for clean what it could not write: another sync would prove nothing. */
  let doubted = false;
  /** One after the other: of two at once, the kernel tells only one of them that the disk has failed. */
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
    async open() {
      if (path !== ':memory:') await ready();
    },
    sync() {
      if (path === ':memory:') return last;
      if (next) return next;
      next = last.then(begin).catch((error: unknown) => {
        doubted = true;
        throw error;
      });
      last = next.catch(() => {});
      return next;
    },
    settle(db, always = false) {
      if (!doubted && !always) return;
      // What the log holds is written to the file and synced, and the log begins anew: a log with a hole would end there
      // when it is read after a power loss, and hide what came behind it as well as what the file holds.
      const [result] = db.pragma('wal_checkpoint(truncate)') as { busy: number }[];
      if (result?.busy !== 0)
        throw new StoreError('busy', `${path} is being read: a failed sync cannot be made good yet`);
      doubted = false;
    },
    close() {
      void file?.then(
        (opened) => opened.close(),
        () => {},
      );
      file = undefined;
    },
  };
}
