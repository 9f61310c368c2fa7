// What a server does to a store: connections that end or freeze, kits that start together, and bytes.
import { AsyncLocalStorage } from 'node:async_hooks';
import { Client } from 'pg';
import { expect, test } from 'vitest';
import type { Loaded } from '../../src/run/load.ts';
import { setUp } from '../../src/run/setup.ts';
import { Connections } from '../../src/store/postgres/connection.ts';
import { openPostgres } from '../../src/store/postgres/open.ts';
import { until } from '../harness.ts';
import { claimed, createWorld, failed, reading } from '../store/fixture.ts';
import { createPostgresWorld } from './world.ts';

const ARRIVAL = [{ name: 'h', order: 'arrival' as const }];

test('kits that start together make one schema, and a newer one is refused', async () => {
  const world = await createPostgresWorld([]);
  await world.exec(`drop schema ${world.store.db.schema} cascade`);
  const stores = await Promise.all([1, 2, 3].map((n) => openPostgres(world.url, { instance: `${n}`, max: 1 })));
  expect(await Promise.all(stores.map(({ db }) => db.get('select count(*) as n from state')))).toEqual(
    stores.map(() => ({ n: 3 })),
  );
  await world.exec("update state set value = '9' where name = 'schema'");
  await expect(openPostgres(world.url)).rejects.toMatchObject({ code: 'newer' });
  await Promise.all(stores.map(({ db }) => db.close()));
});

test('it has the tables and columns of SQLite', async () => {
  const shape = (rows: unknown[]): Map<string, string> =>
    new Map((rows as { name: string; columns: string }[]).map(({ name, columns }) => [name, columns]));
  const sqlite = shape(
    createWorld([])
      .rows(`select m.name, group_concat(c.name, ' ') as columns from sqlite_master m, pragma_table_info(m.name) c
      where m.type in ('table', 'view') and m.name not like 'sqlite%' group by 1`),
  );
  const world = await createPostgresWorld([]);
  const postgres = shape(
    await world.all(`select table_name as name, string_agg(column_name, ' ' order by ordinal_position) as columns
      from information_schema.columns where table_schema = '${world.store.db.schema}' group by 1`),
  );
  expect(postgres).toEqual(sqlite);
  for (const view of ['recent_events', 'waiting_tasks', 'dead_letters'])
    expect(await world.all(`select * from ${view}`)).toEqual([]);
});

test('a server that cannot be reached is a fault of the store', async () => {
  const db = new Connections('postgres://nobody@127.0.0.1:1/none');
  await expect(db.get('select 1')).rejects.toMatchObject({ name: 'StoreError', code: 'io' });
  await db.close();
});

test('connections that were cut off are opened again, and what was not answered is not stored', async () => {
  const world = await createPostgresWorld(ARRIVAL);
  const own = `select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()
    and application_name = 'webhook-receiver-kit' and query like '%kit of this test%'`;
  const cut = world.store.db.write(async (tx) => {
    await tx.query("insert into state values ('cut', '1') /* kit of this test */");
    await world.exec(own);
    await tx.run('select 1');
  });
  await expect(cut).rejects.toMatchObject({ code: 'io' });
  expect(await world.accept({ id: 'a' })).toEqual(['new']);
  expect(await world.number("select count(*) from state where name = 'cut'")).toBe(0);
});

test('an instance that freezes while it receives holds up the others for 3 s', async () => {
  const world = await createPostgresWorld(ARRIVAL);
  const { db } = world.store;
  const { promise: held, resolve: hold } = Promise.withResolvers<void>();
  const { promise: frozenUntil, resolve: thaw } = Promise.withResolvers<void>();
  const frozen = db.write(async (tx) => {
    await tx.lock('ingest');
    hold();
    await frozenUntil;
    await tx.run('select 1');
  });
  await held;
  expect(await world.accept({ id: 'a' })).toEqual(['new']);
  thaw();
  await expect(frozen).rejects.toMatchObject({ code: 'io' });
});

test('a delivery that waits for a lock of another program is refused, and the reason is named', async () => {
  const world = await createPostgresWorld(ARRIVAL);
  const program = new Client({ connectionString: world.url });
  await program.connect();
  await program.query(`begin; lock table "${world.store.db.schema}".events`);
  await expect(world.accept({ id: 'a' })).rejects.toThrow('lock timeout');
  await program.end();
  expect(await world.accept({ id: 'a' })).toEqual(['new']);
});

test('bodies are kept byte by byte, and text that cannot be kept is no fault', async () => {
  const world = await (await createPostgresWorld(ARRIVAL)).begin();
  const body = Buffer.from([0, 0xff, 0xed, 0xa0, 0x80, 0x7b]);
  await world.accept({ unreadable: { origin: 'webhook', cursor: null, body, reason: 'a NUL: \\0' } });
  expect(await world.one('select body from quarantine')).toEqual(body);
  const data = { text: '\\0 \\ud800 ü' };
  await world.accept({ id: 'a', cursor: 1, data });
  const claim = await claimed(world);
  const [event] = await world.store.work.events(claim.tasks.map((task) => task.event));
  expect(event?.body).toBe(
    'event' in reading({ id: 'a', data }) ? JSON.stringify({ id: 'a', type: 'A', data: { A: data } }) : '',
  );
  const [again] = await world.settle([
    {
      ...failed(claim, world.now),
      outcomes: [{ event: 1, as: 'again', error: '\\0', dueAt: 0, spent: true, aside: false }],
    },
  ]);
  expect(again?.tasks).toHaveLength(1);
  await world.store.work.note(again ?? claim, { event: 1, handler: 1 }, 'n', JSON.stringify(data));
});

test('a step of setup runs once, although instances start together', async () => {
  const world = await createPostgresWorld(ARRIVAL);
  const other = await world.beside();
  const setup = ({ store }: typeof world): Promise<void> =>
    store.work.setup('h', (tx) => tx.run('create table mine (n integer)'), { number: 1, digest: 'd' });
  await Promise.all([setup(world), setup(other)]);
  expect(await other.store.work.steps('h')).toEqual(['d']);
});

test('a set-up that the server does not allow is a fault of the handler, not of the store', async () => {
  const world = await createPostgresWorld(ARRIVAL);
  const setup = world.store.work.setup('h', (tx) => tx.run('create table pg_catalog.mine (n integer)'));
  await expect(setup).rejects.toThrow('permission denied');
  await expect(setup).rejects.not.toMatchObject({ name: 'StoreError' });
});

test('one process leads, until its connection ends', async () => {
  const world = await createPostgresWorld([]);
  const [one, other] = [new Connections(world.url), new Connections(world.url)];
  expect([await one.leads(), await other.leads(), await one.leads()]).toEqual([true, false, true]);
  await one.close();
  await until('the other one to lead', () => other.leads());
  await other.close();
});

test('a step of setup that fails on a stored value does not quote it', async () => {
  const world = await createPostgresWorld(ARRIVAL);
  const cast = 'alter table mine alter v type int using cast(v as int)';
  const setup = ["create table mine as select '5511999998888' as v", cast];
  const fault = await setUp(
    { name: 'h', file: '/h.ts', setup } as Partial<Loaded> as Loaded,
    world.store.work,
    new AsyncLocalStorage(),
  );
  expect(fault).toContain('failed in step 2: a stored value does not fit');
});
