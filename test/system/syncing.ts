// Accepts three events, retries until each is accepted, and prints the result of every try. After a failed try, an open
// read transaction makes the next try fail too. Also writes a copy of the store as a power loss would leave it.
import { closeSync, copyFileSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import Database from 'better-sqlite3';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { StoreError } from '../../src/store/store.ts';
import { readDelivery } from '../../src/wire/event.ts';

const [path = ''] = process.argv.slice(2);
const store = openSqlite(path, { owner: true, synchronous: 'NORMAL' });
const reader = new Database(path);
const seen: string[] = [];
const log = (): Buffer => readFileSync(`${path}-wal`);
let unsynced: { from: number; bytes: Buffer } = { from: 0, bytes: Buffer.alloc(0) };
for (const cursor of ['1', '2', '3']) {
  const body = { id: `evt_${cursor}`, type: 'T', created_at: null, cursor, session_id: null, data: { T: {} } };
  const batch = { readings: [readDelivery(Buffer.from(JSON.stringify(body)))], now: 0 };
  const from = log().length;
  for (let done = false; !done;) {
    try {
      const [one] = await store.ingest.accept(batch);
      seen.push(one?.verdict ?? '');
      done = true;
    } catch (error) {
      seen.push(error instanceof StoreError ? error.code : String(error));
      if (seen.at(-1) === 'unwritable') unsynced = { from, bytes: log().subarray(from) };
    }
    if (reader.inTransaction) reader.exec('commit');
    else if (!done) reader.exec('begin; select * from events');
  }
}
// The failed sync's bytes never reached the disk, so the copy has zeros there, unless later writes replaced them.
const left = log();
copyFileSync(path, `${path}.left`);
writeFileSync(`${path}.left-wal`, left);
const { from, bytes } = unsynced;
if (left.subarray(from, from + bytes.length).equals(bytes)) {
  const file = openSync(`${path}.left-wal`, 'r+');
  writeSync(file, Buffer.alloc(bytes.length), 0, bytes.length, from);
  closeSync(file);
}
console.log(JSON.stringify(seen));
