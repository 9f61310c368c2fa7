// Takes over a store from an owner that crashed, whose processes may still run or be ending.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Taken } from '../../src/store/site.ts';
import { own } from '../../src/store/sqlite/ownership.ts';
import { startOf } from '../../src/base/process-start.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';

let folder: string;
/** On other systems the kit cannot tell whether a process that was left running is still the same, and ends none. */
const onLinux = test.skipIf(process.platform !== 'linux');

let left: ChildProcess;
let ownership: Taken | undefined;

const take = (): Promise<Taken> => own(join(folder, 'events.db'), {});

/** `left` is a process that an earlier owner started and left running. */
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kit-owner-'));
  left = spawn('sleep', ['60']);
  await once(left, 'spawn');
  const { pid = 0 } = left;
  const earlier = await take();
  await earlier.store.processes.beat({ role: 'run', pid, started: startOf(pid), boot: 1 }, Date.now());
  earlier.release();
});

afterEach(() => {
  vi.restoreAllMocks();
  left.kill('SIGKILL');
  ownership?.release();
  ownership = undefined;
  rmSync(folder, { recursive: true });
});

onLinux('a process that an older owner left running is ended', async () => {
  const gone = once(left, 'exit');
  ownership = await take();
  expect(await gone).toEqual([null, 'SIGKILL']);
  expect(await ownership.store.processes.list()).toEqual([]);
});

test('if the store is a copy, the processes of the original are left alone', async () => {
  const kill = vi.spyOn(process, 'kill');
  const copy = join(folder, 'copy');
  mkdirSync(copy);
  for (const name of readdirSync(folder))
    if (name.startsWith('events.db')) copyFileSync(join(folder, name), join(copy, name));
  for (const beside of ['', '-id']) {
    ownership = await own(join(copy, 'events.db'), {});
    expect(await ownership.store.processes.list(), beside).toEqual([]);
    ownership.release();
    copyFileSync(join(folder, 'events.db'), join(copy, 'events.db'));
    rmSync(join(copy, 'events.db-id'));
  }
  ownership = undefined;
  expect(kill).not.toHaveBeenCalled();
});

test('a missing store is not replaced by an empty one', async () => {
  const path = join(folder, 'events.db');
  for (const name of readdirSync(folder)) if (!name.endsWith('-id')) rmSync(join(folder, name));
  await expect(take()).rejects.toThrow(`${path} is gone or empty`);
  rmSync(`${path}-id`);
  ownership = await take();
});

test('a process that ends by itself at the same moment does not prevent the start', async () => {
  const { pid: ended } = spawnSync('true');
  const kill = process.kill.bind(process);
  vi.spyOn(process, 'kill').mockImplementation((_, signal) => kill(ended, signal));
  ownership = await take();
  expect(await ownership.store.processes.list()).toEqual([]);
});

onLinux('a process that must not be killed, because it belongs to another user, is named', async () => {
  vi.spyOn(process, 'kill').mockImplementation(() => {
    throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' });
  });
  await expect(take()).rejects.toThrow(`process ${left.pid} of another user`);
});

onLinux(
  'E13: the WAL that an older owner left is copied into the file and synced before anything is accepted',
  async () => {
    const path = join(folder, 'events.db');
    const earlier = openSqlite(path, { synchronous: 'NORMAL' });
    await earlier.state.note({ accepted: 1 });
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
    // While a reader is open, the WAL cannot be copied into the file, so the start waits.
    const reader = new Database(path);
    reader.exec('begin');
    reader.prepare('select count(*) from counters').get();
    await earlier.state.note({ accepted: 1 });
    let owned = false;
    const taking = take().then((taken) => {
      owned = true;
      return taken;
    });
    await expect.poll(() => existsSync(`${path}-owner`)).toBe(true);
    await expect.poll(() => left.signalCode).toBe('SIGKILL');
    expect(owned).toBe(false);
    reader.exec('commit');
    reader.close();
    ownership = await taking;
    // Copies the file without its WAL, as a power loss would leave it.
    const alone = join(folder, 'alone.db');
    copyFileSync(path, alone);
    const db = new Database(alone, { readonly: true });
    expect(db.prepare(`select value from counters where name = 'accepted'`).pluck().get()).toBe(2);
    db.close();
    earlier.close();
  },
);
