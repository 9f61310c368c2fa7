// A handler whose table changes again and again while events arrive: over starts, reloads, failures, a rename and an
// older release. Each step runs once, and no row is lost.
import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { createKit, deliver, load, makeEvent, until, type Kit } from './kit.ts';

const run = promisify(execFile);
let kit: Kit;
afterEach(() => kit.remove());

/** A handler with these steps, as source. It fills the columns that the steps made. */
function handler(steps: string[], columns: Record<string, string> = {}): string {
  const names = ['key', ...Object.keys(columns)];
  const sql = `insert into seen (${names.join()}) values (${names.map(() => '?').join()})`;
  return `export default {
  on: 'MessageReceived', lane: 'none', order: 'arrival', retry: { firstMs: 10, maxMs: 50 },
  setup: [\n${steps.map((step) => `    ${step},\n`).join('')}  ],
  handle: (event, ctx) => ctx.complete(async (tx) => void (await tx.run('${sql}', ${['event.key', ...Object.values(columns)].join()}))),
};`;
}

const CREATE = `'create table seen (key text primary key)'`;
const ADD_TYPE = `'alter table seen add column type text'`;
const FILL_TYPE = `'update seen set type = \\'?\\' where type is null'`;
/** SQLite cannot add a column with a check, so the table is made anew. */
const REBUILD = `async (tx) => {
      await tx.run('create table fresh (key text primary key, type text not null, sender text)');
      await tx.run('insert into fresh (key, type) select key, type from seen');
      await tx.run('drop table seen');
      await tx.run('alter table fresh rename to seen');
    }`;
/** The process dies with the statement done and not committed. */
const DIES = `async (tx) => {
      await tx.run('create index by_type on seen (type)');
      process.kill(process.pid, 'SIGKILL');
    }`;
const INDEX = `'create index by_sender on seen (sender)'`;
const COUNT = `'alter table seen add column n integer not null default 1'`;
const TYPED = { type: 'event.type' };
const FULL = { ...TYPED, sender: 'event.data.from' };

const lines = (words: string): string[] =>
  kit
    .output()
    .split('\n')
    .filter((line) => line.includes(words));
const steps = (): string[] =>
  kit.query<{ name: string }>(`select handler || ' ' || step as name from setup_steps`).map(({ name }) => name);
const columns = (): string[] =>
  kit.query<{ name: string }>(`select name from pragma_table_info('seen')`).map(({ name }) => name);
const keys = (): string[] => kit.query<{ key: string }>('select key from seen').map(({ key }) => key);

/** Reloads with this source, which has a fault. Resolves to the fault. */
async function refused(name: string, source: string): Promise<string> {
  kit.addHandler(name, source);
  const before = lines('the old handlers keep running').length;
  kit.signal('SIGHUP');
  await until(() => lines('the old handlers keep running').length === before + 1);
  const { faults } = JSON.parse(lines('the old handlers keep running').at(-1) ?? '') as { faults: string[] };
  expect(faults).toHaveLength(1);
  return faults[0] ?? '';
}

async function reload(name: string, source: string): Promise<void> {
  kit.addHandler(name, source);
  await kit.reload();
}

