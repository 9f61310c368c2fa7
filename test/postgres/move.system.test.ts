// MOVE_FROM: an SQLite store becomes a PostgreSQL store while deliveries are accepted, and however often it is killed.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { digestOf } from '../../src/run/steps.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import type { Store } from '../../src/store/store.ts';
import { until, type Kit } from '../system/kit.ts';
import { done, event, failed, incoming, range, tasksOf, unreadable } from '../store-contract/harness.ts';
import { createCluster, familyOf, send, signalAll, type Cluster } from './members.ts';
import { urlOf } from './server.ts';

/** Recent, so that nothing is pruned. */
const T0 = Date.now();
/** Cursors above those that are sent. */
const HIGH = 5_000_000;

let folder: string;
let path: string;
let cluster: Cluster;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kit-move-'));
  path = join(folder, 'events.db');
  cluster = await createCluster(urlOf(folder));
});
afterEach(async () => {
  await cluster.remove();
  rmSync(folder, { recursive: true, force: true });
});

/** A store with history: tasks in every state, duplicates, a conflict, an alias, quarantine, a gap. */
async function fill(events: number): Promise<Record<string, number>> {
  const store = openSqlite(path, { owner: true });
  const handler = (await store.work.register(['other'])).get('other') ?? 0;
  for (let first = 1; first <= events; first += 500) {
    const readings = range(first, Math.min(events, first + 499)).map((n) =>
      event(String(HIGH + n), `session-${n % 7}`),
    );
    await store.ingest.accept({ readings, now: T0 });
    const { from, events: fresh } = await store.work.pending(500);
    const fanOut = { from, upTo: fresh.at(-1)?.seq ?? from, tasks: tasksOf(fresh, handler, T0) };
    await store.work.turn({ now: T0, boot: 1, settle: [], fanOut, room: 0, handlers: [handler] });
  }
  await turns(store, handler);
  const other = { ...incoming(String(HIGH + 1)), id: 'id-other', body: Buffer.from('{"data":{"Thing":{"other":1}}}') };
  const alias = { ...incoming(String(HIGH + 2)), cursor: '9000001' as never };
  const more = [
    event(String(HIGH + 1)),
    { event: other },
    { event: alias },
    unreadable('{"no'),
    unreadable('\0\ud800'),
  ];
  const gap = { after: '5' as never, upTo: null, reason: 'expired' };
  await store.ingest.accept({ readings: more, now: T0, gap, watermark: '3' as never });
  const counters = await store.read.counters();
  store.close();
  return counters;
}

async function turns(store: Store, handler: number): Promise<void> {
  for (let n = 0; n < 3; n++) {
    const { claims } = await store.work.turn({
      now: T0,
      boot: 1,
      settle: [],
      fanOut: null,
      room: 20,
      handlers: [handler],
    });
    const [first, second, ...rest] = claims;
    if (!first) return;
    const settle = [
      failed(first, { dueAt: T0 + 1, holdMs: 1 }),
      ...(second ? [{ claim: second, state: 'dead' as const, error: 'Error: no' }] : []),
      ...rest.map(done),
    ];
    await store.work.turn({ now: T0, boot: 1, settle, fanOut: null, room: 0, handlers: [handler] });
  }
}

const moving = (): Promise<Kit> => cluster.add({ MOVE_FROM: `sqlite:${path}` });

async function openedAt(): Promise<boolean> {
  const rows = await cluster.rows(`select 1 from kit.state where name = 'moved_at'`).catch(() => []);
  return rows.length > 0;
}

