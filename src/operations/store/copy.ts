// Makes a verified copy of the store in a process of its own, because SQLite would block this one for a long time. The
// newest seven copies of a store stay in the folder.
import Database from 'better-sqlite3';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { iso } from '../../base/clock.ts';
import { describe, EXIT } from '../../base/errors.ts';
import { SCHEMA } from '../../store/sqlite/open.ts';
import { StoreError } from '../../store/store.ts';

const run = promisify(execFile);
const KEPT = 7;
const LIMIT_MS = 3_600_000;
/** Bytes that must stay free on the disk. */
const LEFT = 640 * 2 ** 20;

/** Resolves with the copy's path. Throws StoreError. */
export async function copyStore(store: string, folder: string, now: number): Promise<string> {
  const moment = (iso(now) ?? '').slice(0, 19).replaceAll(':', '-');
  const args = [import.meta.filename, store, resolve(folder), moment];
  try {
    // The environment holds secrets, which a copy does not need.
    return (await run(process.execPath, args, { env: {}, timeout: LIMIT_MS })).stdout.trim();
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string };
    const why = stderr.trim() || 'the copying process was killed, or took over an hour: see dmesg';
    throw new StoreError('io', `no backup was written: ${why}`);
  }
}

function copy(store: string, folder: string, moment: string): string {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const db = new Database(store, { readonly: true, fileMustExist: true });
  const key = String(db.prepare("select value from state where name = 'lane_key'").pluck().get());
  // The name begins with a hash of the store's key, so a new store never deletes a lost one's copies.
  const own = `kit-${createHash('sha256').update(key).digest('hex').slice(0, 8)}-`;
  const names = (end: string): string[] =>
    fs.readdirSync(folder).filter((name) => name.startsWith(own) && name.endsWith(end));
  for (const name of names('.part')) fs.rmSync(join(folder, name));
  const { bavail, bsize } = fs.statfsSync(folder);
  if (bavail * bsize < fs.statSync(store).size + LEFT) throw new Error(`${folder} has too little room for the copy`);
  const file = join(folder, `${own}${moment}.db`);
  db.prepare('vacuum into ?').run(`${file}.part`);
  db.close();
  verify(`${file}.part`);
  fs.renameSync(`${file}.part`, file);
  for (const name of names('.db').toSorted().slice(0, -KEPT)) fs.rmSync(join(folder, name));
  return file;
}

/** Reads the whole file, and syncs it. Throws if the file is not a sound store of this kit. */
export function verify(file: string): void {
  const db = new Database(file, { readonly: true, fileMustExist: true });
  const found = db.pragma('integrity_check(1)', { simple: true });
  const version = db.pragma('user_version', { simple: true });
  db.close();
  if (found !== 'ok') throw new Error(`${file} is damaged: ${String(found)}`);
  if (version !== SCHEMA) throw new Error(`${file} is not a store of this kit`);
  const opened = fs.openSync(file, 'r+');
  fs.fsyncSync(opened);
  fs.closeSync(opened);
}

if (process.argv[1] === import.meta.filename) {
  const [, , store = '', folder = '', moment = ''] = process.argv;
  process.umask(0o077);
  try {
    console.log(copy(store, folder, moment));
  } catch (error) {
    console.error(describe(error).message);
    process.exitCode = EXIT.failed;
  }
}
