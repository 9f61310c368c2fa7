// E5: if one reading makes the store fail, only that reading is quarantined. If the store itself fails, nothing is
// quarantined. Each statement of ingest throws faults of both kinds, as SQLite throws them.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database, { type Statement } from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Accepted, Batch } from '../../src/store/ingest.ts';
import { bytesDigestOf } from '../../src/store/sql/ingest/poison.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { StoreError, type Store } from '../../src/store/store.ts';
import type { Cursor } from '../../src/wire/cursor.ts';
import { readDelivery, readItem, type Reading } from '../../src/wire/event.ts';
import { sampled } from '../cases.ts';
import { bodyOf, T0 } from '../receive/harness.ts';

type Fault = (sql: string, args: unknown[]) => Error | undefined;

/** `fault` returns the error that a statement throws when it runs. `ran` holds all statements that have run. */
let fault: Fault = () => undefined;
let ran: Set<string>;
let folder: string;
let path: string;
let store: Store;
let dropped: string[];

/** Every statement that is prepared from now on calls `fault` before it runs. */
function watchStatements(): void {
  const prepare = Reflect.get(Database.prototype, 'prepare') as (this: Database.Database, sql: string) => Statement;
  vi.spyOn(Database.prototype, 'prepare').mockImplementation(function (this: Database.Database, sql: string) {
    const statement = prepare.call(this, sql);
    for (const name of ['run', 'get', 'all'] as const) {
      const original = statement[name].bind(statement) as (...args: unknown[]) => never;
      statement[name] = (...args: unknown[]) => {
        if (!/^(begin|commit|rollback|savepoint|release)/.test(sql)) ran.add(sql);
        const thrown = fault(sql, args);
        if (thrown) throw thrown;
        return original(...args);
      };
    }
    return statement;
  });
}

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kit-poison-'));
  path = join(folder, 'events.db');
  fault = () => undefined;
  ran = new Set();
  dropped = [];
  watchStatements();
  store = openSqlite(path, { owner: true, idsInSegment: 3, onDropped: (what) => void dropped.push(what) });
});

afterEach(() => {
  vi.restoreAllMocks();
  store.close();
  rmSync(folder, { recursive: true, force: true });
});

const own = (): Error => new Database.SqliteError('injected', 'SQLITE_CONSTRAINT_CHECK');
const webhook = (cursor: number, more: object = {}): Reading =>
  readDelivery(bodyOf({ cursor: String(cursor), ...more }));
const item = (cursor: number, text = 'hello'): Reading =>
  readItem('replay', String(cursor) as never, JSON.stringify({ MessageReceived: { body: text } }));
const unreadable = (text: string): Reading => readDelivery(Buffer.from(text));
const accept = (readings: Reading[], more: Partial<Batch> = {}): Promise<Accepted[]> =>
  store.ingest.accept({ readings, now: T0, ...more });
const verdicts = (accepted: Accepted[]): string[] => accepted.map(({ verdict }) => verdict);

function rows<Row>(sql: string): Row[] {
  const db = new Database(path, { readonly: true });
  try {
    return db.prepare<[], Row>(sql).all();
  } finally {
    db.close();
  }
}
const idsStored = (): string[] =>
  rows<{ name: string }>(`select coalesce(id, 'c' || cursor) as name from events order by seq`).map(({ name }) => name);

