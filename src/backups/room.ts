// Whether there is room for a copy of the store.
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { orUndefined } from '../base/errors.ts';
import { freeBytesOf } from '../store/sqlite/folder.ts';
import { StoreError } from '../store/store.ts';

const MB = 1024 * 1024;
/** On the disk of the store, a backup leaves this room. With less, the alarm `disk_low` is raised. */
const LEFT_BYTES = 640 * MB;

/** Throws StoreError if there is no room at `to` for a copy of a store of this size. */
export function requireRoom(storePath: string, to: string, storeBytes: number): void {
  const [from, at] = [storePath, to].map((path) => orUndefined(() => statSync(dirname(path)).dev));
  // Without its folder, the copy fails, and says why.
  if (at === undefined) return;
  const takes = storeBytes * 1.1;
  const leaves = from === at ? LEFT_BYTES : 0;
  const free = freeBytesOf(to);
  if (free >= takes + leaves) return;
  const [left, copy, rest] = [free, takes, leaves].map((bytes) => `${Math.ceil(bytes / MB)} MB`);
  const also = leaves > 0 ? ` and leaves ${rest} on the disk of the store` : '';
  throw new StoreError(
    'unwritable',
    `${left} are free, and a backup takes ${copy}${also}: make room, lower BACKUP_KEEP, or take another disk`,
  );
}
