// A copy of the whole store while it is at work, and a copy put in its place while it is not.
import {
  chmodSync,
  chownSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { StoreError } from '../store.ts';
import { connect, guarded, prepareFolder, requireVersion } from './connection.ts';

/** The file that a copy grows in, by this process. */
export const partOf = (to: string): string => `${to}.part-${process.pid}`;

/** As of one moment. The log is not truncated meanwhile, so that it grows. Throws StoreError, also where `to` exists. */
export function backUp(path: string, to: string): void {
  const part = partOf(to);
  try {
    // Readable for nobody else, from the first byte on.
    guarded(() => closeSync(openSync(part, 'w', 0o600)), part);
    guarded(() => copyInto(path, part), part);
    sync(part);
    // Unlike a rename, this takes nothing else's place.
    linkSync(part, to);
    sync(dirname(to));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw errorOf(error, to);
    throw new StoreError('unwritable', `${to} is there already: name another file`);
  } finally {
    for (const suffix of ['', '-journal']) rmSync(part + suffix, { force: true });
  }
}

function copyInto(path: string, part: string): void {
  const db = connect(path, { busyMs: 5_000 });
  try {
    db.prepare('vacuum into ?').run(part);
  } finally {
    db.close();
  }
  const copy = new Database(part);
  // A start from the copy must not take what runs on the original for its own, and end it.
  copy.exec('delete from processes');
  copy.close();
}

function errorOf(error: unknown, to: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof StoreError || typeof code !== 'string' || !/^E[A-Z]+$/.test(code)) return error;
  return new StoreError('unwritable', `${to} cannot be written (${code}): see its folder, its rights and the disk`);
}

/** For the owner of `path`. What was there is kept beside it; returns its name, null where nothing was. */
export function putInPlace(from: string, path: string, now: string): string | null {
  const copy = `${path}.part-${process.pid}`;
  prepareFolder(path);
  try {
    copyFileSync(from, copy);
    requireWhole(copy, from);
    const kept = existsSync(path) ? `${path}.replaced-${now.replaceAll(/[:.]/g, '-')}` : null;
    if (kept) setAside(path, kept);
    // In one step: at no moment is there no store.
    renameSync(copy, path);
    sync(dirname(path));
    return kept;
  } finally {
    for (const suffix of ['', '-wal', '-shm']) rmSync(copy + suffix, { force: true });
  }
}

/** Gives it a second name, and takes its log out of the way of what follows. */
function setAside(path: string, kept: string): void {
  const whole = writeBack(path);
  linkSync(path, kept);
  for (const suffix of ['-wal', '-shm']) {
    if (whole) rmSync(path + suffix, { force: true });
    else if (existsSync(path + suffix)) renameSync(path + suffix, kept + suffix);
  }
}

/** The log into the file, so that the file alone is whole. False where it is damaged: then its log is kept as it is. */
function writeBack(path: string): boolean {
  try {
    const db = connect(path, { busyMs: 5_000 });
    const [{ busy }] = db.pragma('wal_checkpoint(TRUNCATE)') as [{ busy: number }];
    db.close();
    if (busy) throw new StoreError('busy', `${path} is open in another process: end that first`);
    return true;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'busy') throw error;
    return false;
  }
}

/** As `name`, what people called it. */
function requireWhole(copy: string, name: string): void {
  try {
    guarded(() => {
      const db = connect(copy);
      requireVersion(db, name);
      const verdict = db.pragma('quick_check(1)', { simple: true });
      if (verdict !== 'ok') throw new StoreError('missing', `${name} is damaged: take an older backup`);
      db.exec('delete from processes');
      db.pragma('wal_checkpoint(TRUNCATE)');
      db.close();
    }, name);
  } catch (error) {
    if (error instanceof StoreError) throw new StoreError(error.code, error.message.replaceAll(copy, name), error);
    throw error;
  }
  for (const suffix of ['-wal', '-shm']) rmSync(copy + suffix, { force: true });
  chmodSync(copy, 0o600);
  // Root restores for the user that runs the kit.
  const { uid, gid } = statSync(dirname(copy));
  if (process.getuid?.() === 0) chownSync(copy, uid, gid);
  sync(copy);
}

function sync(path: string): void {
  const file = openSync(path, 'r');
  fsyncSync(file);
  closeSync(file);
}
