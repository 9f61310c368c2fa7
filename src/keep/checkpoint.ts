// Checkpoints copy pages from SQLite's WAL file into the store's file, so that the WAL stays short and reads stay fast. They
// are small and frequent, because each sync of the WAL waits until the disk has written the pages copied before.
import { fdatasync, openSync, statSync } from 'node:fs';
import { promisify } from 'node:util';
import type { PeopleStore } from '../operations/store/open.ts';

// Bytes. If the WAL file has at least `passive`, pages are copied. If at least `restart` bytes of it are in use,
// writers wait for a moment, and the WAL begins anew. If the file has at least `cut`, it is truncated.
const LOG = { passive: 8 * 2 ** 20, restart: 24 * 2 ** 20, cut: 48 * 2 ** 20 };
// Milliseconds until the next look: `busy` while the WAL grows, `idle` while it does not, `vain` if a reader has prevented a
// restart. `restart`: the least time between two restarts.
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
    // A passive checkpoint among writers does not sync the store. Without this sync, the next checkpoint would sync it while
    // holding the lock. An error of this sync is ignored, because that checkpoint meets and reports it.
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
