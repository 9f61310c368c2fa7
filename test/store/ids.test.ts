// The index recognizes an id while its event exists: in any segment, through any connection, and after any failure.
// identity.test.ts tests which arrivals are the same event.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createIds } from '../../src/store/sqlite/ingest/ids.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { createSession } from '../../src/store/sqlite/session.ts';
import type { Store } from '../../src/store/store.ts';
import { readDelivery, readItem, type Reading } from '../../src/wire/event.ts';
import type { Cursor } from '../../src/wire/cursor.ts';

const NOW = Date.UTC(2026, 5, 1);
const SEGMENT = 32;

let folder: string;
let store: Store;
let db: Database.Database;
const opened: { close(): unknown }[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kit-ids-'));
  store = another();
  db = new Database(join(folder, 'events.db'));
  opened.push(db);
});

afterEach(() => {
  for (const one of opened.splice(0)) one.close();
  rmSync(folder, { recursive: true, force: true });
});

function another(idsInSegment = SEGMENT): Store {
  const one = openSqlite(join(folder, 'events.db'), { owner: true, busyMs: 0, idsInSegment });
  opened.push(one);
  return one;
}

/** Events with consecutive ids and cursors. */
function webhooks(from: number, many: number, cursorFrom = from): Reading[] {
  return Array.from({ length: many }, (_, n) =>
    readDelivery(
      Buffer.from(
        JSON.stringify({ id: `id-${from + n}`, type: 'Thing', cursor: String(cursorFrom + n), data: { Thing: {} } }),
      ),
    ),
  );
}

async function verdicts(readings: Reading[], by = store, now = NOW): Promise<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (const { verdict } of await by.ingest.accept({ readings, now })) sums[verdict] = (sums[verdict] ?? 0) + 1;
  return sums;
}

function count(sql: string): number {
  return db.prepare<[], number>(sql).pluck().get() ?? 0;
}

async function arrive(upTo: number, by = store): Promise<void> {
  for (let from = 0; from < upTo; from += 5) expect(await verdicts(webhooks(from, 5), by)).toEqual({ new: 5 });
}

test('a known id with another cursor is the same event, however many events came in between', async () => {
  await arrive(600);
  expect(count('select count(*) from id_segments')).toBeGreaterThan(2 * 8);
  expect(await verdicts(webhooks(0, 600, 10_000))).toEqual({ duplicate: 600 });
  expect((await store.read.status(NOW)).events).toBe(600);
});

test('each connection knows the ids that any other has written, whether they are already in a segment of the index or not', async () => {
  const early = another();
  expect(await verdicts(webhooks(0, 1), early)).toEqual({ new: 1 });
  for (let from = 1; from < 200; from++)
    expect(await verdicts(webhooks(from, 1), from % 3 === 0 ? early : store)).toEqual({ new: 1 });
  for (const one of [early, store, another()])
    expect(await verdicts(webhooks(0, 200, 10_000), one)).toEqual({ duplicate: 200 });
});

test('an id that a webhook adds to an event of replay is known as well', async () => {
  const items = webhooks(0, 40).map((_, n) => readItem('replay', String(n) as Cursor, '{"Thing":{}}'));
  expect(await verdicts(items)).toEqual({ new: 40 });
  expect(count('select count(*) from latest_ids')).toBe(0);
  expect(await verdicts(webhooks(0, 40))).toEqual({ duplicate: 40 });
  await arrive(0);
  expect(await verdicts(webhooks(1_000, 40))).toEqual({ new: 40 });
  expect(await verdicts(webhooks(0, 40, 10_000))).toEqual({ duplicate: 40 });
});

test('a batch that was rolled back leaves no ids behind, and the next batch is accepted', async () => {
  await arrive(10);
  db.exec(`create trigger refuse before insert on events when new.id >= 'id-10' begin select raise(abort, 'no'); end`);
  await expect(store.ingest.accept({ readings: webhooks(10, 20), now: NOW })).rejects.toMatchObject({
    code: 'unwritable',
  });
  db.exec('drop trigger refuse');
  expect(await verdicts(webhooks(10, 20))).toEqual({ new: 20 });
  expect(await verdicts(webhooks(0, 30, 10_000))).toEqual({ duplicate: 30 });
});

test('the id of an event that was accepted from quarantine is known', async () => {
  await arrive(5);
  const [first] = webhooks(900, 1);
  db.prepare(
    `insert into quarantine (digest, received_at, origin, reason, body) values (zeroblob(32), 0, 'webhook', 'odd', ?)`,
  ).run(first && 'event' in first ? first.event.body : null);
  db.exec(`insert into counters values ('quarantined', 1) on conflict (name) do update set value = value + 1`);
  expect(await store.admin.retryQuarantined(1, NOW)).toEqual({ verdict: 'new' });
  expect(await verdicts(webhooks(900, 1, 10_000))).toEqual({ duplicate: 1 });
  expect(await verdicts(webhooks(100, 40))).toEqual({ new: 40 });
  expect(await verdicts(webhooks(900, 1, 20_000))).toEqual({ duplicate: 1 });
});

