// Every release left a PostgreSQL store as SQL text. The present kit serves each: nothing is lost, nothing runs twice. A
// next kit migrates it beside the present one, which goes on as long as the new schema admits it.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { EXIT } from '../../src/base/errors.ts';
import { copyKit } from '../releases/copied.ts';
import { expectedOf, RELEASES, releases } from '../releases/folders.ts';
import { kitCommand } from '../releases/parts.ts';
import { serve } from '../releases/serving.ts';
import { createKit, deliver, makeEvent, type Kit } from '../system/kit.ts';

const SERVER = process.env['TEST_POSTGRES_URL'] ?? '';
/** A database of its own, because the text makes the schema `kit`, and the table of a handler outside of it. */
let url: string;
let name: string;

let folder: string;
const kits: Kit[] = [];

const NEXT = 'alter table events add column later text; create table later (n bigint primary key);';

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
  for (const kit of kits.splice(0)) await kit.remove();
  await run(SERVER, `drop database if exists ${name} with (force)`);
  rmSync(folder, { recursive: true, force: true });
});

const load = (release: string): Promise<unknown> =>
  run(url, readFileSync(join(RELEASES, release, 'postgres.sql'), 'utf8'));

async function make(root?: string): Promise<Kit> {
  const kit = await createKit({}, { DATABASE_URL: url }, [], root);
  kits.push(kit);
  return kit;
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
    const file = 'src/store/postgres/connection.ts';
    const [, oldest = ''] = /^const (OLDEST = \d+);$/m.exec(readFileSync(file, 'utf8')) ?? [];
    const next = await copyKit(folder, 'postgres', NEXT, { [file]: [oldest, 'OLDEST = STEPS.length'] });
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
});
