// Checkpoints: the log's pages go into the store's file, so that the log stays short and reading stays fast.
import { fdatasync, openSync, statSync } from 'node:fs';
import { promisify } from 'node:util';
import type { AdminStore } from '../operations/store/admin.ts';

const STEP_MS = 250;
/** Bytes. With a log above `restart` writers wait for a moment, so that it begins anew; a file above `cut` is cut off. */
const LOG = { passive: 8 * 2 ** 20, restart: 24 * 2 ** 20, cut: 48 * 2 ** 20 };
/** A reader that pins a snapshot makes each try vain. */
const VAIN_MS = 2_000;

const sync = promisify(fdatasync);

export function createCheckpoints(file: string, admin: AdminStore): () => Promise<number> {
  // Never closed: that would end the locks that SQLite holds on the same file.
  const opened = openSync(file, 'r');
  return async () => {
    const bytes = logBytes(file);
    if (bytes < LOG.passive) return STEP_MS;
    const used = (await admin.checkpoint('passive')) ?? bytes;
    if (used < LOG.restart && bytes < LOG.cut) return STEP_MS;
    // A passive checkpoint among writers syncs nothing. Without this, the next one would do it while it holds the lock.
    await sync(opened);
    const isVain = (await admin.checkpoint(bytes < LOG.cut ? 'restart' : 'truncate')) === null;
    return isVain ? VAIN_MS : STEP_MS;
  };
}

export function logBytes(file: string): number {
  return statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
}
