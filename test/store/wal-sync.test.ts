// Every acknowledged commit is in the synced write-ahead log (WAL). In these tests, syncing or opening the WAL fails.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createLog, type Log } from '../../src/store/sqlite/wal-sync.ts';

describe('the write-ahead log', () => {
  let folder: string;
  let path: string;
  let db: Database.Database;
  let log: Log;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'kit-log-'));
    path = join(folder, 'events.db');
    db = new Database(path);
    db.exec('pragma journal_mode = wal; create table t (a)');
    log = createLog(path);
  });
  afterEach(() => {
    log.close();
    db.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test('is opened again after it could not be opened', async () => {
    const early = createLog(join(folder, 'later.db'));
    await expect(early.open()).rejects.toMatchObject({ code: 'unwritable' });
    const later = new Database(join(folder, 'later.db'));
    later.exec('pragma journal_mode = wal; create table t (a)');
    await early.sync();
    early.close();
    later.close();
  });

  test('is synced once more for all calls that came during a sync', async () => {
    const handle = await open(path);
    const of = Object.getPrototypeOf(handle) as FileHandle;
    await handle.close();
    const datasync = Reflect.get(of, 'datasync');
    const begun: PromiseWithResolvers<void>[] = [];
    const held = vi.spyOn(of, 'datasync').mockImplementation(async function (this: FileHandle) {
      const gate = Promise.withResolvers<void>();
      begun.push(gate);
      await gate.promise;
      return datasync.call(this);
    });
    try {
      const first = log.sync();
      await expect.poll(() => begun.length).toBe(1);
      const others = [log.sync(), log.sync()];
      await new Promise(setImmediate);
      expect(begun.length).toBe(1);
      begun[0]?.resolve();
      await first;
      await expect.poll(() => begun.length).toBe(2);
      begun[1]?.resolve();
      await Promise.all(others);
      expect(begun.length).toBe(2);
    } finally {
      held.mockRestore();
    }
  });

  test('is closed without an error if it could not be opened', async () => {
    const none = createLog(join(folder, 'none.db'));
    await expect(none.sync()).rejects.toMatchObject({ code: 'unwritable' });
    none.close();
  });

  test('cannot be synced after a failed sync until `settle` has succeeded', async () => {
    const failed = createLog(join(folder, 'none.db'));
    await expect(failed.sync()).rejects.toMatchObject({ code: 'unwritable' });
    writeFileSync(join(folder, 'none.db-wal'), '');
    await expect(failed.sync()).rejects.toMatchObject({ code: 'unwritable' });
    failed.settle(db);
    await failed.sync();
    failed.close();
  });

  test('cannot be settled while another process runs a checkpoint', async () => {
    const failed = createLog(join(folder, 'none.db'));
    await expect(failed.sync()).rejects.toMatchObject({ code: 'unwritable' });
    db.exec('insert into t values (1)');
    db.exec('begin; select * from t');
    // The checkpoint waits for the reader above, and holds the lock that any other checkpoint needs.
    const other = new Worker(
      `const { parentPort, workerData } = require('node:worker_threads');
       const db = new (require('better-sqlite3'))(workerData, { timeout: 60000 });
       db.exec('insert into t values (2)');
       parentPort.postMessage('begun');
       db.pragma('wal_checkpoint(restart)');
       db.close();`,
      { eval: true, workerData: path },
    );
    const ended = new Promise((resolve) => other.once('exit', resolve));
    const mine = new Database(path, { timeout: 0 });
    await expect
      .poll(() => (mine.pragma('wal_checkpoint') as { busy: number }[])[0]?.busy, { timeout: 10_000, interval: 5 })
      .toBe(1);
    expect(() => failed.settle(mine)).toThrow('a failed sync cannot be made good yet');
    db.exec('commit');
    await ended;
    failed.settle(mine);
    mine.close();
  });
});
