// The SQL that a handler may not run: writes to tables of the kit, and statements that end the transaction.
import { expect, test } from 'vitest';
import { createStore } from './fixture.ts';

test('every table of the kit is refused to handlers', async () => {
  const store = createStore();
  let names: string[] = [];
  await store.work.setup(async (tx) => {
    const rows = await tx.all(`select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'`);
    names = rows.map(({ name }) => String(name));
  });
  expect(names).toContain('owed');
  expect(names.length).toBeGreaterThan(25);
  const verbs = ['delete from', 'drop table', 'create table if not exists', 'insert into', 'update', 'alter table'];
  for (const name of names)
    for (const verb of verbs)
      await expect(
        store.work.setup((tx) => void tx.run(`${verb} ${name}`)),
        `${verb} ${name}`,
      ).rejects.toThrow('the tables of the kit');
});

test('words of the kit in values, comments and longer names are no writes to its tables', async () => {
  const store = createStore();
  await store.work.setup(async (tx) => {
    await tx.run('create table my_state (text text) -- not into state');
    await tx.run(`insert into my_state values ('update state')`);
    await tx.run('create index my_state_by_text on my_state (text)');
    await tx.run('update my_state set text = (select max(name) from state)');
    await tx.run('create temp table mine_for_now (n integer)');
    expect(await tx.all('select count(*) as n from my_state')).toEqual([{ n: 1 }]);
  });
});

test.each([
  'commit',
  ' -- a word\n rollback',
  'savepoint one',
  'pragma synchronous = off',
  "attach database 'x' as y",
  'delete from tasks',
  'insert into events (seq) values (1)',
  'update state set value = 0',
  'drop table if exists lanes',
  'delete from "main"."tasks"',
  "delete from 'tasks'",
  'insert into/**/events (seq) values (1)',
  'create temp table if not exists state (name text)',
  'create temporary view tasks as select 1',
  'create trigger mine_too after insert on events begin select 1; end',
  'create index mine_too on events (type)',
  'drop index events_by_cursor',
  'drop trigger if exists lanes_with_tasks',
  'create table [state] (name text)',
])('a handler may not run %j, and no write of the same work is committed', async (sql) => {
  const store = createStore();
  const work = store.work.setup((tx) => {
    void tx.run('create table mine (id text)');
    void tx.run(sql);
  });
  await expect(work).rejects.toThrow('handler');
  await store.work.setup(async (tx) => {
    expect(await tx.all(`select name from sqlite_schema where name = 'mine'`)).toEqual([]);
  });
});
