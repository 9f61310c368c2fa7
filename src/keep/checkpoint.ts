// Checkpoints: the log's pages go into the store's file, so that the log stays short and reading stays fast. Little and
// often, because the log's own syncs wait behind what the disk still has to write.
import { fdatasync, openSync, statSync } from 'node:fs';
import { promisify } from 'node:util';
import type { PeopleStore } from '../operations/store/open.ts';

/** Bytes. With a log above `restart` writers wait for a moment, so that it begins anew; a file above `cut` is cut off. */
const LOG = { passive: 8 * 2 ** 20, restart: 24 * 2 ** 20, cut: 48 * 2 ** 20 };
/**
 * Until the next look while the log grows, and while it rests; until writers are held up again, and after that was in
 * vain, because a reader pins a snapshot.
 */
const WAIT_MS = { busy: 50, idle: 250, restart: 1_000, vain: 2_000 };

const sync = promisify(fdatasync);

export function createCheckpoints(
  file: string,
  { checkpoint }: Pick<PeopleStore, 'checkpoint'>,
): () => Promise<number> {
  // Never closed: that would end the locks that SQLite holds on the same file.
  const opened = openSync(file, 'r');
  let last = 0;
  let restartAt = 0;
  return async () => {
    const bytes = logBytes(file);
    if (bytes < LOG.passive) return WAIT_MS.idle;
    const used = (await checkpoint('passive')) ?? bytes;
    const waitMs = used === last ? WAIT_MS.idle : WAIT_MS.busy;
    // A passive checkpoint among writers syncs nothing. Without this, the next one would do it while it holds the lock. It
    // also meets an error of this one.
    if (used !== last) await sync(opened).catch(() => {});
    last = used;
    if ((used < LOG.restart && bytes < LOG.cut) || performance.now() < restartAt) return waitMs;
    if ((await checkpoint(bytes < LOG.cut ? 'restart' : 'truncate')) === null) return WAIT_MS.vain;
    restartAt = performance.now() + WAIT_MS.restart;
    return waitMs;
  };
}

export function logBytes(file: string): number {
  return statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
}