async function cli(...args: string[]): Promise<string> {
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${kit.folder}/events.db` };
  const { stdout } = await run(process.execPath, ['src/cli/kit.js', ...args], { env });
  return stdout;
}

test('a table changes over starts, reloads, failing steps, a rename and an older release, and keeps every row', async () => {
  const list = [CREATE];
  kit = await createKit({ count: handler(list) });
  const file = join(kit.folder, 'handlers', 'count.ts');
  await kit.start();
  const sending = load(kit, 50);
  const goesOn = async (): Promise<void> => {
    const before = keys().length;
    await until(() => keys().length > before + 20);
  };
  await goesOn();

  await reload('count', handler([...list, ADD_TYPE], TYPED));
  await goesOn();

  list.push(ADD_TYPE);
  const slip = FILL_TYPE.replace('update', 'updat');
  expect(await refused('count', handler([...list, slip, REBUILD], FULL))).toMatch(
    /^\/.*\/count\.ts: setup of handler count failed in step 3: .*updat/,
  );
  expect(columns()).toEqual(['key', 'type']);
  await goesOn();
  const named = lines('failed in step 3').filter((line) => line.includes('"process":"receive"'));
  expect(named, named.join('\n')).toHaveLength(1);
  await reload('count', handler([...list, FILL_TYPE, REBUILD], FULL));
  expect(columns()).toEqual(['key', 'type', 'sender']);
  await goesOn();

  list.push(FILL_TYPE, REBUILD);
  expect(await refused('count', handler([...list, INDEX, DIES], FULL))).toContain(
    `${file}: ended its process (SIGKILL`,
  );
  expect(steps()).toHaveLength(5);
  expect(kit.query(`select name from sqlite_schema where name like 'by_%'`)).toEqual([{ name: 'by_sender' }]);
  await goesOn();
  await kit.stop();
  kit.addHandler('count', handler([...list, INDEX], FULL));
  await kit.start();
  await goesOn();

  list.push(INDEX);
  expect(await refused('count', handler(list.toSpliced(1, 0, COUNT), FULL))).toContain(
    'step 2 is no longer the one that has run: undo the change of step 2',
  );
  rmSync(file);
  expect(await refused('tally', handler([...list, COUNT], FULL))).toContain(
    'npx kit tasks move --from count --to tally',
  );
  await goesOn();
  expect(await cli('tasks', 'move', '--from', 'count', '--to', 'tally')).toBe(
    '5 steps of setup moved from count to tally; repeat this command once tally is loaded\nuntil then tally runs new events before those that wait; npx kit pause --all avoids that\n',
  );
  await reload('tally', handler([...list, COUNT], FULL));
  await cli('tasks', 'move', '--from', 'count', '--to', 'tally');
  await goesOn();

  await kit.killAll();
  kit.addHandler('tally', handler([...list.slice(0, 3)], TYPED));
  await kit.start();
  await goesOn();
  expect(lines('more steps of setup have run')).toHaveLength(1);
  expect(lines('more steps of setup have run')[0]).toMatch(/"handler":"tally","ran":6,"steps":3/);
  const newest = `'alter table seen add column last text'`;
  await reload('tally', handler([...list, COUNT, newest], FULL));
  await goesOn();

  await sending.stop();
  const accepted = kit.query<{ n: number }>('select count(*) as n from events')[0]?.n ?? 0;
  expect(accepted).toBeGreaterThanOrEqual(sending.acknowledged.size);
  await until(() => keys().length === accepted);
  expect(columns()).toEqual(['key', 'type', 'sender', 'n', 'last']);
  expect(steps()).toEqual([1, 2, 3, 4, 5, 6, 7].map((n) => `tally ${n}`));
  expect(kit.query(`select 1 from tasks where state <> 'done'`)).toEqual([]);
});

test('a restored backup has the tables and the memory of its steps, and a start runs those that it lacks', async () => {
  kit = await createKit({ count: handler([CREATE]) });
  await kit.start();
  await deliver(kit, makeEvent(1));
  await until(() => keys().length === 1);
  const copy = join(kit.folder, 'copy.db');
  await cli('backup', copy);
  await reload('count', handler([CREATE, ADD_TYPE], TYPED));
  expect(steps()).toEqual(['count 1', 'count 2']);
  await kit.stop();
  await cli('restore', copy);
  expect(steps()).toEqual(['count 1']);
  await kit.start();
  expect(steps()).toEqual(['count 1', 'count 2']);
  await deliver(kit, makeEvent(2));
  await until(() => kit.query(`select 1 from seen where type = 'MessageReceived'`).length === 1);
  expect(keys()).toHaveLength(2);
});
