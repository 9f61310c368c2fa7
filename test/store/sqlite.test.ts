// Tests for SQLite alone: commits and types that SQLite would lose silently, files that the store refuses, and
// migrations.
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import Database, { type Statement } from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { connect, migrate, setSynchronous, versionOf } from '../../src/store/sqlite/connection.ts';
import type { OpenOptions } from '../../src/store/site.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { StoreError, type Store } from '../../src/store/store.ts';
import { storeContract } from '../store-contract/suite.ts';

storeContract(
  'a SQLite store',
  (path) => openSqlite(path, { owner: true, idsInSegment: 3 }),
  (folder) =>
    readdirSync(folder)
      .map((file) => readFileSync(join(folder, file), 'latin1'))
      .join(''),
);

describe('SQLite', () => {
  let folder: string;
  let path: string;
  const closing: { close(): unknown }[] = [];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'kit-sqlite-'));
    path = join(folder, 'events.db');
  });

  afterEach(() => {
    vi.restoreAllMocks();
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
    await store.work.setup(async (tx) => void (value = Object.values((await tx.get(`pragma ${name}`)) ?? {})[0]));
    return value;
  }

  describe('commits are synced', () => {
    test('by the process that creates the file, and by each that opens it later', async () => {
      expect(await pragma(open({ owner: true }), 'synchronous')).toBe(2);
      expect(await pragma(open(), 'synchronous')).toBe(2);
      expect(await pragma(open({ owner: true }), 'synchronous')).toBe(2);
    });

    test('also when an existing WAL file is opened after a restart, although SQLite then falls back to NORMAL', async () => {
      openSqlite(path, { owner: true }).close();
      expect(raw().pragma('synchronous', { simple: true })).toBe(1);
      const store = open({ owner: true });
      expect(await pragma(store, 'synchronous')).toBe(2);
      expect(await pragma(store, 'journal_mode')).toBe('wal');
    });

    test('not by SQLite itself if the store was opened with NORMAL', async () => {
      openSqlite(path, { owner: true }).close();
      expect(await pragma(open({ synchronous: 'NORMAL' }), 'synchronous')).toBe(1);
    });

    test('after their transactions if they are completions, many by one sync', async () => {
      openSqlite(path, { owner: true }).close();
      const store = open({ synchronous: 'NORMAL' });
      const gap = (after: string) => ({ after: after as never, upTo: null, reason: 'test' });
      for (let n = 1; n <= 20; n++) await store.ingest.accept({ readings: [], now: 0, gap: gap(String(n)) });
      const handler = (await store.work.register(['one'])).get('one') ?? 0;
      const tasks = Array.from({ length: 20 }, (_, n) => {
        return { event: n + 1, handler, lane: null, cursor: null, releaseAt: 0 };
      });
      const fanOut = { from: 0, upTo: 20, tasks };
      const { claims } = await store.work.turn({ now: 0, boot: 1, settle: [], fanOut, room: 20, handlers: [handler] });
      const file = await openFile(path);
      const syncs = vi.spyOn(Object.getPrototypeOf(file) as typeof file, 'datasync');
      await file.close();
      let begun = 0;
      const completed = claims.map((claim) =>
        store.work
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

    test('a sync level that SQLite does not accept is an error', () => {
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

    test('refuses a cursor that would become a float, a number instead of bytes, and an unknown origin', () => {
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

    test('of this kit set the version of the file', () => {
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

    test('copies from before later migrations are removed if an older copy was restored and is migrated again', () => {
      const db = opened();
      for (const n of [1, 2, 3]) {
        write(`00${n}.sql`, `create table t${n} (n integer) strict;`);
        migrate(db, path, folderOf());
      }
      const copies = () => [2, 3].filter((n) => existsSync(`${path}.before-${n}`));
      expect(copies()).toEqual([2, 3]);
      db.exec('drop table t2; drop table t3; pragma user_version = 1');
      migrate(db, path, folderOf());
      expect(copies()).toEqual([2]);
    });

    test('a migration that fails leaves the file as it was, and the fixed one continues from there (K9)', () => {
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

    test.each([
      { owner: true, mode: 'wal' },
      { owner: false, mode: 'wal' },
      { owner: true, mode: 'delete' },
      { owner: false, mode: 'delete' },
    ])('a file of a newer kit is refused and stays as it was (owner: $owner, mode: $mode)', ({ owner, mode }) => {
      openSqlite(path, { owner: true }).close();
      const db = new Database(path);
      const newer = versionOf(db) + 1;
      db.pragma(`user_version = ${newer}`);
      db.pragma(`journal_mode = ${mode}`);
      db.close();
      const before = readFileSync(path);
      expect(codeOf(() => open({ owner }))).toBe('newer');
      expect(readFileSync(path).equals(before)).toBe(true);
      expect(() => open({ owner })).toThrow(/update this clone$/);
      writeFileSync(`${path}.before-${newer}`, '');
      utimesSync(`${path}.before-${newer}`, 0, Date.UTC(2026, 10, 21) / 1_000);
      expect(() => open({ owner })).toThrow(
        `update this clone; or give up what came since 2026-11-21T00:00:00.000Z: stop the kit, then npx kit restore ${path}.before-${newer}`,
      );
    });
  });

  describe('refused as a store', () => {
    test('a missing file, by all but the owner', () => {
      expect(codeOf(() => open())).toBe('missing');
      expect(existsSync(path)).toBe(false);
    });

    test.each([{ owner: true }, { owner: false }])(
      'a file that is not SQLite, which stays unchanged (owner: $owner)',
      ({ owner }) => {
        const text = 'a diary, and a long one: '.repeat(100);
        writeFileSync(path, text);
        expect(codeOf(() => open({ owner }))).toBe('unwritable');
        expect(readFileSync(path, 'utf8')).toBe(text);
      },
    );

    test.each([{ owner: true }, { owner: false }])(
      "another program's SQLite file, which stays unchanged (owner: $owner)",
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

  test('the store is busy while another connection holds the lock, and works again afterwards', async () => {
    const store = open({ owner: true, busyMs: 1 });
    const db = raw();
    db.exec('begin immediate');
    await expect(store.state.note({ events: 0 })).rejects.toMatchObject({ code: 'busy' });
    db.exec('commit');
    await store.state.note({ 'refused.stale': 1 });
    expect(await store.read.counters()).toEqual({ 'refused.stale': 1 });
  });

  test('E12: nothing is accepted into a file that was moved or replaced while open', async () => {
    const store = open({ owner: true });
    await store.state.note({});
    renameSync(path, `${path}.gone`);
    await expect(store.state.note({})).rejects.toMatchObject({ code: 'replaced' });
    writeFileSync(path, '');
    await expect(store.state.note({})).rejects.toMatchObject({ code: 'replaced' });
    expect(readFileSync(path, 'utf8')).toBe('');
  });

  describe('E51: the store opens a new connection', () => {
    /** Creates a table that only this connection sees. */
    const mark = (store: Store): Promise<void> => store.work.setup((tx) => void tx.run('create temp table mark (a)'));

    async function isMarked(store: Store): Promise<boolean> {
      let found = false;
      await store.work.setup(
        async (tx) =>
          void (found = (await tx.get(`select 1 from temp.sqlite_schema where name = 'mark'`)) !== undefined),
      );
      return found;
    }

    test.each(['SQLITE_IOERR_WRITE', 'SQLITE_FULL', 'SQLITE_CORRUPT'])(
      'after a failed write of a statement (%s)',
      async (code) => {
        let failing = false;
        const prepare = Reflect.get(Database.prototype, 'prepare') as (
          this: Database.Database,
          sql: string,
        ) => Statement;
        vi.spyOn(Database.prototype, 'prepare').mockImplementation(function (this: Database.Database, sql: string) {
          const statement = prepare.call(this, sql);
          if (!sql.includes('insert into counters')) return statement;
          const run = statement.run.bind(statement);
          statement.run = (...args: unknown[]) => {
            if (failing) throw new Database.SqliteError('injected', code);
            return run(...args);
          };
          return statement;
        });
        const store = open({ owner: true });
        await mark(store);
        await store.state.note({ accepted: 1 });
        expect(await isMarked(store)).toBe(true);
        failing = true;
        await expect(store.state.note({ accepted: 1 })).rejects.toMatchObject({ code: 'unwritable' });
        failing = false;
        await store.state.note({ accepted: 1 });
        expect(await isMarked(store)).toBe(false);
        expect(await store.read.counters()).toEqual({ accepted: 2 });
      },
    );

    /** Begins a read, so that the WAL cannot be copied completely into the file. Returns a function that ends it. */
    function read(): () => void {
      const reader = raw();
      reader.exec('begin');
      reader.prepare('select count(*) from events').get();
      return () => void reader.exec('commit');
    }

    const gap = (after: string) => ({
      readings: [],
      now: 0,
      gap: { after: after as never, upTo: null, reason: 'test' },
    });

    test('after a failed sync, and syncs the earlier commits before the next `accept`', async () => {
      openSqlite(path, { owner: true }).close();
      const store = open({ synchronous: 'NORMAL', busyMs: 1 });
      await mark(store);
      const { fix } = await failSyncs(path);
      await expect(store.ingest.accept(gap('1'))).rejects.toMatchObject({ name: 'Unsynced', code: 'unwritable' });
      fix();
      await open().state.note({});
      const release = read();
      await open().state.note({ accepted: 1 });
      await expect(store.ingest.accept(gap('2'))).rejects.toMatchObject({ code: 'busy' });
      expect(await store.read.gaps()).toHaveLength(1);
      expect(await isMarked(store)).toBe(false);
      release();
      await store.ingest.accept(gap('2'));
      expect(await store.read.gaps()).toHaveLength(2);
    });

    test('after a failed sync, and syncs the earlier commits before the next completion', async () => {
      openSqlite(path, { owner: true }).close();
      const store = open({ synchronous: 'NORMAL', busyMs: 1 });
      await store.ingest.accept(gap('1'));
      const handler = (await store.work.register(['one'])).get('one') ?? 0;
      const tasks = [{ event: 1, handler, lane: null, cursor: null, releaseAt: 0 }];
      const fanOut = { from: 0, upTo: 1, tasks };
      const { claims } = await store.work.turn({ now: 0, boot: 1, settle: [], fanOut, room: 1, handlers: [handler] });
      const [claim] = claims;
      if (!claim) throw new Error('nothing was claimed');
      const { fix } = await failSyncs(path);
      await expect(store.ingest.accept(gap('2'))).rejects.toMatchObject({ name: 'Unsynced' });
      fix();
      const release = read();
      await open().state.note({ accepted: 1 });
      let worked = 0;
      await expect(store.work.complete(claim, 0, () => void worked++)).rejects.toMatchObject({ code: 'busy' });
      expect(worked).toBe(0);
      release();
      expect(await store.work.complete(claim, 0, () => void worked++)).toBe(true);
      expect(worked).toBe(1);
    });

    test('E11: a completion whose sync fails is committed once, and only its sync is retried', async () => {
      openSqlite(path, { owner: true }).close();
      const store = open({ synchronous: 'NORMAL' });
      await store.ingest.accept(gap('1'));
      const handler = (await store.work.register(['one'])).get('one') ?? 0;
      const tasks = [{ event: 1, handler, lane: null, cursor: null, releaseAt: 0 }];
      const fanOut = { from: 0, upTo: 1, tasks };
      const { claims } = await store.work.turn({ now: 0, boot: 1, settle: [], fanOut, room: 1, handlers: [handler] });
      const [claim] = claims;
      if (!claim) throw new Error('nothing was claimed');
      let worked = 0;
      const { fix, calls } = await failSyncs(path);
      const completing = store.work.complete(claim, 0, () => void worked++);
      await expect.poll(calls).toBeGreaterThan(2);
      fix();
      expect(await completing).toBe(true);
      expect(worked).toBe(1);
      expect((await store.read.counters())['tasks.done']).toBe(1);
    });

    test('E11: a batch whose sync fails is committed once, and another sync, on a new connection, succeeds', async () => {
      openSqlite(path, { owner: true }).close();
      const store = open({ synchronous: 'NORMAL' });
      await mark(store);
      const { fix } = await failSyncs(path);
      await expect(store.ingest.accept(gap('1'))).rejects.toMatchObject({ name: 'Unsynced', accepted: [] });
      await expect(store.ingest.sync()).rejects.toMatchObject({ code: 'unwritable' });
      fix();
      await store.ingest.sync();
      expect(await isMarked(store)).toBe(false);
      expect(await store.read.counters()).toEqual({ events: 1, accepted: 1 });
      expect(await store.read.gaps()).toHaveLength(1);
    });
  });

  // Linux alone can lower the limit of a running process.
  describe.skipIf(process.platform !== 'linux')('E13: a process without a free file descriptor', () => {
    const limitFiles = (most: number | string): void => {
      execFileSync('prlimit', ['--pid', String(process.pid), `--nofile=${most}:`]);
    };

    function takeAll(hold: number[]): void {
      try {
        for (;;) hold.push(openSync(folder, 'r'));
      } catch (error) {
        expect(error).toMatchObject({ code: 'EMFILE' });
      }
    }

    test('gets a StoreError whichever file it cannot open, and uses the same store again later', async () => {
      const store = open({ owner: true });
      await store.state.note({ accepted: 1 });
      const db = raw();
      const before = /Max open files\s+(\d+)/.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? '1024';
      const broken = openSqlite(path, { synchronous: 'NORMAL', busyMs: 0 });
      const hold: number[] = [];
      limitFiles(readdirSync('/proc/self/fd').length + 40);
      try {
        // Opening gets no file descriptor, then one, then two and so on, so that each of its steps fails once.
        for (let free = 0; free < 6; free++) {
          const { fix } = await failSyncs(path);
          await expect(broken.ingest.accept({ readings: [], now: 0 })).rejects.toBeInstanceOf(StoreError);
          fix();
          // When the old connection closes, all file descriptors but `free` are taken at once.
          const close = Reflect.get(Database.prototype, 'close');
          const atClose = vi.spyOn(Database.prototype, 'close').mockImplementation(function (this: Database.Database) {
            close.call(this);
            takeAll(hold);
            for (const fd of hold.splice(0, free)) closeSync(fd);
            return this;
          });
          const errors: unknown[] = [];
          for (let n = 0; n < 10; n++)
            await broken.state.note({ duplicates: 1 }).catch((error: unknown) => errors.push(error));
          atClose.mockRestore();
          expect(errors.filter((error) => !(error instanceof StoreError))).toEqual([]);
          if (free === 0) expect(errors).toHaveLength(10);
          for (const suffix of ['a', 'b'])
            expect(codeOf(() => openSqlite(path + suffix, { owner: true }).close())).toMatch(/^(unwritable|no error)$/);
          for (const fd of hold.splice(0)) closeSync(fd);
          await broken.state.note({ duplicates: 1 });
        }
      } finally {
        for (const fd of hold) closeSync(fd);
        limitFiles(before);
      }
      await broken.state.note({ unseen: 1 });
      broken.close();
      expect(db.prepare(`select value from counters where name = 'unseen'`).pluck().get()).toBe(1);
    });
  });
});

/** Makes every sync fail until `fix` is called. */
async function failSyncs(path: string): Promise<{ fix: () => void; calls: () => number }> {
  const file = await openFile(path);
  const syncs = vi.spyOn(Object.getPrototypeOf(file) as typeof file, 'datasync');
  await file.close();
  syncs.mockRejectedValue(Object.assign(new Error('EIO'), { code: 'EIO', syscall: 'fdatasync' }));
  return { fix: () => syncs.mockRestore(), calls: () => syncs.mock.calls.length };
}