test('everything is in PostgreSQL afterwards, deliveries get 204 all the while, and handlers go on', async () => {
  const before = await fill(2_000);
  const kit = await moving();
  const load = send([kit], 100);
  await until(openedAt);
  await until(() => load.acknowledged.size > 150);
  await load.stop();
  expect(load.answers.filter(({ status }) => status !== 204)).toEqual([]);
  await until(() => new Set(cluster.ran().map(({ cursor }) => cursor)).size === load.acknowledged.size);
  const [moved] = await cluster.rows<Record<string, string>>(`select
    (select count(*) from kit.aliases) as aliases, (select count(*) from kit.conflicts) as conflicts,
    (select count(*) from kit.quarantine) as quarantined, (select count(*) from kit.gaps) as gaps,
    (select count(*) from kit.tasks where state = 'dead') as dead,
    (select value from kit.state where name = 'watermark') as watermark`);
  expect(moved).toMatchObject({ aliases: '1', quarantined: String(before['quarantined']), gaps: '1', watermark: '3' });
  expect(Number(moved?.['conflicts'])).toBe(before['conflicts']);
  expect(Number(moved?.['dead'])).toBe(before['tasks.dead']);
  const counters = await cluster.rows<{ name: string; value: string }>('select name, value from kit.counters');
  const accepted = counters.find(({ name }) => name === 'accepted')?.value;
  expect(Number(accepted)).toBe((before['accepted'] ?? 0) + load.acknowledged.size);
  expect(() => openSqlite(path).close()).not.toThrow();
});

test('killed at any moment, the next start goes on: no acknowledged event is lost or handled twice', async () => {
  await fill(20_000);
  const acknowledged = new Set<number>();
  let first = 0;
  for (let kills = 0; !(await openedAt()); kills++) {
    const kit = await moving();
    const load = send([kit], 100, 10, first);
    // Each start gets half as much time again, so that the move ends on a slow machine too.
    const killAfter = load.acknowledged.size + 20 * (1.5 ** kills - 1);
    await until(async () => load.acknowledged.size > killAfter || (await openedAt()));
    signalAll(familyOf(kit), 'SIGKILL');
    await kit.exited();
    await load.stop();
    for (const cursor of load.acknowledged) acknowledged.add(cursor);
    first = load.sent();
  }
  const kit = await moving();
  const load = send([kit], 100, 10, first);
  await until(() => load.acknowledged.size > 50);
  await load.stop();
  for (const cursor of load.acknowledged) acknowledged.add(cursor);
  await until(() => {
    const ran = new Set(cluster.ran().map(({ cursor }) => cursor));
    return [...acknowledged].every((cursor) => ran.has(cursor));
  });
  const doubled = await cluster.rows(
    'select cursor from kit.events where conflicting = 0 and cursor is not null group by cursor having count(*) > 1',
  );
  expect(doubled).toEqual([]);
  const [{ n } = { n: '' }] = await cluster.rows<{ n: string }>(
    `select count(*) as n from kit.events where id like 'id-%' and conflicting = 0`,
  );
  expect(Number(n)).toBe(20_000);
});

test('the file is refused afterwards, with the name of the store that it was moved to', async () => {
  await fill(10);
  const kit = await moving();
  await until(openedAt);
  await kit.stop();
  await expect(cluster.add({}, `sqlite:${path}`)).rejects.toThrow(/was moved to .*: set DATABASE_URL/);
});

test('all steps of a setup run in PostgreSQL, because the tables of handlers are not copied', async () => {
  await fill(10);
  const table = `listed_${process.pid}`;
  const [create, add] = [`create table ${table} (n bigint)`, `insert into ${table} values (1)`];
  const store = openSqlite(path, { owner: true });
  await store.work.setup((tx) => tx.run(create), { handler: 'listed', step: 1, digest: digestOf(create), now: T0 });
  store.close();
  const kit = await cluster.make({ MOVE_FROM: `sqlite:${path}` });
  kit.addHandler('listed', `export default { on: '*', setup: ['${create}', '${add}'], handle() {} };`);
  await kit.start();
  const steps = () => cluster.rows<{ step: number }>('select step from kit.setup_steps order by step');
  await until(async () => (await steps()).length === 2);
  expect(await steps()).toEqual([{ step: 1 }, { step: 2 }]);
  expect(await cluster.rows(`select n from ${table}`)).toEqual([{ n: '1' }]);
  await cluster.rows(`drop table ${table}`);
});

test('a store that has events of its own, and a missing file, are refused', async () => {
  await fill(10);
  const own = await cluster.add();
  const load = send([own], 50);
  await until(() => load.acknowledged.size > 5);
  await load.stop();
  await own.stop();
  await expect(moving()).rejects.toThrow('holds events of its own');
});
