// A copy of the whole store while it is at work, and a copy put in its place while it is not.
import { chmodSync, closeSync, copyFileSync, existsSync, fsyncSync, openSync, renameSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { StoreError } from '../store.ts';
import { connect, guarded, prepareFolder, requireVersion } from './connection.ts';

/** As of one moment. The log is not truncated meanwhile, so that it grows. Throws StoreError, also where `to` exists. */
export function backUp(path: string, to: string): void {
  if (existsSync(to)) throw new StoreError('unwritable', `${to} is there already: name another file`);
  const part = `${to}.part`;
  rmSync(part, { force: true });
  guarded(() => {
    const db = connect(path, { busyMs: 5_000 });
    db.prepare('vacuum into ?').run(part);
    db.close();
    const copy = new Database(part);
    // A start from the copy must not take what runs on the original for its own, and end it.
    copy.exec('delete from processes');
    copy.close();
  }, part);
  chmodSync(part, 0o600);
  sync(part);
  renameSync(part, to);
  sync(dirname(to));
}

/** For the owner of `path`. What was there is kept beside it; returns its name, null where nothing was. */
export function putInPlace(from: string, path: string, now: string): string | null {
  const copy = `${path}.part`;
  prepareFolder(path);
  copyFileSync(from, copy);
  try {
    requireWhole(copy);
  } catch (error) {
    rmSync(copy, { force: true });
    throw error;
  }
  const kept = existsSync(path) ? `${path}.replaced-${now.replaceAll(/[:.]/g, '-')}` : null;
  if (kept) {
    // Its log is written back first, so that the file that is kept is whole.
    guarded(() => connect(path, { busyMs: 5_000 }).close(), path);
    renameSync(path, kept);
    for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true });
  }
  renameSync(copy, path);
  sync(dirname(path));
  return kept;
}

function requireWhole(path: string): void {
  guarded(() => {
    const db = connect(path);
    requireVersion(db, path);
    const verdict = db.pragma('quick_check(1)', { simple: true });
    if (verdict !== 'ok') throw new StoreError('missing', `${path} is damaged: take an older backup`);
    db.exec('delete from processes');
    db.pragma('wal_checkpoint(TRUNCATE)');
    db.close();
  }, path);
  for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true });
  sync(path);
}

function sync(path: string): void {
  const file = openSync(path, 'r');
  fsyncSync(file);
  closeSync(file);
}
