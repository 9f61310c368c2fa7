// The copies in BACKUP_DIR. Names hold when the store was created, and only copies of this same store are ever removed:
// if a store is lost, the empty one that follows must not push its backups out. A restored store counts as the same one,
// because a person chose it, and the folder would otherwise grow with each restore.
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { basename, join, parse } from 'node:path';
import { describe } from '../base/errors.ts';
import { requireRoomForBackup } from './room.ts';

/** What follows the name of the store. A copy that is not verified yet has a further suffix. */
const NAME = /^-[0-9a-z]+-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.db(\.part.*)?$/;

export type BackupFolder = ReturnType<typeof createBackupFolder>;

/** `born`: when the store was created, Unix milliseconds. */
export function createBackupFolder(dir: string, storePath: string, born: number) {
  const { name: stem } = parse(storePath);
  const own = `${stem}-${born.toString(36)}-`;

  /** Of each store, oldest first. */
  function copies(isOwn: boolean, isFinished: boolean): string[] {
    const files = readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isFile());
    const names = files
      .map(({ name }) => name)
      .filter((name) => name.startsWith(stem) && NAME.test(name.slice(stem.length)));
    return names.filter((name) => name.startsWith(own) === isOwn && name.endsWith('Z.db') === isFinished).toSorted();
  }

  return {
    /**
     * Creates the folder, if there was no backup so far. Throws if it cannot be used, or if the newest copy is gone: the
     * disk is then perhaps not mounted, and another one would fill up.
     */
    prepare(newest: string | null): void {
      if (!existsSync(dir) && newest !== null)
        throw new Error(`there is no folder ${dir} any more: mount or create it`);
      mkdirSync(dir, { recursive: true, mode: 0o700 });
      // After BACKUP_DIR was changed, the newest copy is in another folder.
      if (newest === null || newest !== join(dir, basename(newest)) || existsSync(newest)) return;
      throw new Error(`${newest} is gone: mount BACKUP_DIR; if its files were removed, npx kit backup ${newest}`);
    },
    /** Removes the copies that no process finishes any more. Nothing happens if the folder is not there. */
    clear(): void {
      if (existsSync(dir)) for (const name of copies(true, false)) rmSync(join(dir, name), { force: true });
    },
    /** Throws if there is no room for a copy of a store of this size. */
    requireRoom: (storeBytes: number): void => requireRoomForBackup(storePath, join(dir, stem), storeBytes),
    /** The path of a new copy. `at`: Unix milliseconds. */
    nameAt(at: number): string {
      return join(dir, `${own}${new Date(at).toISOString().slice(0, 19).replaceAll(':', '-')}Z.db`);
    },
    /** Removes the oldest copies beyond `keep`, but never the newest, which is `file`. Returns why it cannot for some. */
    prune(file: string, keep: number): string[] {
      const others = copies(true, true).filter((name) => name !== basename(file));
      // A name above the newest was given by a clock that was ahead, so it goes first.
      const ordered = [...others.filter((name) => name > basename(file)), ...others];
      const surplus = new Set(ordered.slice(0, Math.max(0, others.length + 1 - keep)));
      return [...surplus].flatMap((name) => remove(join(dir, name)) ?? []);
    },
    /** The copies of other stores that had the same name. */
    others: (): string[] => copies(false, true).map((name) => join(dir, name)),
  };
}

/** Returns why the file cannot be removed. */
function remove(file: string): string | undefined {
  try {
    rmSync(file, { force: true });
    return undefined;
  } catch (error) {
    return describe(error).message;
  }
}
