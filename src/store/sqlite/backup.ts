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
import { connect, requireVersion, type Connection } from './connection.ts';
import { guarded } from './fault.ts';
import { prepareFolder } from './folder.ts';
import { newId, readMark, requireSame, writeMark } from './file-identity.ts';

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
  makeOwn(part);
}

/** A start from the copy must not take what runs on the original for its own, and end it; nor may it pass for the original. */
function makeOwn(copy: string): void {
  const db = new Database(copy);
  try {
    db.exec('delete from processes');
    db.prepare('update store set id = ?').run(newId());
  } finally {
    db.close();
  }
}

/** What a connection still has open of a file that lost its place. Resolves to the name of the copy, beside it. */
export async function saveOpen(db: Connection, path: string, now: string): Promise<string> {
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

const replacedName = (path: string, now: string): string => `${path}.replaced-${now.replaceAll(/[:.]/g, '-')}`;

function errorOf(error: unknown, to: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof StoreError || typeof code !== 'string' || !/^E[A-Z]+$/.test(code)) return error;
  return new StoreError('unwritable', `${to} cannot be written (${code}): see its folder, its rights and the disk`);
}

/** What was set aside: the file that was there, and a log that was not its own. */
export interface Kept {
  file: string | null;
  log: string | null;
}

/** For the owner of `path`. What was there is kept beside it. `from` may be what lies at `path` already. */
export function putInPlace(from: string, path: string, now: string): Kept {
  const copy = partOf(path);
  prepareFolder(path);
  try {
    const kept = guarded(() => {
      const own = isOwn(path);
      // Its log belongs to what is copied where that is our own store; to no other file.
      if (own) requireClosed(path);
      copyFileSync(from, copy);
      const id = requireWhole(copy, from);
      const aside = setAside(path, replacedName(path, now), own);
      // Before it is in its place: a start in between finds what it was told of.
      writeMark(path, id, readMark(path)?.id ?? null, copy);
      return aside;
    }, path);
    // In one step: at no moment is there no store.
    renameSync(copy, path);
    sync(dirname(path));
    return kept;
  } finally {
    for (const suffix of ['', '-wal', '-shm']) rmSync(copy + suffix, { force: true });
  }
}

/** Whether the log beside it may be applied to it. */
function isOwn(path: string): boolean {
  try {
    requireSame(path);
    return existsSync(path);
  } catch (error) {
    if (error instanceof StoreError && error.code === 'replaced') return false;
    throw error;
  }
}

/** Gives it a second name, and takes the log out of the way of what follows: under that name where it is its own. */
function setAside(path: string, kept: string, own: boolean): Kept {
  const file = existsSync(path) ? kept : null;
  if (file) linkSync(path, kept);
  const logged = existsSync(`${path}-wal`);
  // No name that SQLite would look for.
  const log = logged && !own ? `${kept}-log-of-another-file` : null;
  if (logged) renameSync(`${path}-wal`, log ?? `${kept}-wal`);
  // It is made again of what the log holds.
  rmSync(`${path}-shm`, { force: true });
  return { file, log };
}

/** The log into the file, so that the file alone is whole. A damaged one is kept with its log as it is. */
function requireClosed(path: string): void {
  try {
    const db = connect(path, { busyMs: 5_000 });
    const [{ busy }] = db.pragma('wal_checkpoint(TRUNCATE)') as [{ busy: number }];
    db.close();
    if (busy) throw new StoreError('busy', `${path} is open in another process: end that first`);
    for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true });
  } catch (error) {
    if (error instanceof StoreError && error.code === 'busy') throw error;
  }
}

/** As `name`, what people called it. Returns its new id. */
function requireWhole(copy: string, name: string): string {
  const id = newId();
  try {
    guarded(() => {
      const db = connect(copy);
      requireVersion(db, name);
      const verdict = db.pragma('quick_check(1)', { simple: true });
      if (verdict !== 'ok') throw new StoreError('missing', `${name} is damaged: take an older backup`);
      db.exec('delete from processes');
      db.prepare('update store set id = ?').run(id);
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
  return id;
}

function sync(path: string): void {
  const file = openSync(path, 'r');
  fsyncSync(file);
  closeSync(file);
}
