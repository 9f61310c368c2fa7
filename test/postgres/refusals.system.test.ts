// What people are told if the server refuses, and a server that would lose what it confirms.
import { Client } from 'pg';
import { afterEach, expect, test, vi } from 'vitest';
import { faultOf, remedyOf } from '../../src/store/postgres/fault.ts';
import { openPostgres } from '../../src/store/postgres/open.ts';
import type { Store } from '../../src/store/store.ts';
import { hasServer, startServer } from './server.ts';

const end: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of end.splice(0).toReversed()) await step();
});

const refused = (code: string, message: string): string | undefined =>
  faultOf(Object.assign(new Error(message), { code }), 'db/kit')?.message;

test('a missing right is named, with what to grant', () => {
  expect(refused('42501', 'permission denied for table events')).toBe(
    'db/kit cannot be used: 42501, permission denied for table events. Grant this user create on the database for the first start, and all rights on the schema kit and its tables',
  );
});

test('a refused login is told in the words of the server, and a start may not be tried again', () => {
  const words = 'password authentication failed for user "kit"';
  const fault = faultOf(Object.assign(new Error(words), { code: '28P01' }), 'db/kit');
  expect(fault?.message).toBe(
    `db/kit cannot be used: 28P01, ${words}. See user, password and database in DATABASE_URL`,
  );
  expect(fault?.passes).toBe(false);
});

test.each(['ECONNREFUSED', 'ENOTFOUND', '57P03', '25006', '53300'])('after %s a start may be tried again', (code) => {
  expect(faultOf(Object.assign(new Error('no'), { code }), 'db/kit')?.passes).toBe(true);
});

test.each([
  ['SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string', 'See user, password'],
  ['The server does not support SSL connections', 'See sslmode'],
])('the driver’s own error has a remedy: %s', (message, remedy) => {
  expect(faultOf(new Error(message), 'db/kit')?.message).toContain(remedy);
});

test('if no connection is left, the limit of the user is named too', () => {
  expect(remedyOf('53300')).toContain('the connection limit of this user');
});

test.runIf(hasServer())('transactions stay synced if the server is reloaded with synchronous_commit off', async () => {
  const server = await startServer();
  const db = new Client({ connectionString: server.url });
  end.push(
    () => server.stop(),
    () => db.end(),
  );
  await db.connect();
  const opened = (): Store => {
    const store = openPostgres(server.url, { owner: true });
    end.push(() => store.close());
    return store;
  };
  const store = opened();
  const sync = async (): Promise<unknown> => {
    let found: unknown;
    const look = `select current_setting('synchronous_commit') as sync`;
    await store.work.setup(async (tx) => void (found = await tx.all(look)));
    return found;
  };
  await sync();
  await db.query('alter system set synchronous_commit = off');
  await db.query('select pg_reload_conf()');
  await vi.waitUntil(async () => {
    const { rows } = await db.query<{ sync: string }>(`select current_setting('synchronous_commit') as sync`);
    return rows[0]?.sync === 'off';
  });
  expect(await sync()).toEqual([{ sync: 'on' }]);
  await expect(opened().processes.lead(true)).rejects.toMatchObject({
    message: expect.stringContaining('reset synchronous_commit'),
    cause: { code: 'synchronous_commit' },
  });
});

test.each(['25006', '25P03'])(
  'a server that is read-only, or ended a transaction, is no fault of a statement: %s',
  (code) => {
    expect(faultOf(Object.assign(new Error('refused'), { code }), 'db/kit')).toMatchObject({ code: 'unwritable' });
  },
);

test.runIf(hasServer())('a database that cannot store every character is refused', async () => {
  const server = await startServer();
  const db = new Client({ connectionString: server.url });
  end.push(
    () => server.stop(),
    () => db.end(),
  );
  await db.connect();
  await db.query(`create database latin encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0`);
  const store = openPostgres(server.url.replace(/postgres$/, 'latin'), { owner: true });
  end.push(() => store.close());
  await expect(store.processes.lead(true)).rejects.toThrow(/its encoding is LATIN1: create a database/);
});

test.runIf(hasServer())(
  'the kit’s tables are refused to handlers although the user has the name of the schema',
  async () => {
    const server = await startServer();
    const db = new Client({ connectionString: server.url });
    end.push(
      () => server.stop(),
      () => db.end(),
    );
    await db.connect();
    await db.query(`create role kit superuser login`);
    const store = openPostgres(server.url.replace('postgres@', 'kit@'), { owner: true });
    end.push(() => store.close());
    for (const sql of [
      'create table if not exists events (key text)',
      'delete from "events"',
      'update state set value = 1',
    ])
      await expect(
        store.work.setup((tx) => tx.run(sql)),
        sql,
      ).rejects.toThrow('the tables of the kit');
    await store.work.setup((tx) => tx.run('create table events_seen (key text)'));
    await store.work.setup((tx) => tx.run('insert into events_seen select id from events'));
  },
);
