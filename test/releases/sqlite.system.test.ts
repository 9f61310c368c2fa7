// Every release left a store. The present kit serves each, and a backup of each: nothing is lost, nothing runs twice. A next
// kit migrates it, and the present kit then refuses it, with a way back that works.
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { EXIT } from '../../src/base/errors.ts';
import { open } from '../../src/store/open.ts';
import { createKit, deliver, makeEvent } from '../system/kit.ts';
import { copyKit, loseMigration, type NextKit } from './copied.ts';
import { figuresOf } from './epilogue.ts';
import { expectedOf, RELEASES, releases } from './folders.ts';
import { until } from './parts.ts';
import { kitCommand } from '../system/kit-command.ts';
import { serve } from './serving.ts';

const NEXT = `alter table events add column later text; create table later (n integer primary key) strict;`;

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kit-release-'));
  path = join(folder, 'events.db');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** All rows, by table. Columns of a later kit are left out. */
function rowsOf(file: string, columns?: Map<string, string[]>): { rows: object; columns: Map<string, string[]> } {
  const db = new Database(file, { readonly: true });
  db.defaultSafeIntegers();
  try {
    const tables = db
      .prepare<[], string>(`select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'`)
      .pluck()
      .all();
    const named = (table: string): string[] =>
      columns?.get(table) ?? (db.pragma(`table_info(${table})`) as { name: string }[]).map(({ name }) => name);
    const all = new Map(tables.filter((table) => columns?.has(table) ?? true).map((table) => [table, named(table)]));
    const rows = [...all].map(([table, its]) => [
      table,
      db.prepare(`select ${its.join()} from ${table} order by 1, 2`.replace(its.length < 2 ? ', 2' : '', '')).all(),
    ]);
    return { rows: Object.fromEntries(rows) as object, columns: all };
  } finally {
    db.close();
  }
}

function versionOf(file: string): number {
  const db = new Database(file, { readonly: true });
  const version = Number(db.pragma('user_version', { simple: true }));
  db.close();
  return version;
}

describe.each(releases())('the SQLite store of release %s', (release) => {
  const expected = expectedOf(release, 'events.json');
  let schema: number;
  beforeEach(() => {
    copyFileSync(join(RELEASES, release, 'events.db'), path);
    schema = versionOf(path);
  });

  test('is served: its tasks end once and in order, and what it has is not accepted again', async () => {
    await serve(`sqlite:${path}`, expected);
    expect.hasAssertions();
  });

  test('keeps all its rows in a next migration, and leaves a copy from before it', async () => {
    const next = await copyKit(folder, 'sqlite', NEXT);
    const before = rowsOf(path);
    next.open(`sqlite:${path}`, { owner: true }).close();
    expect(versionOf(path)).toBe(next.schema);
    expect(rowsOf(path, before.columns).rows).toEqual(before.rows);
    const copy = `${path}.before-${schema + 1}`;
    expect(versionOf(copy)).toBe(schema);
    expect(rowsOf(copy).rows).toEqual(before.rows);
    await serve(`sqlite:${path}`, expected, next);
  });

  test('is restored from its file and from a backup by this kit, which then serves it', async () => {
    await restoreFrom(path);
    await serve(`sqlite:${path}`, expected);
  });

  test('is restored from its file and from a backup by a next kit, which migrates and serves it', async () => {
    const next = await copyKit(folder, 'sqlite', NEXT);
    await restoreFrom(path, next.root);
    expect(versionOf(path), 'only a start migrates').toBe(schema);
    await serve(`sqlite:${path}`, expected, next);
    expect(versionOf(path)).toBe(next.schema);
  });
});

/** Backs the file up with the kit at `root`, and restores that backup and the file itself in its place. */
async function restoreFrom(file: string, root = '.'): Promise<void> {
  const kit = await createKit({});
  const [given, backup] = ['given.db', 'backup.db'].map((name) => join(folder, name));
  copyFileSync(file, given ?? '');
  const run = (...args: string[]): ReturnType<typeof kitCommand> =>
    kitCommand(kit, { DATABASE_URL: `sqlite:${file}` }, args, root);
  try {
    for (const args of [
      ['backup', backup ?? ''],
      ['restore', given ?? ''],
      ['restore', backup ?? ''],
    ])
      expect(await run(...args), args.join(' ')).toMatchObject({ code: EXIT.done });
  } finally {
    await kit.remove();
  }
}

