// Checkpoints: the log's pages go into the store's file, so that the log stays short and reading stays fast.
import { fdatasync, openSync, statSync } from 'node:fs';
import { promisify } from 'node:util';
import type { AdminStore } from '../operations/store/admin.ts';

/** Bytes. With a log above `restart` writers wait for a moment, so that it begins anew; a file above `cut` is cut off. */
const LOG = { passive: 8 * 2 ** 20, restart: 24 * 2 ** 20, cut: 48 * 2 ** 20 };
/** Until the next look; after a checkpoint that held writers up; after a vain one, because a reader pins a snapshot. */
const WAIT_MS = { look: 250, restart: 1_000, vain: 2_000 };

const sync = promisify(fdatasync);

export function createCheckpoints(file: string, admin: AdminStore): () => Promise<number> {
  // Never closed: that would end the locks that SQLite holds on the same file.
  const opened = openSync(file, 'r');
  return async () => {
    const bytes = logBytes(file);
    if (bytes < LOG.passive) return WAIT_MS.look;
    const used = (await admin.checkpoint('passive')) ?? bytes;
    if (used < LOG.restart && bytes < LOG.cut) return WAIT_MS.look;
    // A passive checkpoint among writers syncs nothing. Without this, the next one would do it while it holds the lock. It
    // also meets an error of this one.
    await sync(opened).catch(() => {});
    const isVain = (await admin.checkpoint(bytes < LOG.cut ? 'restart' : 'truncate')) === null;
    return isVain ? WAIT_MS.vain : WAIT_MS.restart;
  };
}

export function logBytes(file: string): number {
  return statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
}
