// Copies the store before a migration, and the content of a file that was replaced while it was open. admin/backup.ts
// makes and restores other copies.
import { randomUUID } from 'node:crypto';
import { closeSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { giveToOwner, sizeOf, sync } from './file-identity.ts';
import { requireRoom } from './folder.ts';

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
    requireRoom(path, sizeOf(path) + sizeOf(`${path}-wal`), {
      what: `${path} is of an older kit and is copied before it is migrated`,
      remedy: 'Make room, see df -h (DATABASE_URL)',
    });
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
