// E12: the store's file is replaced or deleted while the kit runs. The kit must not take over the new file or restart
// its processes. `npx kit restore` brings back all acknowledged events.
import { execFile } from 'node:child_process';
import { copyFileSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { createKit, deliver, load, makeEvent, RECORD, until, type Kit } from './kit.ts';

const run = promisify(execFile);
let kit: Kit;
afterEach(() => kit.remove());

const pathOf = (): string => join(kit.folder, 'events.db');

async function cli(...args: string[]): Promise<{ code: number; text: string }> {
  const env = { PATH: process.env['PATH'], DATABASE_URL: `sqlite:${pathOf()}` };
  try {
    const { stdout, stderr } = await run(process.execPath, ['src/cli/kit.js', ...args], { env });
    return { code: 0, text: stdout + stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, text: stdout + stderr };
  }
}

function lives(pid: number): boolean {
  try {
    // A zombie process counts as ended.
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);

async function ready(): Promise<{ status: number; text: string }> {
  const response = await fetch(`http://127.0.0.1:${kit.port}/readyz`);
  return { status: response.status, text: await response.text() };
}

test.each(['at work', 'stopped by SIGSTOP'])(
  'E12: a backup that replaces the store ends run and keep (%s), is not written to, and deliveries get 503; restore brings everything back',
  async (how) => {
    kit = await createKit({ record: RECORD });
    await kit.start();
    const pids = [await kit.alive('run'), await kit.alive('keep')];
    expect(await deliver(kit, makeEvent(1))).toBe(204);
    const backup = join(kit.folder, 'backup.db');
    expect(await cli('backup', backup)).toMatchObject({ code: 0 });
    const running = load(kit, 100);
    await until(() => running.acknowledged.size > 100);
    if (how !== 'at work') for (const pid of pids) process.kill(pid, 'SIGSTOP');
    renameSync(backup, pathOf());
    const bytes = readFileSync(pathOf());

    await until(() => kit.output().includes('npx kit restore'));
    await until(() => pids.every((pid) => !lives(pid)));
    expect(await deliver(kit, makeEvent(1_000_000))).toBe(503);
    await running.stop();
    expect(await ready()).toEqual({ status: 503, text: expect.stringContaining('npx kit restore') });
    // SIGHUP does not restart `run` and `keep` either.
    kit.signal('SIGHUP');
    await until(() => kit.output().includes('SIGHUP'));
    expect(childrenOf(kit.main() ?? 0).filter(lives)).toEqual([]);
    expect((await cli('restore', pathOf())).text).toContain(`served by process ${kit.main()}`);
    expect((await cli('status')).text).toContain('npx kit restore');

    await until(() => kit.output().includes('"copy"'));
    expect(await kit.stop()).toBe(0);
    expect(readFileSync(pathOf()).equals(bytes)).toBe(true);
    await expect(kit.start()).rejects.toThrow('npx kit restore');
    expect(await kit.exited()).toBe(78);

    const [copy = ''] = readdirSync(kit.folder).filter((name) => /\.replaced-[^.]*Z$/.test(name));
    expect(await cli('restore', join(kit.folder, copy))).toMatchObject({ code: 0 });
    await kit.start();
    expect(await deliver(kit, makeEvent(1_000_001))).toBe(204);
    const ids = new Set(kit.query<{ id: string }>('select id from events').map(({ id }) => id));
    expect([...running.acknowledged].filter((id) => !ids.has(id))).toEqual([]);
    expect(kit.query('pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
    await until(() => kit.query<{ n: number }>('select count(*) as n from seen')[0]?.n === ids.size);
  },
);

test('E12: a deleted store is detected without a delivery, and its copy survives a kill of the kit', async () => {
  kit = await createKit({});
  await kit.start();
  expect(await deliver(kit, makeEvent(1))).toBe(204);
  rmSync(pathOf());
  await until(() => kit.output().includes('"copy"'));
  kit.signal('SIGKILL');
  await kit.exited();
  const [copy = ''] = readdirSync(kit.folder).filter((name) => /\.replaced-[^.]*Z$/.test(name));
  await expect(kit.start()).rejects.toThrow('npx kit restore');
  expect(await cli('restore', join(kit.folder, copy))).toMatchObject({ code: 0 });
  await kit.start();
  expect(kit.query('select id from events')).toEqual([{ id: 'evt_1' }]);
});

test('E12: a backup that is copied over the store of a running kit is detected, nothing more is acknowledged, and restore repairs it', async () => {
  kit = await createKit({ record: RECORD });
  await kit.start();
  expect(await deliver(kit, makeEvent(1))).toBe(204);
  const backup = join(kit.folder, 'backup.db');
  expect(await cli('backup', backup)).toMatchObject({ code: 0 });
  const running = load(kit, 100);
  await until(() => running.acknowledged.size > 100);
  copyFileSync(backup, pathOf());
  await until(() => kit.output().includes('npx kit restore'));
  expect(await deliver(kit, makeEvent(1_000_000))).toBe(503);
  await running.stop();
  expect((await ready()).text).toContain('npx kit restore');
  await until(() => childrenOf(kit.main() ?? 0).length === 0);
  expect(await kit.stop()).toBe(0);
  await expect(kit.start()).rejects.toThrow('npx kit restore');
  await kit.exited();
  expect(await cli('restore', backup)).toMatchObject({ code: 0 });
  await kit.start();
  expect(await deliver(kit, makeEvent(1_000_001))).toBe(204);
  expect(kit.query('pragma integrity_check')).toEqual([{ integrity_check: 'ok' }]);
});
