// Every release left a PostgreSQL store as SQL text. The present kit serves each: nothing is lost, nothing runs twice. A
// next kit migrates it beside the present one, which goes on as long as the new schema admits it.
import { randomBytes } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { EXIT } from '../../src/base/errors.ts';
import { copyKit, loseMigration, type NextKit } from '../releases/copied.ts';
import { expectedOf, RELEASES, releases } from '../releases/folders.ts';
import { kitCommand } from '../system/kit-command.ts';
import { serve } from '../releases/serving.ts';
import { createKit, deliver, makeEvent, until, type Kit, type TestEvent } from '../system/kit.ts';
import { familyOf, NOTE, signalAll } from './members.ts';

const SERVER = process.env['TEST_POSTGRES_URL'] ?? '';
/** A database of its own, because the text makes the schema `kit`, and the table of a handler outside of it. */
let url: string;
let name: string;

let folder: string;
const kits: Kit[] = [];
/** Processes that a test has stopped. */
let stopped: number[] = [];

const NEXT = 'alter table events add column later text; create table later (n bigint primary key);';

/** Its attempts last until the file `go` is there. */
const WAITING = `${NOTE}import { existsSync } from 'node:fs';
export default { on: 'MessageReceived', async handle(event) {
  note('begin', event);
  while (!existsSync(process.env.RAN + '-go')) await new Promise((done) => setTimeout(done, 20));
  note('end', event);
} };
`;

async function run<Row extends object>(address: string, sql: string): Promise<Row[]> {
  const client = new Client({ connectionString: address });
  await client.connect();
  try {
    return (await client.query(sql)).rows as Row[];
  } finally {
    await client.end();
  }
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kit-release-'));
  name = `kit_release_${randomBytes(6).toString('hex')}`;
  const own = new URL(SERVER);
  own.pathname = name;
  url = own.href;
  await run(SERVER, `create database ${name} encoding 'UTF8' template template0`);
});
afterEach(async () => {
  signalAll(stopped.splice(0), 'SIGKILL');
  for (const kit of kits.splice(0)) await kit.remove();
  await run(SERVER, `drop database if exists ${name} with (force)`);
  rmSync(folder, { recursive: true, force: true });
});

const load = (release: string): Promise<unknown> =>
  run(url, readFileSync(join(RELEASES, release, 'postgres.sql'), 'utf8'));

async function make(root?: string, handlers: Record<string, string> = {}): Promise<Kit> {
  const kit = await createKit(handlers, { DATABASE_URL: url, RAN: join(folder, 'ran') }, [], root);
  kits.push(kit);
  return kit;
}

/** What the handler WAITING has noted of an event: `begin` or `end`, and the main process of the instance. */
function notes({ cursor }: TestEvent): [what: string, pid: number][] {
  const file = join(folder, 'ran');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
  return lines
    .map((line) => line.split(' '))
    .flatMap(([what = '', key, , pid]) => (key === cursor ? [[what, Number(pid)] as [string, number]] : []));
}

/** Each row of each table as text. A later kit may add columns at the end. */
async function rowsOf(tables: Record<string, number>): Promise<Record<string, string[]>> {
  const rows: Record<string, string[]> = {};
  for (const table of Object.keys(tables))
    rows[table] = (await run<{ text: string }>(url, `select to_jsonb(t) - 'later' as text from ${table} t`))
      .map(({ text }) => JSON.stringify(text))
      .toSorted();
  return rows;
}

describe.each(releases())('the PostgreSQL store of release %s', (release) => {
  const expected = expectedOf(release, 'postgres.json');
  beforeEach(() => load(release));

  test('is served: its tasks end once and in order, and what it has is not accepted again', async () => {
    await serve(url, expected);
    expect.hasAssertions();
  });

  test('keeps all its rows in a next migration, whose kit serves it', async () => {
    const next = await copyKit(folder, 'postgres', NEXT);
    const { 'kit.version': _, ...tables } = expected.rows;
    const before = await rowsOf(tables);
    const store = next.open(url, { owner: true });
    await store.read.status(store.now());
    store.close();
    expect(await rowsOf(tables)).toEqual(before);
    expect(await run(url, 'select version from kit.version')).toEqual([{ version: next.schema }]);
    await serve(url, expected, next);
  });
});

/** A next kit whose schema this kit cannot use. */
async function copyExcluding(): Promise<NextKit> {
  const file = 'src/store/postgres/connection.ts';
  const [, oldest = ''] = /^const (OLDEST = \d+);$/m.exec(readFileSync(file, 'utf8')) ?? [];
  return copyKit(folder, 'postgres', NEXT, { [file]: [oldest, 'OLDEST = STEPS.length'] });
}

test('a clone that lacks a migration, because an update was reverted, cannot start on a store or open it', async () => {
  await load(releases().at(-1) ?? '');
  const before = await run(url, 'select * from kit.version');
  const next = await copyKit(folder, 'postgres', NEXT);
  const words = `src/store/postgres/migrations lacks ${loseMigration(next, 'postgres')}`;
  const kit = await make(next.root);
  await expect(kit.start()).rejects.toThrow(words);
  expect(await kit.exited()).toBe(EXIT.configuration);
  const status = await kitCommand(kit, { DATABASE_URL: url }, ['status'], next.root);
  expect(status).toMatchObject({ code: EXIT.unreachable, out: expect.stringContaining(words) });
  expect(await run(url, 'select * from kit.version')).toEqual(before);
});

