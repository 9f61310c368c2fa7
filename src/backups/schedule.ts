// When the next backup is due, and what the store knows of the last ones. The time of the last attempt is stored, so
// that a restart neither repeats nor skips one. A running process measures the interval by the monotonic clock.
import { describe, orUndefined } from '../base/errors.ts';
import type { Keep } from '../keep/module.ts';
import type { Backup } from '../store/shown.ts';
import type { Store } from '../store/store.ts';
import type { BackupFolder } from './folder.ts';

/** After a failed attempt the next follows sooner. */
const RETRY_MS = 3_600_000;
const NONE: Omit<Backup, 'at'> = { verifiedAt: null, file: null, bytes: null, failures: 0, error: null };

export interface BackupOptions extends Pick<Keep, 'clock' | 'log' | 'disk'> {
  store: Pick<Store, 'state'>;
  folder: (born: number) => BackupFolder;
  everyMs: number;
  keep: number;
  /** Writes a verified copy to this path, and resolves to its size. */
  copy: (to: string) => Promise<number>;
  /** Aborted at a stop: the attempt then does not count. */
  signal: AbortSignal;
}

/** The step of a loop. */
export function createBackups(options: BackupOptions): () => Promise<number> {
  const { store, clock, log, everyMs, keep, signal } = options;
  let dueAfter: number | undefined;

  const note = (backup: Backup | null): Promise<void> => store.state.note({}, { backup: JSON.stringify(backup) });
  const pauseAfter = (failures: number): number => (failures > 0 ? Math.min(everyMs, RETRY_MS) : everyMs);

  function dueIn(last: Backup | null): number {
    if (dueAfter !== undefined) return dueAfter - clock.monotonic();
    const age = last === null ? Infinity : clock.now() - last.at;
    // A time in the future was written by a clock that has been set back since.
    return age < 0 ? 0 : pauseAfter(last?.failures ?? 0) - age;
  }

  async function attempt(folder: BackupFolder, last: Backup | null): Promise<Backup | null> {
    const at = clock.now();
    const { failures, ...known } = last ?? { ...NONE, at };
    const failed = { ...known, at, failures: failures + 1 };
    await note({ ...failed, error: 'keep ended during the last backup: see the log' });
    try {
      return await write(options, folder, at, known.file);
    } catch (error) {
      if (signal.aborted) return last;
      // The remedy names the store's variable.
      const words = describe(error).message.replaceAll('DATABASE_URL', 'BACKUP_DIR');
      return { ...failed, error: `The last backup failed: ${words}` };
    }
  }

  return async () => {
    const last = await store.state.get('backup');
    const folder = options.folder(await store.state.get('born'));
    // Also before the wait: what a killed process left unfinished is as large as the store.
    orUndefined(() => folder.clear());
    const restMs = dueIn(last);
    if (restMs > 0) return restMs;
    const began = clock.monotonic();
    dueAfter = began + pauseAfter(1);
    const done = await attempt(folder, last);
    await note(done);
    const ms = Math.round(clock.monotonic() - began);
    if (done?.error) log.warn({ reason: done.error, ms }, 'no backup was written; trying again');
    else if (done?.file && !signal.aborted) {
      const { file } = done;
      log.info({ file, ms }, 'a backup was written and verified');
      // Only now, so that after a crash the store does not name a copy that is gone.
      const faults = orUndefined(() => folder.prune(file, keep)) ?? ['it cannot be read'];
      if (faults.length > 0) log.warn({ faults }, 'old backups were not removed: see the rights of BACKUP_DIR');
    }
    dueAfter = began + pauseAfter(done?.failures ?? 0);
    return dueIn(done);
  };
}

async function write(options: BackupOptions, folder: BackupFolder, at: number, newest: string | null): Promise<Backup> {
  folder.prepare(newest);
  const { storeBytes, logBytes } = await options.disk();
  folder.requireRoom(storeBytes + logBytes);
  const file = folder.nameAt(at);
  const bytes = await options.copy(file);
  return { at, verifiedAt: at, file, bytes, failures: 0, error: null };
}
