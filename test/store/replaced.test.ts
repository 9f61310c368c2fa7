// E12: the store's file is replaced or deleted, under a running kit or between two starts. Then nothing is accepted,
// and no WAL is applied to another file. `kit restore` recovers from each of these states.
import {
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Replaced, Taken } from '../../src/store/site.ts';
import { own } from '../../src/store/sqlite/ownership.ts';
import { backUp, putInPlace } from '../../src/store/sqlite/admin/backup.ts';
import { lockStore } from '../../src/store/sqlite/lock.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { StoreError } from '../../src/store/store.ts';
import { readDelivery, type Reading } from '../../src/wire/event.ts';
import { bodyOf, T0 } from '../receive/harness.ts';

let folder: string;
let path: string;
const closing: (() => void)[] = [];
let restores = 0;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kit-replaced-'));
  path = join(folder, 'events.db');
});
afterEach(() => {
  for (const close of closing.splice(0)) close();
  rmSync(folder, { recursive: true, force: true });
});

const webhook = (cursor: number): Reading => readDelivery(bodyOf({ cursor: String(cursor) }));
const wal = (): string => `${path}-wal`;

async function start(at = path, onReplaced?: (replaced: Replaced) => void): Promise<Taken> {
  const owned = await own(at, onReplaced ? { onReplaced } : {});
  let open = true;
  const release = (): void => {
    if (open) owned.release();
    open = false;
  };
  closing.push(release);
  return { ...owned, release };
}

async function accept({ store }: Taken, ...cursors: number[]): Promise<void> {
  await store.ingest.accept({ readings: cursors.map(webhook), now: T0 });
}

function idsIn(file: string): string[] {
  const db = new Database(file, { readonly: true });
  try {
    return db.prepare<[], string>('select id from events order by seq').pluck().all();
  } finally {
    db.close();
  }
}

const codeOf = (work: () => unknown): string => {
  try {
    work();
  } catch (error) {
    return error instanceof StoreError ? error.code : String(error);
  }
  return 'no error';
};

/** Leaves a store as a kill does: the WAL is not copied into the file, and the lock is free. */
async function crashed(...cursors: number[]): Promise<void> {
  const owned = await start();
  await accept(owned, ...cursors);
  const saved = join(folder, 'saved');
  for (const end of ['', '-wal']) linkSync(path + end, saved + end);
  const log = readFileSync(wal());
  const bytes = readFileSync(path);
  owned.release();
  // The files keep their inodes and get their earlier content again.
  writeFileSync(saved, bytes);
  writeFileSync(`${saved}-wal`, log);
  if (!existsSync(wal())) renameSync(`${saved}-wal`, wal());
  for (const end of ['', '-wal']) rmSync(saved + end, { force: true });
}

async function backupOf(...cursors: number[]): Promise<string> {
  const owned = await start();
  await accept(owned, ...cursors);
  owned.release();
  const copy = join(folder, 'backup.db');
  backUp(path, copy);
  return copy;
}

/** Restores as a person does who has stopped the kit. */
function restore(from: string): ReturnType<typeof putInPlace> {
  const lock = lockStore(path);
  try {
    return putInPlace(from, path, new Date(T0 + restores++).toISOString());
  } finally {
    lock.close();
  }
}