test('if run dies while the code is newer than the receiver, its line says so, and a restart migrates the store', async () => {
  const { root, schema } = await copyKit(folder, 'sqlite', NEXT);
  const migration = join(root, 'src/store/sqlite/migrations', `${String(schema).padStart(3, '0')}.sql`);
  rmSync(migration);
  const kit = await createKit({}, { DATABASE_URL: `sqlite:${path}` }, [], root);
  try {
    await kit.start();
    writeFileSync(migration, NEXT);
    process.kill(await kit.alive('run'), 'SIGKILL');
    const said = /run cannot start; retrying/;
    await until(() => said.test(kit.output()), 'run to be refused');
    const line = kit
      .output()
      .split('\n')
      .find((one) => said.test(one));
    expect(line).toContain(
      `the store at ${path} is of an older kit than this code: start the receiver once, or restart it`,
    );
    expect(await deliver(kit, makeEvent(1))).toBe(204);
    expect(await kit.stop()).toBe(EXIT.done);
    await kit.start();
    await kit.alive('run');
    expect(kit.output()).toMatch(
      new RegExp(`"from":${schema - 1},"to":${schema},"copy":"${path}.before-${schema}","msg":"the store was migrated`),
    );
    expect(await kit.stop()).toBe(EXIT.done);
  } finally {
    await kit.remove();
  }
});

describe('a file that a next kit has migrated', () => {
  let next: NextKit;
  let env: Record<string, string>;
  const [release = ''] = releases().slice(-1);
  beforeEach(async () => {
    copyFileSync(join(RELEASES, release, 'events.db'), path);
    next = await copyKit(folder, 'sqlite', NEXT);
    next.open(`sqlite:${path}`, { owner: true }).close();
    env = { DATABASE_URL: `sqlite:${path}` };
  });

  test('is refused by the start and the commands of this kit, which change nothing', async () => {
    const bytes = readFileSync(path);
    const kit = await createKit({}, env);
    try {
      await expect(kit.start()).rejects.toThrow(/written by a newer kit/);
      expect(await kit.exited()).toBe(EXIT.configuration);
      for (const args of [['status'], ['events'], ['prune'], ['backup', join(folder, 'copy.db')], ['pause', '--all']])
        expect(await kitCommand(kit, env, args), args.join(' ')).toMatchObject({
          code: EXIT.unreachable,
          out: expect.stringContaining('written by a newer kit'),
        });
    } finally {
      await kit.remove();
    }
    expect(readFileSync(path).equals(bytes)).toBe(true);
    expect(existsSync(`${path}-wal`)).toBe(false);
    expect(readdirSync(folder)).not.toContain('copy.db');
  });

  test('is given up for the copy from before the migration by the command that the refusal names', async () => {
    const kit = await createKit({}, env);
    try {
      const { out } = await kitCommand(kit, env, ['status']);
      const [, remedy = ''] = /npx kit (restore \S+)/.exec(out) ?? [];
      expect(await kitCommand(kit, env, remedy.split(' '))).toMatchObject({ code: EXIT.done });
      const store = open(`sqlite:${path}`, { owner: true });
      expect(await figuresOf(store)).toEqual(expectedOf(release, 'events.json').status);
      store.close();
      await kit.start();
      expect(await deliver(kit, makeEvent(1))).toBe(204);
      expect(await kit.stop()).toBe(EXIT.done);
    } finally {
      await kit.remove();
    }
  });
});

test('a clone that lacks a migration, because an update was reverted, cannot start on a store or open it', async () => {
  copyFileSync(join(RELEASES, releases().at(-1) ?? '', 'events.db'), path);
  const before = versionOf(path);
  const next = await copyKit(folder, 'sqlite', NEXT);
  const words = `src/store/sqlite/migrations lacks ${loseMigration(next, 'sqlite')}`;
  const env = { DATABASE_URL: `sqlite:${path}` };
  const kit = await createKit({}, env, [], next.root);
  try {
    await expect(kit.start()).rejects.toThrow(words);
    expect(await kit.exited()).toBe(EXIT.configuration);
    const [status, version] = [['status'], ['--version']].map((args) => kitCommand(kit, env, args, next.root));
    expect(await status).toMatchObject({ code: EXIT.unreachable, out: expect.stringContaining(words) });
    expect(await version).toMatchObject({
      code: EXIT.done,
      out: expect.stringContaining('schema incomplete (sqlite)'),
    });
  } finally {
    await kit.remove();
  }
  expect(versionOf(path)).toBe(before);
  expect(existsSync(`${path}.before-${next.schema}`)).toBe(false);
});