/** One reading for each combination of known and unknown ids and cursors, so that every statement of ingest runs. */
const KINDS: Record<string, { before?: Reading[]; reading: Reading }> = {
  'a new event': { reading: webhook(50) },
  'a new event that is late': { reading: webhook(50, { created_at: '2025-12-31T00:00:00.000Z' }) },
  'a ping': { reading: webhook(0, { id: 'ping', cursor: null, type: 'webhook.ping', data: { message: 'x' } }) },
  'a duplicate': { before: [webhook(50)], reading: webhook(50) },
  'an id with other data': {
    before: [webhook(50)],
    reading: webhook(50, { data: { MessageReceived: { body: 'o' } } }),
  },
  'another cursor of an id': { before: [webhook(50)], reading: webhook(51, { id: 'evt_50' }) },
  'another id of a cursor': { before: [webhook(50)], reading: webhook(50, { id: 'evt_alias' }) },
  'another event of a cursor': {
    before: [webhook(50)],
    reading: webhook(50, { id: 'evt_other', data: { MessageReceived: { body: 'other' } } }),
  },
  'the id of what replay has shown': {
    before: [item(50)],
    reading: webhook(50, { data: { MessageReceived: { body: 'hello' } } }),
  },
  'what replay alone brings': { reading: item(50) },
  'what replay shows again': { before: [webhook(50)], reading: item(50) },
};

/** Prepares the store and ingests the reading. Returns the statements that ran, and the counters afterwards. */
async function rehearse(name: string): Promise<{ statements: string[]; counters: Record<string, number> }> {
  const kind = KINDS[name];
  if (!kind) throw new Error(name);
  await prepareFor(name);
  ran.clear();
  await accept([kind.reading], { fresh: true });
  const statements = [...ran];
  return { statements, counters: await store.read.counters() };
}

async function prepareFor(name: string): Promise<void> {
  // Enough ids for a segment of the index, and an alias, so that ingest also reads the tables of segments and aliases.
  for (let n = 1; n <= 6; n++) await accept([webhook(n)]);
  await accept([webhook(1, { id: 'evt_first_alias' })]);
  const before = KINDS[name]?.before;
  if (before) await accept(before);
}

async function startAnew(): Promise<void> {
  fault = () => undefined;
  store.close();
  rmSync(folder, { recursive: true, force: true });
  folder = mkdtempSync(join(tmpdir(), 'kit-poison-'));
  path = join(folder, 'events.db');
  store = openSqlite(path, { owner: true, idsInSegment: 3, onDropped: (what) => void dropped.push(what) });
}

describe.each(sampled(Object.keys(KINDS)))('E5: %s', (name) => {
  const { reading } = KINDS[name] as (typeof KINDS)[string];

  test('that fails by itself at any statement is quarantined alone, and its neighbours are stored and counted exactly', async () => {
    const { statements } = await rehearse(name);
    expect(statements.length).toBeGreaterThan(3);
    let taken = 0;
    for (const sql of statements) {
      await startAnew();
      await prepareFor(name);
      const before = await store.read.counters();
      const neighbours = [webhook(90), webhook(91)];
      // The reading fails three times: once in the batch and twice alone. Only then is it quarantined. `mine`: the
      // current statement is for the reading, not for a neighbour. Each reading has a savepoint.
      let left = 0;
      let mine = false;
      fault = (one, args) => {
        if (namesNeighbour(args) || one.startsWith('savepoint')) mine = false;
        else if (names(reading, args)) mine = true;
        return one === sql && mine && left++ < 3 ? own() : undefined;
      };
      const accepted = await accept([...neighbours, reading]);
      fault = () => undefined;
      expect(verdicts(accepted).slice(0, 2), sql).toEqual(['new', 'new']);
      expect(idsStored(), sql).toEqual(expect.arrayContaining(['evt_90', 'evt_91']));
      if (left < 3) continue;
      taken++;
      expect(accepted[2], sql).toEqual({ verdict: 'quarantined' });
      expect(await store.read.counters(), sql).toEqual({
        ...before,
        events: (before['events'] ?? 0) + 2,
        accepted: (before['accepted'] ?? 0) + 2,
        quarantined: 1,
        poisoned: 1,
      });
      expect(rows('select reason from quarantine'), sql).toEqual([{ reason: 'poisoned: SQLITE_CONSTRAINT_CHECK' }]);
      const [day] = rows<{ n: number }>(`select sum(events) as n from arrivals where origin = 'webhook'`);
      expect(day?.n, sql).toBe(rows(`select 1 from events where origin = 'webhook' and cursor is not null`).length);
    }
    expect(taken).toBeGreaterThan(2);
  });

  test('is not quarantined if the store fails at any statement, and is stored once the store works again', async () => {
    const { statements, counters } = await rehearse(name);
    const codes = [
      'SQLITE_FULL',
      'SQLITE_IOERR_WRITE',
      'SQLITE_BUSY',
      'SQLITE_CORRUPT',
      'SQLITE_LOCKED',
      'SQLITE_INTERRUPT',
    ];
    for (const [n, sql] of statements.entries()) {
      await startAnew();
      await prepareFor(name);
      const code = codes[n % codes.length] ?? '';
      fault = (one) => (one === sql ? new Database.SqliteError('injected', code) : undefined);
      await expect(accept([reading], { fresh: true }), sql).rejects.toBeInstanceOf(StoreError);
      fault = () => undefined;
      expect(rows('select 1 from quarantine'), sql).toEqual([]);
      await accept([reading], { fresh: true });
      expect(await store.read.counters(), `${sql} ${code}`).toEqual(counters);
    }
  });
});

