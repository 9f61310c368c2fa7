// Taking over from an owner that died, and whose processes may be there still, or just going.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { own, type Ownership } from '../src/owner.ts';
import { startOf } from '../src/process.ts';

let folder: string;
let left: ChildProcess;
let ownership: Ownership | undefined;

const take = (): Promise<Ownership> => own(join(folder, 'events.db'), { retentionMs: 86_400_000 });

/** A process that an owner before this one has started, and not ended. */
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'kit-owner-'));
  left = spawn('sleep', ['60']);
  await once(left, 'spawn');
  const { pid = 0 } = left;
  const earlier = await take();
  await earlier.store.beat({ role: 'run', pid, started: startOf(pid), boot: 1 }, Date.now());
  earlier.release();
});

afterEach(() => {
  vi.restoreAllMocks();
  left.kill('SIGKILL');
  ownership?.release();
  ownership = undefined;
  rmSync(folder, { recursive: true });
});

test('what an older owner left running is ended', async () => {
  const gone = once(left, 'exit');
  ownership = await take();
  expect(await gone).toEqual([null, 'SIGKILL']);
  expect(await ownership.store.processes()).toEqual([]);
});

test('what ends by itself at that very moment is no reason not to start', async () => {
  const { pid: ended } = spawnSync('true');
  const kill = process.kill.bind(process);
  vi.spyOn(process, 'kill').mockImplementation((_, signal) => kill(ended, signal));
  ownership = await take();
  expect(await ownership.store.processes()).toEqual([]);
});

test('what may not be ended is named', async () => {
  vi.spyOn(process, 'kill').mockImplementation(() => {
    throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' });
  });
  await expect(take()).rejects.toThrow(`process ${left.pid} of another user`);
});