describe('E12: under a running kit', () => {
  test('a file that replaces the store stays unchanged, as does the old WAL, and a copy holds every accepted event', async () => {
    const backup = await backupOf(1);
    const found: Replaced[] = [];
    const owned = await start(path, (replaced) => void found.push(replaced));
    await accept(owned, 2, 3);
    renameSync(backup, path);
    const bytes = readFileSync(path);
    const log = readFileSync(wal());
    await expect(accept(owned, 4)).rejects.toMatchObject({ code: 'replaced' });
    await expect(owned.store.state.note({})).rejects.toMatchObject({ code: 'replaced' });
    expect(codeOf(() => openSqlite(path))).toBe('replaced');
    expect(found).toHaveLength(1);
    const copy = (await found[0]?.copy) ?? '';
    expect(copy).toContain('.replaced-');
    expect(idsIn(copy)).toEqual(['evt_1', 'evt_2', 'evt_3']);
    expect(statSync(copy).mode & 0o777).toBe(0o600);
    owned.release();
    expect(readFileSync(path).equals(bytes)).toBe(true);
    expect(readFileSync(wal()).equals(log)).toBe(true);
  });

  test.each(['the file', 'its WAL'])('nothing is accepted after %s was deleted, even if it returns', async (what) => {
    const owned = await start();
    await accept(owned, 1);
    const gone = what === 'the file' ? path : wal();
    renameSync(gone, `${gone}.away`);
    await expect(accept(owned, 2)).rejects.toMatchObject({ code: 'replaced' });
    renameSync(`${gone}.away`, gone);
    await expect(accept(owned, 3)).rejects.toMatchObject({ code: 'replaced' });
    owned.release();
    const again = await start();
    await accept(again, 4);
    expect(idsIn(path)).toEqual(['evt_1', 'evt_4']);
  });

  test('when the kit stops, a deleted WAL that is still open is copied into the file', async () => {
    const owned = await start();
    await accept(owned, 1);
    rmSync(wal());
    await expect(accept(owned, 2)).rejects.toMatchObject({ code: 'replaced' });
    owned.release();
    await start();
    expect(idsIn(path)).toEqual(['evt_1']);
  });

  test.each([
    ['a backup', async (backup: string) => copyFileSync(backup, path)],
    ['a shorter file', async (backup: string) => writeFileSync(path, readFileSync(backup).subarray(0, 3 * 4_096))],
    ['an empty file', async () => writeFileSync(path, '')],
  ])('after %s was copied over the store, which keeps its inode, the store accepts nothing more', async (_, copy) => {
    const backup = await backupOf(1);
    const found: Replaced[] = [];
    const owned = await start(path, (replaced) => void found.push(replaced));
    await accept(owned, 2);
    await copy(backup);
    await expect(accept(owned, 3)).rejects.toMatchObject({
      code: 'replaced',
      message: expect.stringContaining('copied over'),
    });
    await expect(owned.store.state.note({})).rejects.toMatchObject({ code: 'replaced' });
    expect(await found[0]?.copy).toBeUndefined();
    owned.release();
    restore(backup);
    await accept(await start(), 4);
    expect(idsIn(path)).toEqual(['evt_1', 'evt_4']);
  });

  test('a copy of the file that was made during the same run and is copied back is detected, although its id is right', async () => {
    const owned = await start();
    await accept(owned, 1);
    await owned.store.processes.settle();
    const copy = readFileSync(path);
    await accept(owned, ...Array.from({ length: 200 }, (_, n) => n + 2));
    await owned.store.processes.settle();
    await accept(owned, 300);
    writeFileSync(path, copy);
    await expect(accept(owned, 301)).rejects.toMatchObject({
      code: 'replaced',
      message: expect.stringContaining('copied over'),
    });
  });

  test('restore refuses to replace the store', async () => {
    const backup = await backupOf(1);
    const owned = await start();
    expect(codeOf(() => restore(backup))).toBe('owned');
    renameSync(backup, path);
    await expect(accept(owned, 2)).rejects.toMatchObject({ code: 'replaced' });
    expect(codeOf(() => restore(path))).toBe('owned');
  });
});