describe('a schema that a next kit has migrated', () => {
  beforeEach(() => load(releases().at(-1) ?? ''));

  test('is used by a running and by a started instance of this kit, if it admits them: a rolling update', async () => {
    const next = await copyKit(folder, 'postgres', NEXT);
    const [running, started] = [await make(), await make()];
    await running.start();
    const updated = await make(next.root);
    await updated.start();
    expect(await run(url, 'select version, oldest from kit.version')).toEqual([{ version: next.schema, oldest: 1 }]);
    expect(updated.output().match(/"from":\d+,"to":\d+,"msg":"the store was migrated/g)).toHaveLength(1);
    await started.start();
    for (const [n, kit] of [running, updated, started].entries()) expect(await deliver(kit, makeEvent(n))).toBe(204);
    for (const kit of [running, updated, started]) expect(await kit.stop()).toBe(EXIT.done);
  });

  test('is refused by the start and the commands of this kit, if it admits it no longer', async () => {
    const next = await copyExcluding();
    const updated = await make(next.root);
    await updated.start();
    const kit = await make();
    await expect(kit.start()).rejects.toThrow(`was written by a newer kit (${next.schema}): update this clone`);
    expect(await kit.exited()).toBe(EXIT.configuration);
    for (const args of [['status'], ['events'], ['prune'], ['pause', '--all']])
      expect(await kitCommand(kit, { DATABASE_URL: url }, args), args.join(' ')).toMatchObject({
        code: EXIT.unreachable,
        out: expect.stringContaining('was written by a newer kit'),
      });
    // The remedy: a start of the updated clone.
    expect(await kitCommand(updated, { DATABASE_URL: url }, ['status'], next.root)).toMatchObject({ code: EXIT.done });
    expect(await deliver(updated, makeEvent(1))).toBe(204);
    expect(await updated.stop()).toBe(EXIT.done);
  });

  test('is not made while instances run that it would not admit: they go on, and the start can be repeated', async () => {
    const next = await copyExcluding();
    const older = [await make(), await make()];
    for (const kit of older) await kit.start();
    const before = await run(url, 'select * from kit.version');
    const updated = await make(next.root);
    await expect(updated.start()).rejects.toThrow(
      /instances of older kits run, .*: stop them all, then start this one/,
    );
    expect(await updated.exited()).toBe(EXIT.unreachable);
    for (const kit of older) expect(updated.output()).toContain(`:${kit.main()} (`);
    expect(await run(url, 'select * from kit.version')).toEqual(before);
    for (const [n, kit] of older.entries()) expect(await deliver(kit, makeEvent(n))).toBe(204);
    for (const kit of older) expect(await kit.stop()).toBe(EXIT.done);
    await updated.start();
    expect(await deliver(updated, makeEvent(3))).toBe(204);
    expect(await updated.stop()).toBe(EXIT.done);
  });

  test('ends an instance that it does not admit and that comes back: another one does its tasks', async () => {
    const handlers = { waiting: WAITING };
    const next = await copyExcluding();
    const [frozen, updated] = [await make('.', handlers), await make(next.root, handlers)];
    const event = makeEvent(1);
    await frozen.start();
    expect(await deliver(frozen, event)).toBe(204);
    await until(() => notes(event).length === 1);
    stopped = familyOf(frozen);
    signalAll(stopped, 'SIGSTOP');
    // Its start waits until the other instance counts as lost.
    await updated.start();
    await until(() => notes(event).length === 2);
    signalAll(stopped, 'SIGCONT');
    expect(await frozen.exited()).toBe(EXIT.configuration);
    expect(frozen.output()).toContain(`was written by a newer kit (${next.schema}): update this clone`);
    writeFileSync(join(folder, 'ran-go'), '');
    await until(() => notes(event).length === 3);
    const [old, now] = [frozen.main(), updated.main()];
    expect(notes(event)).toEqual([
      ['begin', old],
      ['begin', now],
      ['end', now],
    ]);
    expect(await deliver(updated, makeEvent(2))).toBe(204);
    expect(await updated.stop()).toBe(EXIT.done);
  });

  test('ends a leader that is admitted no longer: it accepts nothing more, and its tasks are left to others', async () => {
    const kit = await make('.', { waiting: WAITING });
    const event = makeEvent(1);
    await kit.start();
    expect(await deliver(kit, event)).toBe(204);
    await until(() => notes(event).length === 1);
    const family = familyOf(kit);
    await run(url, 'update kit.version set version = 99, oldest = 99');
    expect(await kit.exited()).toBe(EXIT.configuration);
    expect(kit.output()).toContain('was written by a newer kit (99): update this clone');
    expect(await deliver(kit, makeEvent(2))).toBe(0);
    expect(family.filter((pid) => existsSync(`/proc/${pid}`))).toEqual([]);
    // Other instances find it without a sign of life. If it had left, they would keep its claims.
    const [instance] = await run<{ instance: string }>(url, 'select instance from kit.instances where lost_at is null');
    expect(instance).toBeDefined();
    expect(await run(url, `select 1 from kit.boots where instance = ${instance?.instance}`)).toHaveLength(1);
  });
});
