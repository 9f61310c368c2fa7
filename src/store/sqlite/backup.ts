// Copies the store before a migration, and the content of a file that was replaced while it was open. admin/backup.ts
// makes and restores other copies.
import { randomUUID } from 'node:crypto';
import { closeSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { StoreError } from '../store.ts';
import { giveToOwner, sizeOf, sync } from './file-identity.ts';
import { freeBytesOf } from './folder.ts';

const MB = 1024 * 1024;

/** The unfinished copy, named after this process. */
export const partOf = (to: string): string => `${to}.part-${process.pid}`;

/**
 * A kit that starts from the copy must not end the processes of the original. A new id keeps the copy from being taken
 * for the original.
 */
export function makeOwn(copy: string): void {
  const db = new Database(copy);
  try {
    db.exec('delete from processes');
    db.prepare('update store set id = ?').run(randomUUID());
  } finally {
    db.close();
  }
}

/** Copies the store to `copy` before it is migrated. An older copy there is of a migration that failed. */
export function copyBefore(db: Database.Database, path: string, copy: string): void {
  const part = `${copy}.part`;
  try {
    for (const old of [copy, part]) rmSync(old, { force: true });
    requireRoom(path);
    closeSync(openSync(part, 'w', 0o600));
    giveToOwner(part, path);
    db.prepare('vacuum into ?').run(part);
    sync(part);
    renameSync(part, copy);
    sync(dirname(copy));
  } finally {
    for (const suffix of ['', '-journal']) rmSync(part + suffix, { force: true });
  }
}

/** Throws StoreError if the disk has no room for a copy of the store, and a tenth more. */
function requireRoom(path: string): void {
  const needed = (sizeOf(path) + sizeOf(`${path}-wal`)) * 1.1;
  const free = freeBytesOf(path);
  if (free >= needed) return;
  const [least, left] = [needed, free].map((bytes) => (bytes / MB).toFixed(1));
  throw new StoreError(
    'unwritable',
    `${path} is of an older kit and is copied before it is migrated: ${left} MB are free, and the copy needs ${least} MB. Make room, see df -h (DATABASE_URL)`,
    undefined,
    true,
  );
}

/** Saves the content of a file that was replaced while open. Resolves to the name of the copy beside it. */
export async function saveOpen(db: Database.Database, path: string, now: string): Promise<string> {
  const to = replacedName(path, now);
  const part = partOf(to);
  try {
    closeSync(openSync(part, 'w', 0o600));
    await db.backup(part);
    makeOwn(part);
    sync(part);
    renameSync(part, to);
    return to;
  } finally {
    for (const suffix of ['', '-journal', '-wal', '-shm']) rmSync(part + suffix, { force: true });
  }
}

export const replacedName = (path: string, now: string): string => `${path}.replaced-${now.replaceAll(/[:.]/g, '-')}`;
