// The WAL stays bounded while deliveries go on. A reader that is open for long makes it grow, but only until it closes.
import { statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createCheckpointer } from '../../src/keep/checkpoint.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import type { Store } from '../../src/store/store.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { fields } from '../reconcile/replay-server.ts';
import { createStoreFile, START, type StoreFile } from '../store-file.ts';

const MB = 1024 * 1024;

let file: StoreFile;
/** A second connection to the store, opened as `keep` opens it. */
let keeper: Store;
beforeEach(() => {
  file = createStoreFile();
  keeper = openSqlite(file.path);
});
afterEach(() => {
  keeper.close();
  file.remove();
});

const logSize = (): number => statSync(`${file.path}-wal`).size;

let cursor = 0;
async function acceptOneMegabyte(): Promise<void> {
  cursor++;
  const data = { MessageReceived: fields(cursor, { body: 'x'.repeat(MB) }) };
  const body = { id: `e${cursor}`, type: 'MessageReceived', cursor: String(cursor), session_id: null, data };
  await file.store.ingest.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(body)))], now: START });
}

test('while 100 MB arrive, the WAL stays below 64 MB, and nothing is lost', async () => {
  const checkpoint = createCheckpointer(keeper);
  const before = cursor;
  for (let i = 0; i < 100; i++) {
    await acceptOneMegabyte();
    if (i % 4 === 3) expect(await checkpoint()).toBe(250);
    expect(logSize()).toBeLessThan(64 * MB);
  }
  expect(file.query<{ n: number }>('select count(*) as n from events')[0]?.n).toBe(cursor - before);
  expect(file.query<{ integrity_check: string }>('pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
});

test('F8: an open reader lets the WAL grow and delays no commit; after the reader has closed, the WAL stops growing', async () => {
  const checkpoint = createCheckpointer(keeper);
  const reader = new Database(file.path, { readonly: true });
  reader.exec('begin');
  reader.prepare('select count(*) from events').get();
  for (let i = 0; i < 40; i++) {
    await acceptOneMegabyte();
    if (i % 10 === 9) await checkpoint();
  }
  const grown = logSize();
  expect(grown).toBeGreaterThan(40 * MB);
  reader.exec('commit');
  reader.close();
  for (let i = 0; i < 40; i++) {
    if (i % 4 === 0) await checkpoint();
    await acceptOneMegabyte();
  }
  expect(logSize()).toBe(grown);
});
