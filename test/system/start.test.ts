import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, type AddressInfo } from 'node:net';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { deliver, load, makeEvent, RECORD, SECRET, until, type Kit } from './kit.ts';
import { kitCommand } from './kit-command.ts';
import { newKit } from './new-kit.ts';

/** A handler that ends once the file `release` exists. When the kit asks it to stop, it makes the file `stopping`. */
const WAITING = `
  import { existsSync, writeFileSync } from 'node:fs';
  import { setTimeout as sleep } from 'node:timers/promises';
  export default { on: '*', async handle(event, { signal }) {
    signal.addEventListener('abort', () => writeFileSync('stopping', ''));
    while (!existsSync('release')) await sleep(10);
  } };`;

function runsOf(kit: Kit): string[] {
  const children = readFileSync(`/proc/${kit.main()}/task/${kit.main()}/children`, 'utf8').trim().split(' ');
  return children.filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('run/main.ts'));
}

test('one message names every fault of the configuration and of the handlers, without a stack, with exit code 78', async () => {
  const kit = await newKit(
    { broken: 'export default { on: "MessageReceived", handle( }', empty: 'export const x = 1;' },
    { WEBHOOK_SECRET: '', API_BASE_URL: 'not a url', PORT: '99999' },
  );
  await expect(kit.start()).rejects.toThrow('ended with 78');
  for (const name of ['WEBHOOK_SECRET', 'API_BASE_URL', 'API_KEY', 'PORT', 'broken.ts', 'empty.ts']) {
    expect(kit.output()).toContain(name);
  }
  expect(kit.output()).not.toMatch(/^\s+at /m);
});

test('a second start on the same store is refused, and the message names the first process', async () => {
  const first = await newKit({ record: RECORD });
  await first.start();
  const second = await newKit({}, { DATABASE_URL: `sqlite:${first.folder}/events.db` });
  await expect(second.start()).rejects.toThrow(`served by process ${first.pid('receive')}`);
  expect(await deliver(first, makeEvent(1))).toBe(204);
});

test('a store that is locked at the start is unreachable, with exit code 69: a later start may succeed', async () => {
  const kit = await newKit({});
  await kit.start();
  await kit.stop();
  const other = new Database(join(kit.folder, 'events.db'));
  other.exec('begin immediate');
  await expect(kit.start()).rejects.toThrow('ended with 69');
  expect(kit.output()).toMatch(/events\.db is (locked by another process|being read)/);
  other.exec('rollback');
  other.close();
  await kit.start();
});

test('a disk that is full at the start is unreachable, with exit code 69, and the start succeeds once there is room', async ({
  skip,
}) => {
  const at = mkdtempSync(join(tmpdir(), 'kit-full-'));
  skip(spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', at]).status !== 0, 'no right to mount a disk');
  onTestFinished(() => void spawnSync('umount', ['-l', at]));
  const filler = join(at, 'filler');
  const kit = await newKit({}, { DATABASE_URL: `sqlite:${join(at, 'events.db')}` });
  for (const isNew of [true, false]) {
    fill(filler);
    await expect(kit.start(), isNew ? 'a new store' : 'a store with events').rejects.toThrow('ended with 69');
    expect(kit.output()).toMatch(/The disk is full: make room, see df -h/);
    rmSync(filler);
    await kit.start();
    expect(await deliver(kit, makeEvent(Number(isNew)))).toBe(204);
    await kit.stop();
  }
});

/** Writes a file until its disk is full. */
function fill(file: string): void {
  const fd = openSync(file, 'w');
  const part = Buffer.alloc(4_096);
  try {
    for (;;) writeSync(fd, part);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    closeSync(fd);
  }
}

test('an ops port that is in use is a fault of the configuration, found before any delivery is accepted', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const kit = await newKit({}, { OPS_PORT: String(port) });
  await expect(kit.start()).rejects.toThrow('ended with 78');
  expect(kit.output()).toContain(`OPS_PORT: cannot listen on 127.0.0.1:${port} (EADDRINUSE)`);
  taken.close();
});

test('a start says that its store is new, for example because a disk is not mounted; the next start does not', async () => {
  const kit = await newKit({ record: RECORD });
  const says: boolean[] = [];
  for (let start = 0; start < 2; start++) {
    await kit.start();
    says.push(kit.output().includes('a new, empty store was created'));
    await kit.stop();
  }
  expect(says).toEqual([true, false]);
});

test('a stop right after the start, before all processes run, exits cleanly and logs no failure', async () => {
  const kit = await newKit({ record: RECORD });
  await kit.start();
  expect(await kit.stop()).toBe(0);
  expect(kit.output()).not.toContain('"level":50');
});

test('F18: SIGTERM under load answers the deliveries in flight, and exits with 0', async () => {
  const kit = await newKit({ record: RECORD });
  await kit.start();
  const running = load(kit, 200);
  await until(() => running.acknowledged.size > 50);
  kit.signal('SIGTERM');
  expect(await kit.exited()).toBe(0);
  await running.stop();
  // Status 0: the connection was refused, because the port was already closed.
  expect([...running.statuses.keys()].filter((status) => status !== 0)).toEqual([204]);
  const stored = new Set(kit.query<{ id: string }>('select id from events').map(({ id }) => id));
  expect([...running.acknowledged].filter((id) => !stored.has(id))).toEqual([]);
});