describe('E12: between two starts', () => {
  test('a backup beside the WAL of another store is refused by owner and commands, and stays unchanged; restore accepts it', async () => {
    const backup = await backupOf(1);
    await crashed(2, 3);
    renameSync(backup, path);
    const [bytes, log] = [readFileSync(path), readFileSync(wal())];
    expect(log.length).toBeGreaterThan(0);
    await expect(start()).rejects.toMatchObject({
      code: 'replaced',
      message: expect.stringContaining('npx kit restore'),
    });
    expect(codeOf(() => openSqlite(path))).toBe('replaced');
    expect(codeOf(() => backUp(path, join(folder, 'other.db')))).toBe('replaced');
    expect([readFileSync(path).equals(bytes), readFileSync(wal()).equals(log)]).toEqual([true, true]);
    expect(readdirSync(folder).filter((name) => /look|part/.test(name))).toEqual([]);
    const kept = restore(path);
    expect(readFileSync(kept.log ?? '').equals(log)).toBe(true);
    expect(readFileSync(kept.file ?? '').equals(bytes)).toBe(true);
    await accept(await start(), 4);
    expect(idsIn(path)).toEqual(['evt_1', 'evt_4']);
  });

  test('a backup that was written over the file, which keeps its inode, is refused as well', async () => {
    const backup = await backupOf(1);
    await crashed(2);
    copyFileSync(backup, path);
    await expect(start()).rejects.toMatchObject({ code: 'replaced' });
  });

  test('a file that is damaged because its WAL was deleted after a kill is refused, and restore puts a backup in its place', async () => {
    const backup = await backupOf(1);
    const owned = await start();
    await owned.store.processes.beat({ role: 'receive', pid: process.pid, started: '', boot: 1 }, T0);
    await owned.store.processes.settle();
    const before = readFileSync(path);
    await accept(owned, ...Array.from({ length: 200 }, (_, n) => n + 2));
    await owned.store.processes.settle();
    const after = readFileSync(path);
    owned.release();
    // The file now looks as if only every other page of the WAL had been copied into it.
    for (let page = 0; page * 4_096 < before.length; page += 2)
      before.copy(after, page * 4_096, page * 4_096, (page + 1) * 4_096);
    writeFileSync(path, after);
    await expect(start()).rejects.toMatchObject({ code: 'replaced', message: expect.stringContaining('was deleted') });
    restore(backup);
    await accept(await start(), 300);
    expect(idsIn(path)).toEqual(['evt_1', 'evt_300']);
  });

  test.each(['deleted', 'emptied'])(
    'a WAL that was %s after a kill is reported, although the file is whole',
    async (how) => {
      const owned = await start();
      expect(owned.logLost).toBe(false);
      await owned.store.processes.beat({ role: 'receive', pid: process.pid, started: '', boot: 1 }, T0);
      await owned.store.processes.settle();
      owned.release();
      if (how === 'emptied') writeFileSync(wal(), '');
      expect((await start()).logLost).toBe(true);
    },
  );

  test('an older raw copy of the same store beside a newer WAL is refused', async () => {
    const owned = await start();
    await accept(owned, 1);
    owned.release();
    copyFileSync(path, join(folder, 'raw.db'));
    const again = await start();
    copyFileSync(path, join(folder, 'raw-of-now.db'));
    again.release();
    for (const raw of ['raw.db', 'raw-of-now.db']) {
      await crashed(2);
      renameSync(join(folder, raw), path);
      await expect(start(), raw).rejects.toMatchObject({ code: 'replaced' });
      restore(path);
      (await start()).release();
    }
  });

  test('a raw copy from the last run beside its WAL is refused, because the WAL may be newer', async () => {
    const owned = await start();
    await accept(owned, 1);
    copyFileSync(path, join(folder, 'raw.db'));
    const log = readFileSync(wal());
    owned.release();
    renameSync(join(folder, 'raw.db'), path);
    writeFileSync(wal(), log);
    await expect(start()).rejects.toMatchObject({ code: 'replaced' });
  });

  test('a file with another id is refused even without a WAL', async () => {
    const backup = await backupOf(1);
    (await start()).release();
    expect(existsSync(wal())).toBe(false);
    renameSync(backup, path);
    await expect(start()).rejects.toMatchObject({ code: 'replaced' });
    expect(restore(path).log).toBeNull();
    await accept(await start(), 2);
    expect(idsIn(path)).toEqual(['evt_1', 'evt_2']);
  });

  test('a WAL whose file is gone is neither applied to a new file nor deleted', async () => {
    const backup = await backupOf(1);
    await crashed(2);
    rmSync(path);
    const log = readFileSync(wal());
    await expect(start()).rejects.toMatchObject({ code: 'replaced' });
    writeFileSync(path, '');
    await expect(start()).rejects.toMatchObject({ code: 'replaced' });
    const kept = restore(backup);
    expect(readFileSync(kept.log ?? '').equals(log)).toBe(true);
    await start();
    expect(idsIn(path)).toEqual(['evt_1']);
  });

  test('if both file and WAL are gone, no empty store is created silently', async () => {
    (await start()).release();
    rmSync(path);
    await expect(start()).rejects.toThrow('is gone or empty');
    expect(existsSync(path)).toBe(false);
  });

  test('after a kill the same file starts with its WAL', async () => {
    await crashed(1, 2);
    await start();
    expect(idsIn(path)).toEqual(['evt_1', 'evt_2']);
  });

  test.each(['a start', 'a command'])(
    'a whole folder that was copied elsewhere, with the WAL, is opened by %s',
    async (how) => {
      await crashed(1, 2);
      const moved = mkdtempSync(join(tmpdir(), 'kit-moved-'));
      closing.push(() => rmSync(moved, { recursive: true, force: true }));
      cpSync(folder, moved, { recursive: true });
      const at = join(moved, 'events.db');
      if (how === 'a command') openSqlite(at).close();
      const owned = await start(at);
      expect(idsIn(at)).toEqual(['evt_1', 'evt_2']);
      owned.release();
    },
  );

  test('a backup that was moved by hand to a path without other files starts', async () => {
    const backup = await backupOf(1);
    for (const name of readdirSync(folder)) if (name.startsWith('events.db')) rmSync(join(folder, name));
    renameSync(backup, path);
    await accept(await start(), 2);
    expect(idsIn(path)).toEqual(['evt_1', 'evt_2']);
  });

  test('after a start that died with the new id only in the mark beside the file, the next start succeeds', async () => {
    const owned = await start();
    await accept(owned, 1);
    owned.release();
    const mark = readFileSync(`${path}-id`, 'utf8');
    const db = new Database(path);
    const id = db.prepare<[], string>('select id from store').pluck().get();
    db.close();
    expect(JSON.parse(mark)).toMatchObject({ id, was: null });
    writeFileSync(`${path}-id`, JSON.stringify({ ...JSON.parse(mark), id: 'the next', was: id }));
    await start();
    expect(idsIn(path)).toEqual(['evt_1']);
  });

  test('restore sets a whole store aside together with the content of its WAL', async () => {
    const backup = await backupOf(1);
    await crashed(2);
    const kept = restore(backup);
    expect(kept.log).toBeNull();
    expect(idsIn(kept.file ?? '')).toEqual(['evt_1', 'evt_2']);
    await start();
    expect(idsIn(path)).toEqual(['evt_1']);
  });

  test('restore says that events which were erased after the backup are back, and keeps posted alarms for their end', async () => {
    const backup = await backupOf(1);
    const owned = await start();
    await owned.store.alarms.raise('disk_low', 'little room', T0);
    await owned.store.alarms.told('disk_low', 1, 0, T0);
    owned.release();
    expect(restore(backup).unerased).toBe(false);
    const again = await start();
    expect(await again.store.alarms.raised()).toMatchObject([{ name: 'disk_low', toldAt: T0, cleared: false }]);
    await again.store.admin.eraseEvents(() => true, 0, 10, T0, false);
    again.release();
    expect(restore(backup).unerased).toBe(true);
    expect(restore(path).unerased).toBe(false);
  });
});
