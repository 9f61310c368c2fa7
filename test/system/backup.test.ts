import { execFile } from 'node:child_process';
import { chownSync, readdirSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import Database from 'better-sqlite3';
import { afterEach, expect, test } from 'vitest';
import { createKit, deliver, load, makeEvent, RECORD, until, type Kit } from './kit.ts';

const run = promisify(execFile);
let kit: Kit;
afterEach(() => kit.remove());

/** Runs `npx kit` on the store of this test. */
async function cli(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${kit.folder}/events.db` };
  try {
    const { stdout, stderr } = await run(process.execPath, ['src/cli/kit.js', ...args], { env });
    return { code: 0, out: stdout, err: stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, out: stdout, err: stderr };
  }
}

test('a backup under load is consistent, and the kit goes on from it after a restore', async () => {
  kit = await createKit({ record: RECORD });
  await kit.start();
  const running = load(kit, 200);
  await until(() => running.acknowledged.size > 300);
  const before = running.acknowledged.size;
  const copy = join(kit.folder, 'copy.db');
  expect(await cli('backup', copy)).toMatchObject({ code: 0 });
  await running.stop();
  expect([...running.statuses.keys()]).toEqual([204]);

  const db = new Database(copy, { readonly: true });
  const events = db.prepare<[], number>('select count(*) from events').pluck().get() ?? 0;
  expect(events).toBeGreaterThanOrEqual(before);
  expect(db.prepare<[], number>('select count(*) from processes').pluck().get()).toBe(0);
  expect(db.pragma('integrity_check', { simple: true })).toBe('ok');
  db.close();

  expect((await cli('restore', copy)).err).toContain(`served by process ${kit.pid('receive')}`);
  await kit.stop();
  expect(await cli('restore', copy)).toMatchObject({ code: 0 });
  expect(kit.query('select * from events')).toHaveLength(events);
  expect(readdirSync(kit.folder).filter((name) => name.includes('.replaced-'))).toHaveLength(1);

  await kit.start();
  expect(await deliver(kit, makeEvent(1_000_000))).toBe(204);
  await until(() => kit.query<{ n: number }>('select count(*) as n from seen')[0]?.n === events + 1);
});

test('restore moves a damaged store aside, and refuses a store that another process has open', async () => {
  kit = await createKit({});
  await kit.start();
  await deliver(kit, makeEvent(1));
  const copy = join(kit.folder, 'copy.db');
  expect(await cli('backup', copy)).toMatchObject({ code: 0 });
  await deliver(kit, makeEvent(2));
  await kit.stop();

  const reader = new Database(join(kit.folder, 'events.db'));
  reader.exec('begin');
  reader.prepare('select * from events').all();
  writeSomething(join(kit.folder, 'events.db'));
  const refused = await cli('restore', copy);
  expect(refused).toMatchObject({ code: 69 });
  expect(refused.err).toContain('is open in another process');
  reader.close();
  expect(kit.query('select * from events')).toHaveLength(2);

  writeFileSync(join(kit.folder, 'events.db'), 'not a store at all'.repeat(1_000));
  expect(await cli('restore', copy)).toMatchObject({ code: 0 });
  expect(kit.query('select * from events')).toHaveLength(1);
  const aside = readdirSync(kit.folder).filter((name) => /replaced-|part/.test(name));
  expect(aside.filter((name) => !/-(wal|shm)/.test(name))).toHaveLength(1);
});

test('restore names the pauses that the backup does not hold, and they can be set again before the start', async () => {
  kit = await createKit({});
  await kit.start();
  const copy = join(kit.folder, 'copy.db');
  expect(await cli('backup', copy)).toMatchObject({ code: 0 });
  expect(await cli('pause', '--all')).toMatchObject({ code: 0 });
  const paused = join(kit.folder, 'paused.db');
  expect(await cli('backup', paused)).toMatchObject({ code: 0 });
  await kit.stop();
  expect((await cli('restore', paused)).out).not.toContain('pause');
  const pauses = () => kit.query(`select * from state where name = 'paused' and value <> '{}'`);
  expect(pauses()).toHaveLength(1);
  expect((await cli('restore', copy)).out).toContain('Paused before, but not in the backup: all handlers.');
  expect(pauses()).toEqual([]);
  expect(await cli('pause', '--all')).toMatchObject({ code: 0 });
  expect(pauses()).toHaveLength(1);
});

test('a backup by hand is not begun without room, and leaves no file', async () => {
  kit = await createKit({});
  const path = join(kit.folder, 'events.db');
  writeFileSync(path, '');
  // A file of this size without content takes no room itself.
  truncateSync(path, 8 * 2 ** 40);
  const { code, err } = await cli('backup', join(kit.folder, 'copy.db'));
  expect([code, err]).toEqual([
    69,
    expect.stringMatching(/\d+ MB are free, and the copy takes 9227469 MB and leaves 640 MB/),
  ]);
  expect(readdirSync(kit.folder).filter((name) => name.startsWith('copy'))).toEqual([]);
});

/** Writes a row, which stays in the WAL while another connection reads the store. */
function writeSomething(path: string): void {
  const db = new Database(path);
  db.exec(`insert into state values ('something', 1)`);
  db.close();
}

test('restore refuses a file that is not a backup, and leaves the store unchanged', async () => {
  kit = await createKit({});
  await kit.start();
  await deliver(kit, makeEvent(1));
  await kit.stop();
  const alien = join(kit.folder, 'alien.db');
  const db = new Database(alien);
  db.exec('create table something (a)');
  db.close();
  const refused = await cli('restore', alien);
  expect(refused).toMatchObject({ code: 69 });
  expect(refused.err).toContain('is not a store of this kit');
  expect(kit.query('select * from events')).toHaveLength(1);
  expect(await cli('backup', alien)).toMatchObject({ code: 69 });
});

test('restore says of an empty file and of a part of a backup what they are, and leaves the store unchanged', async () => {
  kit = await createKit({});
  await kit.start();
  await deliver(kit, makeEvent(1));
  await kit.stop();
  const [copy, empty] = [join(kit.folder, 'copy.db'), join(kit.folder, 'empty.db')];
  expect(await cli('backup', copy)).toMatchObject({ code: 0 });
  writeFileSync(empty, '');
  expect(await cli('restore', empty)).toMatchObject({ code: 69, err: expect.stringContaining(`${empty} is empty`) });
  const { size } = statSync(copy);
  for (const part of [size / 2, 5_000, 4_096, 50]) {
    truncateSync(copy, part);
    const err = expect.stringMatching(
      /copy\.db is (incomplete or damaged|not a store of this kit, or only a part of one)/,
    );
    expect(await cli('restore', copy), `${part} bytes`).toMatchObject({ code: 69, err });
  }
  expect(kit.query('select * from events')).toHaveLength(1);
});

test.skipIf(process.getuid?.() !== 0)('a store that root restores belongs to the user of its folder', async () => {
  kit = await createKit({});
  await kit.start();
  const copy = join(kit.folder, 'copy.db');
  expect(await cli('backup', copy)).toMatchObject({ code: 0 });
  await kit.stop();
  for (const name of ['', ...readdirSync(kit.folder)]) chownSync(join(kit.folder, name), 65_534, 65_534);
  expect(await cli('restore', copy)).toMatchObject({ code: 0 });
  const files = readdirSync(kit.folder).filter((name) => name.startsWith('events.db'));
  expect(files).toContain('events.db-id');
  const owners = files.map((name) => [name, statSync(join(kit.folder, name)).uid]);
  expect(owners).toEqual(files.map((name) => [name, 65_534]));
});
