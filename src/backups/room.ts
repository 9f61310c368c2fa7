// Whether there is room for a backup.
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { orUndefined } from '../base/errors.ts';
import { requireRoom } from '../store/sqlite/folder.ts';

/** On the disk of the store, a backup leaves this room. With less, the alarm `disk_low` is raised. */
const LEFT_BYTES = 640 * 1024 * 1024;

/** Throws StoreError if there is no room at `to` for a backup of a store of this size. */
export function requireRoomForBackup(storePath: string, to: string, storeBytes: number): void {
  const [from, at] = [storePath, to].map((path) => orUndefined(() => statSync(dirname(path)).dev));
  // Without its folder, the backup fails, and says why.
  if (at === undefined) return;
  const leaves = from === at ? LEFT_BYTES : 0;
  requireRoom(to, storeBytes, {
    leaves,
    what: 'no room for a backup',
    remedy: 'Make room, lower BACKUP_KEEP, or take another disk',
  });
}
