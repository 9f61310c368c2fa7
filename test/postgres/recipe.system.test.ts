// The example in src/handlers/README.md that writes into a PostgreSQL database of one's own, in a kit on SQLite.
import { readFileSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Client } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { deliver, killQuietly, makeEvent, until, type Kit } from '../system/kit.ts';
import { newKit } from '../system/new-kit.ts';
import { createProxy } from './proxy.ts';

const SERVER = process.env['TEST_POSTGRES_URL'] ?? '';
const SCHEMA = `kit_recipe_${process.pid}`;
const EVENTS = 60;

const [, source = ''] =
  /^```ts\n(\/\/ src\/handlers\/archive\.ts\n.*?)^```/ms.exec(readFileSync('src/handlers/README.md', 'utf8')) ?? [];

/** A table of one's own. */
async function createTable(): Promise<() => Promise<string[]>> {
  const client = new Client({ connectionString: SERVER });
  await client.connect();
  onTestFinished(async () => {
    await client.query(`drop schema if exists ${SCHEMA} cascade`);
    await client.end();
  });
  await client.query(`create schema ${SCHEMA}`);
  await client.query(`create table ${SCHEMA}.messages (idempotency_key text primary key, body text not null)`);
  return async () => {
    const { rows } = await client.query<{ key: string }>(`select idempotency_key as key from ${SCHEMA}.messages`);
    return rows.map(({ key }) => key);
  };
}

/** Variables of pg. `address`: where the handler finds the server. */
function variablesOf(address: string): Record<string, string> {
  const { hostname, port, username, password, pathname } = new URL(address);
  const login = { PGUSER: decodeURIComponent(username), PGPASSWORD: decodeURIComponent(password) };
  const database = { PGHOST: hostname, PGPORT: port || '5432', PGDATABASE: pathname.slice(1) };
  return { ...login, ...database, PGOPTIONS: `-c search_path=${SCHEMA}` };
}

async function startKit(env: Record<string, string>): Promise<Kit> {
  const kit = await newKit({ archive: source }, env);
  symlinkSync(resolve('node_modules'), join(kit.folder, 'node_modules'));
  await kit.start();
  return kit;
}

test('after kill -9 between the insert and the completion, the row of each event is there once', async () => {
  expect(source).toContain('idempotency_key');
  const keys = await createTable();
  const proxy = await createProxy(SERVER);
  onTestFinished(() => proxy.close());
  const kit = await startKit(variablesOf(proxy.url));
  const done = (): number =>
    kit.query<{ n: number }>(`select count(*) as n from tasks where state = 'done'`)[0]?.n ?? 0;
  let run = await kit.alive('run');

  for (const [from, upTo] of [
    [0, EVENTS / 2],
    [EVENTS / 2, EVENTS],
  ] as const) {
    const before = (await keys()).length;
    // The answers of the server arrive late, so rows are committed whose handlers still wait.
    proxy.delay(500);
    for (let n = from; n < upTo; n++) expect(await deliver(kit, makeEvent(n))).toBe(204);
    await until(async () => (await keys()).length > before);
    killQuietly(run);
    expect((await keys()).length).toBeGreaterThan(done());
    proxy.delay(0);
    run = await kit.alive('run', run);
    await until(() => done() === upTo);
  }

  const events = Array.from({ length: EVENTS }, (_, n) => `archive/c:${makeEvent(n).cursor}`);
  expect((await keys()).toSorted()).toEqual(events.toSorted());
});