function marks(reading: Reading): unknown[] {
  if (!('event' in reading)) return [];
  const { id, cursor } = reading.event;
  return [...(id === null ? [] : [id, `i:${id}`]), ...(cursor === null ? [] : [BigInt(cursor), `c:${cursor}`])];
}
const flat = (args: unknown[]): unknown[] =>
  args.flatMap((one) =>
    typeof one === 'object' && one !== null && !(one instanceof Uint8Array) ? Object.values(one) : [one],
  );
const names = (reading: Reading, args: unknown[]): boolean => flat(args).some((one) => marks(reading).includes(one));
const namesNeighbour = (args: unknown[]): boolean =>
  flat(args).some((one) => /^(i:evt_|evt_|c:)?9[01]$/.test(String(one)));

describe('E5: a failure of the store', () => {
  test('is assumed when the third reading in a row fails, in one batch or in three', async () => {
    fault = (sql) => (/insert into events/.test(sql) ? own() : undefined);
    const three = [webhook(1), webhook(2), webhook(3)];
    await expect(accept(three)).rejects.toMatchObject({ code: 'unwritable' });
    expect(rows('select 1 from quarantine')).toEqual([]);
    fault = () => undefined;
    expect(verdicts(await accept(three))).toEqual(['new', 'new', 'new']);

    fault = (sql) => (/insert into events/.test(sql) ? own() : undefined);
    expect(verdicts(await accept([webhook(4)]))).toEqual(['quarantined']);
    expect(verdicts(await accept([webhook(5)]))).toEqual(['quarantined']);
    await expect(accept([webhook(6)])).rejects.toMatchObject({ code: 'unwritable' });
    await expect(accept([webhook(6)])).rejects.toMatchObject({ code: 'unwritable' });
    await expect(accept([webhook(7)])).rejects.toMatchObject({ code: 'unwritable' });
    expect(rows('select 1 from quarantine')).toHaveLength(2);
    fault = () => undefined;
    expect(verdicts(await accept([webhook(6), webhook(7)]))).toEqual(['new', 'new']);
    fault = (sql) => (/insert into events/.test(sql) ? own() : undefined);
    expect(verdicts(await accept([webhook(8)]))).toEqual(['quarantined']);
  });

  test('is not assumed if the same reading fails again and again', async () => {
    fault = (sql) => (/insert into events/.test(sql) ? own() : undefined);
    for (let n = 0; n < 5; n++) expect(verdicts(await accept([webhook(1)]))).toEqual(['quarantined']);
    expect(rows('select copies from quarantine')).toEqual([{ copies: 4 }]);
    expect(await store.read.counters()).toEqual({ quarantined: 1, poisoned: 1, duplicates: 4 });
  });

  test('is assumed for three failing readings in a row, which are refused; the other readings of the batch are stored', async () => {
    const bad = new Set(['evt_1', 'evt_2', 'evt_3']);
    fault = (sql, args) =>
      /insert into events/.test(sql) && args.some((one) => bad.has(String(one))) ? own() : undefined;
    const accepted = await accept([webhook(1), webhook(2), webhook(3), webhook(4)]);
    expect(verdicts(accepted)).toEqual(['unkept', 'unkept', 'unkept', 'new']);
    expect(rows('select 1 from quarantine')).toEqual([]);
  });

  test('is assumed if a reading fails with two different errors', async () => {
    let n = 0;
    fault = (sql) =>
      /insert into events/.test(sql)
        ? n++ % 2 === 0
          ? own()
          : new Database.SqliteError('injected', 'SQLITE_MISMATCH')
        : undefined;
    await expect(accept([webhook(1)])).rejects.toMatchObject({ code: 'unwritable' });
    expect(rows('select 1 from quarantine')).toEqual([]);
  });

  test('is not assumed if one reading of a batch cannot be quarantined either: it is refused alone', async () => {
    const bad = (args: unknown[]): boolean =>
      args.some((one) => one instanceof Uint8Array && Buffer.from(one).includes('{"bad'));
    fault = (sql, args) => (/insert into quarantine/.test(sql) && bad(args) ? own() : undefined);
    expect(verdicts(await accept([webhook(1), unreadable('{"bad'), webhook(2)]))).toEqual(['new', 'unkept', 'new']);
    await expect(accept([unreadable('{"bad')])).rejects.toMatchObject({ code: 'unwritable' });
  });

  test('is not assumed if SQLite cannot bind a value of a reading', async () => {
    fault = (sql, args) =>
      /insert into events/.test(sql) && args.includes('evt_2') ? new RangeError('too large to bind') : undefined;
    expect(verdicts(await accept([webhook(1), webhook(2), webhook(3)]))).toEqual(['new', 'quarantined', 'new']);
    expect(rows('select reason from quarantine')).toEqual([{ reason: 'poisoned: RangeError' }]);
  });
});

