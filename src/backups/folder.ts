// The copies in BACKUP_DIR. Only files with the kit's own names are ever removed.
import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join, parse } from 'node:path';
import { freeBytesOf } from '../store/sqlite/folder.ts';

/** What follows the name of the store. A copy that is not verified yet has a further suffix. */
const NAME = /^-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.db(\.part.*)?$/;
const MB = 1024 * 1024;
/** On the disk of the store, a backup leaves this room. With less, the alarm `disk_low` is raised. */
const LEFT_BYTES = 640 * MB;

export type BackupFolder = ReturnType<typeof createBackupFolder>;

export function createBackupFolder(dir: string, storePath: string) {
  const stem = parse(storePath).name;

  /** Oldest first. */
  function own(isFinished: boolean): string[] {
    const names = readdirSync(dir).filter((name) => name.startsWith(stem) && NAME.test(name.slice(stem.length)));
    return names.filter((name) => name.endsWith('Z.db') === isFinished).toSorted();
  }

  return {
    /** Creates the folder, if there was no backup so far. Throws if it cannot be used. */
    prepare(isFirst: boolean): void {
      if (!existsSync(dir) && !isFirst) throw new Error(`there is no folder ${dir} any more: mount or create it`);
      mkdirSync(dir, { recursive: true, mode: 0o700 });
      for (const name of own(false)) rmSync(join(dir, name), { force: true });
    },
    /** Throws if there is no room for a copy of a store of this size. */
    requireRoom(storeBytes: number): void {
      const isSameDisk = statSync(dir).dev === statSync(dirname(storePath)).dev;
      const needed = storeBytes * 1.1 + (isSameDisk ? LEFT_BYTES : 0);
      const free = freeBytesOf(join(dir, stem));
      if (free >= needed) return;
      const [least, left] = [needed, free].map((bytes) => Math.ceil(bytes / MB));
      throw new Error(`${left} MB are free, and a backup needs ${least} MB: make room, or lower BACKUP_KEEP`);
    },
    /** The path of a new copy. `at`: Unix milliseconds. */
    nameAt(at: number): string {
      return join(dir, `${stem}-${new Date(at).toISOString().slice(0, 19).replaceAll(':', '-')}Z.db`);
    },
    /** Removes the oldest copies beyond `keep`, but never the newest, which is `file`. */
    prune(file: string, keep: number): void {
      const others = own(true).filter((name) => name !== basename(file));
      // A name above the newest was given by a clock that was ahead, so it goes first.
      const ordered = [...others.filter((name) => name > basename(file)), ...others];
      for (const name of new Set(ordered.slice(0, Math.max(0, others.length + 1 - keep)))) rmSync(join(dir, name));
    },
  };
}
