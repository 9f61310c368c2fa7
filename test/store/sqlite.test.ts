// SQLite's own promises: what it would drop in silence (synced commits, types), what it refuses, and how it migrates.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { connect, migrate, setSynchronous, versionOf } from '../../src/store/sqlite/connection.ts';
import { openSqlite, type OpenOptions } from '../../src/store/sqlite/open.ts';
import { StoreError, type Store } from '../../src/store/store.ts';
import { storeContract } from '../store-contract.ts';

storeContract('a SQLite store', (path) => openSqlite(path, { owner: true, idsInSegment: 3 }));

describe('SQLite', () => {
  let folder: string;
  let path: string;
  const closing: { close(): unknown }[] = [];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'kit-sqlite-'));
    path = join(folder, 'events.db');
  });

  afterEach(() => {
    for (const one of closing.splice(0)) one.close();
    rmSync(folder, { recursive: true, force: true });
  });

  function open(options: OpenOptions = {}): Store {
    const store = openSqlite(path, options);
    closing.push(store);
    return store;
  }

  function raw(file = path): Database.Database {
    const db = new Database(file);
    closing.push(db);
    return db;
  }

  function codeOf(work: () => unknown): string {
    try {
      work();
    } catch (error) {
      return error instanceof StoreError ? error.code : String(error);
    }
    return 'no error';
  }

  async function pragma(store: Store, name: string): Promise<unknown> {
    let value: unknown;
    await store.setup((tx) => void (value = Object.values(tx.get(`pragma ${name}`) ?? {})[0]));
    return value;
  }

  describe('commits are synced', () => {
    test('by whoever creates the file, and by everyone who opens it later', async () => {
      expect(await pragma(open({ owner: true }), 'synchronous')).toBe(2);
      expect(await pragma(open(), 'synchronous')).toBe(2);
      expect(await pragma(open({ owner: true }), 'synchronous')).toBe(2);
    });

    test('also when an existing WAL file is opened after a restart, where SQLite itself falls back to NORMAL', async () => {
      openSqlite(path, { owner: true }).close();
      expect(raw().pragma('synchronous', { simple: true })).toBe(1);
      const store = open({ owner: true });
      expect(await pragma(store, 'synchronous')).toBe(2);
      expect(await pragma(store, 'journal_mode')).toBe('wal');
    });

    test('not for claims and verdicts, where that was asked for', async () => {
      openSqlite(path, { owner: true }).close();
      expect(await pragma(open({ synchronous: 'NORMAL' }), 'synchronous')).toBe(1);
    });

    test('behind their transactions where they hold what handlers write, many by one sync', async () => {
      openSqlite(path, { owner: true }).close();
      const store = open({ synchronous: 'NORMAL' });
      const gap = (after: string) => ({ after: after as never, upTo: null, reason: 'test' });
      for (let n = 1; n <= 20; n++) await store.accept({ readings: [], now: 0, gap: gap(String(n)) });
      const handler = (await store.register(['one'])).get('one') ?? 0;
      const tasks = Array.from({ length: 20 }, (_, n) => {
        return { event: n + 1, handler, lane: null, cursor: null, releaseAt: 0 };
      });
      const assign = { from: 0, upTo: 20, tasks };
      const { claims } = await store.turn({ now: 0, boot: 1, settle: [], assign, room: 20, handlers: [handler] });
      const file = await openFile(path);
      const syncs = vi.spyOn(Object.getPrototypeOf(file) as typeof file, 'datasync');
      await file.close();
      let begun = 0;
      const completed = claims.map((claim) =>
        store
          .complete(claim, 0, () => {})
          .then((held) => {
            begun = syncs.mock.calls.length;
            return held;
          }),
      );
      expect(await Promise.all(completed)).toEqual(claims.map(() => true));
      expect(begun).toBe(1);
      syncs.mockRestore();
    });

    test('a level that SQLite does not take is an error, not a silence', () => {
      const db = raw();
      db.exec('begin');
      expect(codeOf(() => setSynchronous(db, 'NORMAL'))).not.toBe('no error');
      db.exec('rollback');
    });
  });

  describe('the schema', () => {
    test('is strict in every table, so that no text hides in a column of numbers', () => {
      open({ owner: true });
      const tables = raw()
        .prepare(`select name, strict from pragma_table_list where type = 'table' and name not like 'sqlite_%'`)
        .all();
      expect(tables.length).toBeGreaterThan(10);
      expect(tables.filter((table) => (table as { strict: number }).strict !== 1)).toEqual([]);
    });

    test('refuses a cursor that would become a float, bytes that are none, and an origin that is none', () => {
      open({ owner: true });
      const db = raw();
      const insert = (cursor: string) =>
        `insert into events (cursor, type, received_at, origin) values (${cursor}, 'T', 0, 'webhook')`;
      expect(() => db.exec(insert(`'9223372036854775808'`))).toThrow(/INTEGER/);
      expect(() => db.exec(insert('9223372036854775808'))).toThrow(/INTEGER/);
      expect(() =>
        db.exec(
          `insert into quarantine (digest, received_at, origin, reason, body) values (1, 0, 'webhook', 'x', x'')`,
        ),
      ).toThrow(/BLOB/);
      expect(() =>
        db.exec(`insert into events (id, type, received_at, origin) values ('i', 'T', 0, 'pigeon')`),
      ).toThrow(/CHECK/);
    });
  });

  describe('migrations', () => {
    const folderOf = () => pathToFileURL(`${folder}/migrations/`);

    function write(name: string, sql: string): void {
      mkdirSync(`${folder}/migrations`, { recursive: true });
      writeFileSync(`${folder}/migrations/${name}`, sql);
    }

    function opened(): Database.Database {
      const db = connect(path, { create: true });
      closing.push(db);
      return db;
    }

    test('of this kit are numbered without a hole', () => {
      open({ owner: true });
      expect(versionOf(raw())).toBeGreaterThan(0);
    });

    test('are applied once each, in order, and the file is copied before a later one', () => {
      const db = opened();
      write('001.sql', 'create table one (n integer) strict; insert into one values (1);');
      migrate(db, path, folderOf());
      expect(existsSync(`${path}.before-1`)).toBe(false);
      write('002.sql', 'alter table one add column m integer;');
      migrate(db, path, folderOf());
      migrate(db, path, folderOf());
      expect(versionOf(db)).toBe(2);
      expect(db.prepare('select * from one').all()).toEqual([{ n: 1, m: null }]);
      const copy = raw(`${path}.before-2`);
      expect(versionOf(copy)).toBe(1);
      expect(copy.prepare('select * from one').all()).toEqual([{ n: 1 }]);
    });

    test('one that fails leaves the file as it was, and the mended one goes on from there (K9)', () => {
      const db = opened();
      write('001.sql', 'create table one (n integer) strict;');
      migrate(db, path, folderOf());
      write('002.sql', 'create table two (n integer) strict; create table one (n integer) strict;');
      expect(() => migrate(db, path, folderOf())).toThrow(/already exists/);
      expect(versionOf(db)).toBe(1);
      expect(db.prepare(`select name from sqlite_schema`).pluck().all()).toEqual(['one']);
      write('002.sql', 'create table two (n integer) strict;');
      expect(() => migrate(db, path, folderOf())).not.toThrow();
      expect(versionOf(db)).toBe(2);
    });

    test.each([{ owner: true }, { owner: false }])(
      'a file of a newer kit is refused, with $owner as owner',
      ({ owner }) => {
        openSqlite(path, { owner: true }).close();
        const db = raw();
        db.pragma(`user_version = ${versionOf(db) + 1}`);
        expect(codeOf(() => open({ owner }))).toBe('newer');
        expect(versionOf(db)).toBeGreaterThan(1);
      },
    );
  });

  describe('what is no store is refused', () => {
    test('where there is no file, by all but the owner', () => {
      expect(codeOf(() => open())).toBe('missing');
      expect(existsSync(path)).toBe(false);
    });

    test.each([{ owner: true }, { owner: false }])(
      'a file that is not SQLite, with $owner as owner, untouched',
      ({ owner }) => {
        const text = 'a diary, and a long one: '.repeat(100);
        writeFileSync(path, text);
        expect(codeOf(() => open({ owner }))).toBe('unwritable');
        expect(readFileSync(path, 'utf8')).toBe(text);
      },
    );

    test.each([{ owner: true }, { owner: false }])(
      "another program's SQLite file, with $owner as owner, untouched",
      ({ owner }) => {
        const db = raw();
        db.exec('create table diary (entry text)');
        const before = readFileSync(path);
        expect(codeOf(() => open({ owner }))).toBe('missing');
        expect(db.prepare('select name from sqlite_schema').pluck().all()).toEqual(['diary']);
        expect(readFileSync(path).equals(before)).toBe(true);
      },
    );

    test("another program's SQLite file that has a version of its own", () => {
      const db = raw();
      db.exec('create table diary (entry text); pragma user_version = 1');
      expect(codeOf(() => open({ owner: true }))).toBe('missing');
    });

    test('a folder that cannot be made', () => {
      writeFileSync(join(folder, 'file'), '');
      path = join(folder, 'file', 'events.db');
      expect(codeOf(() => open({ owner: true }))).toBe('unwritable');
    });

    test('F4: a file that cannot be opened for writing', () => {
      mkdirSync(path);
      expect(codeOf(() => open({ owner: true }))).toBe('unwritable');
    });
  });

  test('a lock held elsewhere is a busy store, and the store goes on once it is free', async () => {
    const store = open({ owner: true, busyMs: 1 });
    const db = raw();
    db.exec('begin immediate');
    await expect(store.note({ events: 0 })).rejects.toMatchObject({ code: 'busy' });
    db.exec('commit');
    await store.note({ 'refused.stale': 1 });
    expect(await store.counters()).toEqual({ 'refused.stale': 1 });
  });

  test('F11: nothing is accepted into a file that was moved or replaced while open', async () => {
    const store = open({ owner: true });
    await store.note({});
    renameSync(path, `${path}.gone`);
    await expect(store.note({})).rejects.toMatchObject({ code: 'unwritable' });
    writeFileSync(path, '');
    await expect(store.note({})).rejects.toMatchObject({ code: 'unwritable' });
  });

  test('F11: where another store took the place of ours, it is the log of that one that is synced', async () => {
    /** The logs that are open for reading alone: to be synced. */
    const logs = (): string[] =>
      readdirSync('/proc/self/fdinfo').flatMap((fd) => {
        const flags = /flags:\s+(\d+)/.exec(quietly(() => readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')))?.[1];
        const file = quietly(() => readlinkSync(`/proc/self/fd/${fd}`));
        return flags && parseInt(flags, 8) % 4 === 0 && file.startsWith(folder) && /-wal/.test(file) ? [file] : [];
      });
    const other = join(folder, 'other.db');
    openSqlite(other, { owner: true }).close();
    const store = open({ owner: true, synchronous: 'NORMAL' });
    await store.accept({ readings: [], now: 0 });
    expect(logs()).toEqual([`${path}-wal`]);
    for (const part of ['', '-wal', '-shm']) renameSync(path + part, `${path}.gone${part}`);
    renameSync(other, path);
    await store.accept({ readings: [], now: 0 });
    await expect.poll(logs).toEqual([`${path}-wal`]);
  });
});

/** What is read may be gone by then. */
function quietly(read: () => string): string {
  try {
    return read();
  } catch {
    return '';
  }
}