test.each(['SIGTERM', 'SIGINT'] as const)(
  'a stop lets the handlers end, even if main and run get %s, twice',
  async (signal) => {
    const kit = await newKit({ waiting: WAITING });
    await kit.start();
    await deliver(kit, makeEvent(1));
    await until(() => kit.query('select * from claims').length === 1);
    const run = await kit.alive('run');
    for (const times of [1, 2]) {
      kit.signal(signal);
      process.kill(run, signal);
      if (times === 1) await until(() => kit.output().includes('stopping'));
    }
    writeFileSync(join(kit.folder, 'release'), '');
    expect(await kit.exited()).toBe(0);
    expect(kit.query('select state, attempts from tasks')).toEqual([{ state: 'done', attempts: 1 }]);
  },
);

test('deliveries are accepted until the handlers have ended, so that a restart closes the port for a moment only', async () => {
  const kit = await newKit({ waiting: WAITING });
  await kit.start();
  await deliver(kit, makeEvent(1));
  await until(() => kit.query('select * from claims').length === 1);
  kit.signal('SIGTERM');
  await until(() => kit.output().includes('stopping'));
  expect(await deliver(kit, makeEvent(2))).toBe(204);
  writeFileSync(join(kit.folder, 'release'), '');
  expect(await kit.exited()).toBe(0);
  expect(kit.query('select id from events')).toHaveLength(2);
});

test('repeated SIGHUP under load refuses no delivery, and loads changed handlers', async () => {
  const kit = await newKit({ record: RECORD });
  await kit.start();
  const running = load(kit, 200);
  for (let round = 0; round < 4; round++) {
    const before = await kit.alive('run');
    kit.signal('SIGHUP');
    await kit.alive('run', before);
  }
  await running.stop();
  expect([...running.statuses.keys()]).toEqual([204]);
  await until(() => kit.query<{ n: number }>('select count(*) as n from seen')[0]?.n === running.acknowledged.size);
  expect(kit.query('select key from seen group by key having count(*) > 1')).toEqual([]);
});

test('E12: if the store is replaced while SIGHUP replaces run, no process that runs handlers is left', async () => {
  const kit = await newKit({ waiting: WAITING });
  await kit.start();
  const path = join(kit.folder, 'events.db');
  const db = new Database(path, { readonly: true });
  await db.backup(`${path}.copy`);
  db.close();
  await deliver(kit, makeEvent(1));
  await until(() => kit.query('select * from claims').length === 1);
  kit.signal('SIGHUP');
  await until(() => existsSync(join(kit.folder, 'stopping')));
  renameSync(`${path}.copy`, path);
  expect(await deliver(kit, makeEvent(2))).toBe(503);
  writeFileSync(join(kit.folder, 'release'), '');
  await until(() => kit.output().includes('"copy"'));
  await until(() => runsOf(kit).length === 0);
});

test('F28: a handler file that breaks later: SIGHUP loads the secrets and keeps the old handlers; after a kill of run the handler waits for a fix', async () => {
  const kit = await newKit({ record: RECORD }, { WEBHOOK_SECRET: '', WEBHOOK_SECRET_FILE: 'secret' });
  const rotated = 'whsec_of_the_time_after_the_rotation';
  const seen = (): number => kit.query<{ n: number }>('select count(*) as n from seen')[0]?.n ?? 0;
  writeFileSync(join(kit.folder, 'secret'), SECRET);
  await kit.start();
  kit.addHandler('record', 'export default {');
  writeFileSync(join(kit.folder, 'secret'), `${rotated},${SECRET}`);
  kit.signal('SIGHUP');
  await until(() => kit.output().includes('the old handlers keep running'));
  expect(await deliver(kit, makeEvent(1), [rotated])).toBe(204);
  await until(() => seen() === 1);
  process.kill(await kit.alive('run'), 'SIGKILL');
  await until(() => kit.output().includes('wait until they can be loaded'));
  expect(await deliver(kit, makeEvent(2))).toBe(204);
  kit.addHandler('record', RECORD);
  kit.signal('SIGHUP');
  await until(() => seen() === 2);
});

test('when the main process is killed, the others end at once, even with a handler that spins', async () => {
  const kit = await newKit({ spin: `export default { on: '*', order: 'arrival', handle() { for (;;); } };` });
  await kit.start();
  const pids = [await kit.alive('run'), await kit.alive('keep')];
  await deliver(kit, makeEvent(1));
  await until(() => kit.query('select * from claims').length === 1);
  kit.signal('SIGKILL');
  await until(() => pids.every((pid) => !lives(pid)));
});

test('npx kit reads the store, and its exit codes are as documented', async () => {
  const kit = await newKit({ record: RECORD });
  await kit.start();
  await deliver(kit, makeEvent(7));
  await until(() => kit.query<{ n: number }>('select count(*) as n from seen')[0]?.n === 1);
  const env = { DATABASE_URL: `sqlite:${kit.folder}/events.db` };
  const status = await kitCommand(kit, env, ['status', '--json']);
  expect(JSON.parse(status.out)).toMatchObject({
    events: 1,
    tasks: { done: 1 },
    processes: { receive: 'up', run: 'up' },
  });
  expect((await kitCommand(kit, env, ['explain', '1007'])).out).toContain('record: done, 1 attempt');
  expect(await kitCommand(kit, env, ['status', '--ready'])).toMatchObject({ code: 0 });
  expect(await kitCommand(kit, env, ['explain', 'nothing'])).toMatchObject({ code: 1 });
  expect(await kitCommand(kit, env, ['retry'])).toMatchObject({ code: 2 });
  expect(await kitCommand(kit, { DATABASE_URL: 'sqlite:/nowhere/x.db' }, ['status'])).toMatchObject({ code: 69 });
});

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
