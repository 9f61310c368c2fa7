import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, test } from 'vitest';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { readDelivery } from '../../src/wire/event.ts';

/** COMPLETE_KILLS=500 for a release. */
const KILLS = Number(process.env['COMPLETE_KILLS'] ?? 10);
const EVENTS_A_KILL = 6;

function deliveryOf(n: number) {
  const data = { MessageSent: { message_id: `m${n}` } };
  const envelope = { id: `e${n}`, type: 'MessageSent', cursor: String(n + 1), session_id: `s${n % 4}`, data };
  return readDelivery(Buffer.from(JSON.stringify(envelope)));
}

test(`K5 to K7: ${KILLS} kills around ctx.complete leave each row once, and each task done once`, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'kit-complete-'));
  const path = join(folder, 'events.db');
  const store = openSqlite(path, { owner: true });
  const total = KILLS * EVENTS_A_KILL;
  await store.accept({ readings: Array.from({ length: total }, (_, n) => deliveryOf(n)), now: Date.now() });
  let kills = 0;
  for (let over = false; !over;) {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'completing.ts'), path], { stdio: 'inherit' });
    const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
    if (signal === 'SIGKILL') kills++;
    else expect(code, 'it ends by itself, or by a kill').toBe(0);
    over = code === 0;
    // Enough kills: new work, as long as there are too few.
    if (over && kills < KILLS) {
      over = false;
      const from = 1_000_000 + kills * EVENTS_A_KILL;
      const more = Array.from({ length: EVENTS_A_KILL }, (_, n) => deliveryOf(from + n));
      await store.accept({ readings: more, now: Date.now() });
    }
  }
  const db = new Database(path, { readonly: true });
  const events = db.prepare<[], number>('select count(*) from events').pluck().get();
  expect(db.prepare('select key from seen group by key having count(*) > 1').all(), 'doubled').toEqual([]);
  expect(db.prepare('select count(*) from seen').pluck().get(), 'lost').toBe(events);
  expect(db.prepare('select state, count(*) as n from tasks group by state').all()).toEqual([
    { state: 'done', n: events },
  ]);
  expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
  expect(kills).toBeGreaterThanOrEqual(KILLS);
  db.close();
  store.close();
  rmSync(folder, { recursive: true });
});
