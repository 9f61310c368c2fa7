// Syncs the write-ahead log outside of the transaction, so that nobody waits for the disk but those whose event is on its
// way there: the lock is free meanwhile, and the loop as well. SQLite's own sync, within the commit, would hold both.
import { open, type FileHandle } from 'node:fs/promises';
import { StoreError } from '../store.ts';
import type { Connection } from './connection.ts';

export interface Log {
  /** Resolves when all that was committed before is on disk. Throws StoreError `unwritable`. */
  sync(): Promise<void>;
  /** Before the next commit. Throws while it is not certain that what a failed sync left is on disk. */
  settle(db: Connection): void;
  /** The next sync opens it again. */
  close(): void;
}

export function createLog(path: string): Log {
  let file: Promise<FileHandle> | undefined;
  /** After a failed sync the kernel takes for clean what it could not write: another sync would prove nothing. */
  let doubted = false;

  return {
    async sync() {
      if (path === ':memory:') return;
      try {
        file ??= open(`${path}-wal`, 'r');
        await (await file).datasync();
      } catch (error) {
        doubted = true;
        throw new StoreError('unwritable', `${path} cannot be synced: see the disk`, error);
      }
    },
    settle(db) {
      if (!doubted) return;
      // What the log holds is written to the file, and the file is synced.
      const [{ log, checkpointed } = { log: 0, checkpointed: 0 }] = db.pragma('wal_checkpoint') as Checkpoint[];
      if (log !== checkpointed)
        throw new StoreError('busy', `${path} is being read: a failed sync cannot be made good yet`);
      doubted = false;
    },
    close() {
      void file?.then((opened) => opened.close());
      file = undefined;
    },
  };
}

interface Checkpoint {
  log: number;
  checkpointed: number;
}
