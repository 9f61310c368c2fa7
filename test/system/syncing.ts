// Accepts three events, each a second time where the first did not succeed, and prints what became of them.
import { copyFileSync } from 'node:fs';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { StoreError } from '../../src/store/store.ts';
import { readDelivery } from '../../src/wire/event.ts';

const [path = ''] = process.argv.slice(2);
const store = openSqlite(path, { owner: true, synchronous: 'NORMAL' });
const seen: string[] = [];
for (const cursor of ['1', '2', '3']) {
  const body = { id: `evt_${cursor}`, type: 'T', created_at: null, cursor, session_id: null, data: { T: {} } };
  const batch = { readings: [readDelivery(Buffer.from(JSON.stringify(body)))], now: 0 };
  const accept = (): Promise<void> => store.accept(batch).then(([one]) => void seen.push(one?.verdict ?? ''));
  await accept().catch((error: unknown) => {
    seen.push(error instanceof StoreError ? error.code : String(error));
    return accept();
  });
  // What is in the file alone, if the log were lost.
  if (cursor === '2') copyFileSync(path, `${path}.alone`);
}
console.log(JSON.stringify(seen));
