// Registers the scheduled backups in the keep process. They are of an SQLite store: config.ts refuses others.
import { startLoop, type Loop } from '../base/loop.ts';
import type { KeepModule } from '../keep/module.ts';
import { copyStore } from './copy.ts';
import { createBackupFolder } from './folder.ts';
import { createBackups } from './schedule.ts';

const HOUR_MS = 3_600_000;

export const backups: KeepModule = ({ config, store, clock, log, recover, disk, leading }) => {
  const { storePath, BACKUP_DIR: dir, BACKUP_EVERY_HOURS: hours, BACKUP_KEEP: keep } = config;
  if (dir === undefined || storePath === null) return { stop: async () => {} };
  const stopping = new AbortController();
  const { signal } = stopping;
  let loop: Loop | undefined;
  const step = createBackups({
    store,
    clock,
    log,
    disk,
    folder: (born) => createBackupFolder(dir, storePath, born),
    everyMs: hours * HOUR_MS,
    keep,
    copy: (to) => copyStore(storePath, to, signal),
    signal,
  });
  void leading.then(() => void (loop = startLoop(step, recover)));
  return {
    async stop() {
      stopping.abort();
      await loop?.stop();
    },
  };
};
