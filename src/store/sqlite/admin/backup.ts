// Backs up the whole store while the kit runs, and restores a copy while it does not.
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { orUndefined } from '../../../base/errors.ts';
import { keptOf } from '../../state.ts';
import { StoreError } from '../../store.ts';
import { makeOwn, partOf, replacedName } from '../backup.ts';
import { connect, versionOf, type Connection } from '../connection.ts';
import { guarded } from '../fault.ts';
import { prepareFolder } from '../folder.ts';
import { giveToOwner, readMark, requireSame, sizeOf, sync, writeMark } from '../file-identity.ts';

/**
 * Writes a copy that shows the store at one moment, reads all of it, and returns its size. While it is made, the WAL
 * grows, because it cannot begin anew. Throws StoreError, also if `to` exists.
 */
export function backUp(path: string, to: string): number {
  if (existsSync(to)) throw new StoreError('unwritable', `${to} is there already: name another file`);
  const part = `${to}.part`;
  try {
    // Only the owner of the file may ever read it, so the mode is set at creation.
    guarded(() => closeSync(openSync(part, 'w', 0o600)), part);
    const least = guarded(() => copyInto(path, part), part);
    sync(part);
    guarded(() => requireComplete(part, least), part);
    const { size } = statSync(part);
    renameSync(part, to);
    sync(dirname(to));
    return size;
  } catch (error) {
    throw errorOf(error, to);
  } finally {
    for (const suffix of ['', '-journal']) rmSync(part + suffix, { force: true });
  }
}

interface Reach {
  newest: bigint;
  watermark: bigint;
}

/** Returns how far the store went when the copy began. */
function copyInto(path: string, part: string): Reach {
  const db = connect(path, { busyMs: 5_000 });
  try {
    const reach = reachOf(db);
    db.prepare('vacuum into ?').run(part);
    makeOwn(part);
    return reach;
  } finally {
    db.close();
  }
}

function reachOf(db: Connection): Reach {
  const reach = db.prepare<[], Reach>(`
    select coalesce(max(seq), 0) as newest,
      coalesce((select cast(value as integer) from state where name = 'watermark'), 0) as watermark from events`);
  return reach.safeIntegers().get() as Reach;
}

/** Throws StoreError if the copy is damaged, or ends before the store did. */
function requireComplete(copy: string, least: Reach): void {
  const db = new Database(copy, { readonly: true });
  try {
    const verdict = String(db.pragma('integrity_check(1)', { simple: true }));
    const { newest, watermark } = reachOf(db);
    const lacks = db
      .prepare("select value - (select count(*) from events) from counters where name = 'events'")
      .pluck();
    const isWhole = !lacks.get() && newest >= least.newest && watermark >= least.watermark;
    if (verdict === 'ok' && isWhole) return;
    const what = verdict === 'ok' ? `it lacks events, up to number ${newest}` : verdict;
    throw new StoreError('unwritable', `the copy is not whole (${what}): see dmesg, and npx kit doctor`);
  } finally {
    db.close();
  }
}

function errorOf(error: unknown, to: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (error instanceof StoreError || typeof code !== 'string' || !/^E[A-Z]+$/.test(code)) return error;
  return new StoreError('unwritable', `${to} cannot be written (${code}): see its folder, its rights and the disk`);
}

/** What a restore set aside. */
export interface Kept {
  /** The old store. */
  file: string | null;
  /** A WAL that belonged to another file. */
  log: string | null;
  /** Handlers that were paused in the old store and are not in the backup; `*`: all. */
  unpaused: string[];
  /** Data was erased since the backup, so it is back. */
  unerased: boolean;
}

/** Records that a restore compares, and posted alarms, which it keeps. */
interface Records {
  paused: string[];
  erased: number;
  alarms: Record<string, unknown>[];
}

const ALARM = ['name', 'since', 'detail', 'told_at', 'level', 'news', 'cleared'];

/**
 * Restores the store from the file `from`, which may be the one at `path` itself. The old file is kept beside the new
 * one. Only the holder of the lock may call it.
 */
