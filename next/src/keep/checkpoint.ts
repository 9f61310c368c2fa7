// Checkpoints: the log's pages go into the store's file, so that the log stays short and reading stays fast.
import { statSync } from 'node:fs';
import type { AdminStore } from '../operations/store/admin.ts';

const STEP_MS = 1_000;
/** Bytes. With a log above `restart` writers wait for a moment, so that it begins anew; a file above `cut` is cut off. */
const LOG = { passive: 8 * 2 ** 20, restart: 24 * 2 ** 20, cut: 48 * 2 ** 20 };
/** A reader that pins a snapshot makes each try vain. */
const VAIN_MS = 2_000;

export function createCheckpoints(file: string, admin: AdminStore): () => Promise<number> {
  return async () => {
    const bytes = logBytes(file);
    if (bytes < LOG.passive) return STEP_MS;
    const used = (await admin.checkpoint('passive')) ?? bytes;
    if (used < LOG.restart && bytes < LOG.cut) return STEP_MS;
    const isVain = (await admin.checkpoint(bytes < LOG.cut ? 'restart' : 'truncate')) === null;
    return isVain ? VAIN_MS : STEP_MS;
  };
}

export function logBytes(file: string): number {
  return statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
}