describe('E5: counters and state that are written along with readings', () => {
  const riders = { counts: { 'refused.method': 1, unseen_failures: 1 }, state: { failures: '{}', failure_run: 2 } };

  test.each(['unseen_failures', 'failures'])(
    '%s alone is dropped and reported if it fails, and the rest is stored',
    async (name) => {
      fault = (_, args) => (args.flat().includes(name) ? own() : undefined);
      expect(verdicts(await accept([webhook(1)], riders))).toEqual(['new']);
      await store.state.note({ unseen_failures: 1 }, { failures: '{}' });
      fault = () => undefined;
      expect(new Set(dropped)).toEqual(new Set([name]));
      expect(await store.read.counters()).toMatchObject({ accepted: 1, 'refused.method': 1 });
      expect((await store.read.status(T0)).failureRun).toBe(2);
    },
  );

  test.each(['watermark', 'proved_from'])(
    '%s of a page is never dropped: if it fails, so does the page',
    async (name) => {
      fault = (_, args) => (args[0] === name && typeof args[1] === 'bigint' ? own() : undefined);
      const page = { watermark: '2' as never, from: '1' as never };
      await expect(accept([item(1), item(2)], page)).rejects.toMatchObject({ code: 'unwritable' });
      expect(idsStored()).toEqual([]);
      fault = () => undefined;
      await accept([item(1), item(2)], page);
      expect(idsStored()).toEqual(['c1', 'c2']);
      expect(await store.state.get('watermark')).toBe('2');
    },
  );

  test('the gap of a page is never dropped either', async () => {
    fault = (sql) => (/insert into gaps/.test(sql) ? own() : undefined);
    const gap = { after: '1' as never, upTo: null, reason: 'test' };
    await expect(accept([item(3)], { gap })).rejects.toMatchObject({ code: 'unwritable' });
    fault = () => undefined;
    await accept([item(3)], { gap });
    expect(await store.read.gaps()).toHaveLength(1);
  });

  test('deliveries are accepted even if ids cannot be moved into a segment of the index', async () => {
    fault = (sql) => (/into id_segments/.test(sql) ? own() : undefined);
    for (let n = 1; n <= 6; n++) expect(verdicts(await accept([webhook(n), webhook(n)]))).toEqual(['new', 'duplicate']);
    expect(dropped.length).toBeGreaterThan(0);
  });
});