export function putInPlace(from: string, path: string, now: string): Kept {
  const copy = partOf(path);
  prepareFolder(path);
  try {
    const kept = guarded(() => {
      const own = isOwn(path);
      // If another file is at `path`, the WAL beside it is not its own, and must not be copied into it.
      const before = own ? requireClosed(path) : recordsIn(null);
      copyFileSync(from, copy);
      const { id, paused, erased } = requireWhole(copy, from, before);
      const aside = setAside(path, replacedName(path, now), own);
      // The `-id` file names the old id too and is written first: a start before the rename then accepts the old file.
      writeMark(path, id, readMark(path)?.id ?? null, copy);
      const unpaused = paused.includes('*') ? [] : before.paused.filter((name) => !paused.includes(name));
      return { ...aside, unpaused, unerased: before.erased > erased };
    }, path);
    // A rename is one step: at every moment there is a store.
    renameSync(copy, path);
    sync(dirname(path));
    return kept;
  } finally {
    for (const suffix of ['', '-wal', '-shm']) rmSync(copy + suffix, { force: true });
  }
}

/** Whether the file is the store that the `-id` file beside it names. Only then may the WAL be applied to it. */
function isOwn(path: string): boolean {
  try {
    requireSame(path);
    return existsSync(path);
  } catch (error) {
    if (error instanceof StoreError && error.code === 'replaced') return false;
    throw error;
  }
}

/** Gives the file the second name `kept` and renames the WAL: to match `kept`, if it is the file's own WAL. */
function setAside(path: string, kept: string, own: boolean): Pick<Kept, 'file' | 'log'> {
  const file = existsSync(path) ? kept : null;
  if (file) linkSync(path, kept);
  const logged = existsSync(`${path}-wal`);
  // SQLite does not look for a WAL under this name.
  const log = logged && !own ? `${kept}-log-of-another-file` : null;
  if (logged) renameSync(`${path}-wal`, log ?? `${kept}-wal`);
  // SQLite creates the -shm file again from the WAL.
  rmSync(`${path}-shm`, { force: true });
  return { file, log };
}

/**
 * Copies the WAL into the file, so that the file alone is complete. If the file is damaged, both stay as they are.
 */
function requireClosed(path: string): Records {
  try {
    const db = connect(path, { busyMs: 5_000, anyVersion: true });
    const [{ busy }] = db.pragma('wal_checkpoint(TRUNCATE)') as [{ busy: number }];
    const records = recordsIn(db);
    db.close();
    if (busy) throw new StoreError('busy', `${path} is open in another process: end that first`);
    for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true });
    return records;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'busy') throw error;
    return recordsIn(null);
  }
}

/** None if the store is damaged. */
function recordsIn(db: Connection | null): Records {
  const state = db?.prepare<[string], string>('select value from state where name = ?').pluck();
  const read = (): Records => ({
    paused: Object.keys(keptOf('paused', state?.get('paused') ?? null)),
    erased: Number(state?.get('erased') ?? 0),
    alarms: db?.prepare<[], Record<string, unknown>>(`select ${ALARM.join()} from alarms`).all() ?? [],
  });
  return orUndefined(read) ?? { paused: [], erased: 0, alarms: [] };
}

/**
 * Checks the copy, which may be of an older kit, and gives it a new id. Errors call the file `name`, as people know it.
 */
function requireWhole(copy: string, name: string, before: Records): Records & { id: string } {
  if (sizeOf(copy) === 0) throw new StoreError('missing', `${name} is empty: take another backup`);
  const id = randomUUID();
  let records = recordsIn(null);
  try {
    guarded(() => {
      const db = connect(copy);
      const verdict = versionOf(db) > 0 && db.pragma('quick_check(1)', { simple: true });
      if (verdict !== 'ok') throw new StoreError('missing', `${name} is incomplete or damaged: take another backup`);
      // A session may have ended since the backup, and the backup that it notes is not one of this store.
      db.exec(`delete from processes; delete from state where name = 'backup' or name like 'session%'`);
      db.prepare('update store set id = ?').run(id);
      records = recordsIn(db);
      // Alarms that were posted: the kit ends them, so that they do not stay open at ALERT_URL.
      const keep = db.prepare(`insert or replace into alarms (${ALARM.join()}) values (@${ALARM.join(', @')})`);
      for (const alarm of before.alarms) keep.run(alarm);
      db.pragma('wal_checkpoint(TRUNCATE)');
      db.close();
    }, name);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const { code = '' } = (error.cause ?? {}) as { code?: string };
    const words = /NOTADB|CORRUPT|SHORT_READ/.test(code)
      ? `${name} is incomplete or damaged (${code}): take another backup`
      : error.message.replaceAll(copy, name);
    throw new StoreError(error.code, words, error);
  }
  for (const suffix of ['-wal', '-shm']) rmSync(copy + suffix, { force: true });
  chmodSync(copy, 0o600);
  giveToOwner(copy);
  sync(copy);
  return { ...records, id };
}