test('ids that cannot be moved into a segment of the index while the store is locked are moved later', async () => {
  await arrive(15);
  db.exec('begin immediate');
  await expect(store.ingest.accept({ readings: webhooks(15, 5), now: NOW })).rejects.toMatchObject({ code: 'busy' });
  db.exec('rollback');
  await arrive(0);
  expect(await verdicts(webhooks(15, 25))).toEqual({ new: 25 });
  expect(await verdicts(webhooks(0, 40, 10_000))).toEqual({ duplicate: 40 });
});

test('ids of pruned events are no longer known, and those of events with waiting tasks still are', async () => {
  const [noting] = (await store.work.register(['noting'])).values();
  await arrive(60);
  // Of the first sixty events, only the twentieth has a task that is not finished.
  db.exec(`update state set value = 60 where name = 'fanned_out'`);
  db.exec(`insert into tasks (id, event, handler, alone, state, strict, release_at, due_at, started_at, changed_at)
    values (20 * 4096 + ${noting}, 20, ${noting}, 1, 'ready', 0, 0, 0, 0, 0)`);
  db.exec(`insert into counters values ('tasks.ready', 1) on conflict (name) do update set value = 1`);
  const watcher = another();
  expect(await verdicts(webhooks(0, 1), watcher)).toEqual({ duplicate: 1 });
  expect(await verdicts(webhooks(100, 5), store, NOW + 10)).toEqual({ new: 5 });

  await store.keep.prune({ now: NOW, before: NOW + 5, settled: Infinity, after: null, limit: 1_000 });
  await store.keep.sweep(NOW + 20);

  expect(count('select count(*) from id_segments')).toBe(0);
  expect(count('select count(*) from ids')).toBe(0);
  expect(count('select count(*) from id_filters')).toBe(0);
  for (const one of [store, watcher, another()])
    expect(await verdicts([...webhooks(19, 1, 20_000), ...webhooks(100, 5, 30_000)], one)).toEqual({ duplicate: 6 });
  expect(await verdicts(webhooks(30, 20, 40_000))).toEqual({ new: 20 });
});

test('the id of a pruned event is no longer known, even if it is still in memory', async () => {
  const one = another(1_000);
  await arrive(5, one);
  db.exec(`update state set value = 5 where name = 'fanned_out'`);
  expect(await verdicts(webhooks(100, 1), one, NOW + 10)).toEqual({ new: 1 });
  await one.keep.prune({ now: NOW, before: NOW + 5, settled: Infinity, after: null, limit: 1_000 });
  expect(count('select count(*) from events')).toBe(1);
  expect(await verdicts(webhooks(0, 5, 1_000), one)).toEqual({ new: 5 });
});

test('ids in the last of the eight segments that share a filter stay known when the other seven are removed', async () => {
  for (let n = 0; n < 400; n++) await verdicts(webhooks(n, 1), store, NOW + n);
  const last = 7;
  const theirs = db.prepare<[number], string>('select id from ids where segment = ?').pluck().all(last);
  const before = count(`select added_at from id_segments where segment = ${last}`);
  for (let turn = 0; count('select min(segment) from id_segments') < last && turn < 200; turn++) {
    await store.keep.sweep(before);
    await verdicts(webhooks(1_000 + turn, 1), store, NOW + 1_000);
  }
  expect(count('select min(segment) from id_segments')).toBe(last);
  const again = theirs.flatMap((id, n) => webhooks(Number(id.slice('id-'.length)), 1, 10_000 + n));
  expect(await verdicts(again)).toEqual({ duplicate: theirs.length });
});

test('when old segments are removed, the ids of existing events are kept in small steps, however many there are', async () => {
  for (let n = 0; n < 500; n++) await verdicts(webhooks(n, 1));
  const waiting = () => count('select count(*) from latest_ids');
  const largest = () => count('select max(ids) from id_segments');
  for (let turn = 0; turn < 40; turn++) {
    await store.keep.sweep(NOW + 1);
    expect(waiting()).toBeLessThan(3 * SEGMENT);
    expect(await verdicts(webhooks(1_000 + turn, 1), store, NOW + 2)).toEqual({ new: 1 });
    expect(largest()).toBeLessThan(2 * SEGMENT);
  }
  expect(await verdicts(webhooks(0, 500, 10_000))).toEqual({ duplicate: 500 });
});

test('people find an event by its id, whether it is among the latest ids or in a segment of the index', async () => {
  await arrive(50);
  for (const id of ['id-0', 'id-20', 'id-49']) expect((await store.read.event(id, NOW))?.event.id).toBe(id);
  expect(await store.read.event('id-50', NOW)).toBeUndefined();
});

test('a new id is hardly ever searched in a segment, which would cost a read of a cold disk', () => {
  const asked: string[] = [];
  const path = join(folder, 'events.db');
  const seen = new Database(path, { verbose: (sql) => asked.push(String(sql)) });
  opened.push(seen);
  const full = 32_768;
  const ids = createIds(createSession(seen, path));
  const name = (n: number): string => createHash('sha256').update(String(n)).digest('base64url');
  seen.transaction(() => {
    const add = seen.prepare('insert into latest_ids (id, event) values (?, ?)');
    for (let n = 1; n <= full; n++) add.run(name(n), n);
  })();
  while (count('select count(*) from latest_ids') > 0) {
    ids.refresh();
    ids.fold(NOW);
  }
  asked.length = 0;
  for (let n = 1; n <= full; n++) expect(ids.find(name(-n))).toBeUndefined();
  expect(asked.length).toBeLessThan(full / 5_000);
});