test('E5: an item of a page that fails by itself is quarantined with its cursor, and the watermark passes it', async () => {
  fault = (sql, args) => (/insert into events/.test(sql) && args.includes(2n) ? own() : undefined);
  expect(verdicts(await accept([item(1), item(2), item(3)], { watermark: '3' as never }))).toEqual([
    'new',
    'quarantined',
    'new',
  ]);
  expect(await store.state.get('watermark')).toBe('3');
  expect(await store.read.quarantine(10)).toMatchObject([{ cursor: '2', origin: 'replay' }]);
});

test.each([
  ['a delivery', webhook(2), 'evt_2'],
  ['an item of replay', item(2), 'c2'],
])(
  'E5: %s that failed by itself stays in quarantine until the cause is gone, and is accepted then',
  async (_, reading, name) => {
    fault = (sql, args) => (/insert into events/.test(sql) && args.includes(2n) ? own() : undefined);
    await accept([webhook(1), reading]);
    const [row] = await store.read.quarantine(10);
    for (let n = 0; n < 4; n++)
      expect(await store.admin.retryQuarantined(Number(row?.id), T0)).toEqual({ verdict: 'quarantined' });
    expect(await store.read.quarantine(10)).toEqual([row]);
    fault = () => undefined;
    expect(await store.admin.retryQuarantined(Number(row?.id), T0)).toEqual({ verdict: 'new' });
    expect(idsStored()).toEqual(['evt_1', name]);
    expect(await store.read.quarantine(10)).toEqual([]);
    expect(await store.read.counters()).toMatchObject({ events: 2, quarantined: 0, poisoned: 1 });
  },
);

test('E5: the lateness of events with extreme times adds up to a number that its column can hold', async () => {
  const late = (n: number): Reading =>
    webhook(n, { created_at: null, data: { MessageReceived: { timestamp_unix_ms: -8.64e15 } } });
  for (let n = 0; n < 12; n++)
    expect(new Set(verdicts(await accept(Array.from({ length: 256 }, (_, i) => late(1 + n * 256 + i)))))).toEqual(
      new Set(['new']),
    );
  const [day] = rows<{ late: string; latest: string }>(
    'select cast(late_ms as text) as late, cast(latest_ms as text) as latest from arrivals',
  );
  expect(Number(day?.late)).toBeLessThanOrEqual(Number.MAX_SAFE_INTEGER);
  expect(Number(day?.latest)).toBeLessThanOrEqual(Number(day?.late));
  expect(rows('select 1 from quarantine')).toEqual([]);
});

test('E5: a counter that has reached its maximum stays there', async () => {
  const most = Number.MAX_SAFE_INTEGER;
  await store.state.note({ duplicates: most });
  await accept([webhook(1)]);
  expect(verdicts(await accept([webhook(1)]))).toEqual(['duplicate']);
  expect(await store.read.counters()).toMatchObject({ duplicates: most });
});

test('two unreadable items are two, also if cursor and bytes together read the same', () => {
  const digest = (cursor: string | null, text: string): string =>
    bytesDigestOf({
      unreadable: { origin: 'replay', cursor: cursor as Cursor | null, body: Buffer.from(text), reason: 'odd' },
    }).toString('hex');
  expect(new Set([digest('2', '23'), digest('22', '3'), digest(null, '223'), digest(null, ':223')]).size).toBe(4);
});
