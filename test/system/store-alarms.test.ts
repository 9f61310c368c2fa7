// Alarms about the store, with a kit of real processes. While nothing can be written, the alarms are raised from
// memory. `status`, the API, the metrics and the page show these alarms. Afterwards the alarms are cleared.
import { execFile } from 'node:child_process';
import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listenForAlerts, type AlertEndpoint } from '../alarms/alert-endpoint.ts';
import { Lacking } from '../prove/faults/scene.ts';
import { lockOf, smallDisk, type Disk } from '../prove/faults/tools.ts';
import { createKit, deliver, makeEvent, RECORD, until, type Kit } from './kit.ts';

const run = promisify(execFile);
let posts: string[];
let endpoint: AlertEndpoint;
let kit: Kit;
let end: (() => Promise<void>)[];

beforeEach(async () => {
  endpoint = await listenForAlerts();
  posts = endpoint.posts;
  end = [async () => endpoint.close()];
});
afterEach(async () => {
  for (const step of end.toReversed()) await step();
});

async function startKit(handlers: Record<string, string>, env: Record<string, string> = {}): Promise<void> {
  kit = await createKit(handlers, { ALERT_URL: endpoint.url, ...env });
  end.push(() => kit.remove());
  await kit.start();
  // A test may lock the store, and then no sign of life can be written.
  await kit.alive('keep');
  await eventually(async () => (await status()).processes?.['keep'] === 'up');
}

interface Shown {
  alarms: { name: string; detail: string }[];
  processes: Record<string, string>;
}
const names = ({ alarms }: Partial<Shown>): string[] => (alarms ?? []).map(({ name }) => name);

async function ops(path: string): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${kit.opsPort}${path}`);
  return response.text();
}

async function status(): Promise<Partial<Shown>> {
  try {
    return JSON.parse(await ops('/api/status')) as Shown;
  } catch {
    return {};
  }
}

async function cli(...args: string[]): Promise<string> {
  const env = {
    PATH: process.env['PATH'],
    DATABASE_URL: `sqlite:${kit.folder}/events.db`,
    PORT: String(kit.port),
    OPS_PORT: String(kit.opsPort),
  };
  return (await run(process.execPath, ['src/cli/kit.js', ...args], { env })).stdout;
}

async function eventually(holds: () => Promise<boolean>): Promise<void> {
  await expect.poll(holds, { timeout: 30_000 }).toBe(true);
}

/** Skips the test with a reason if no disk can be mounted here. */
function diskOr(skip: (reason: string) => never): Disk {
  try {
    return smallDisk(24);
  } catch (error) {
    if (error instanceof Lacking) skip(error.message);
    throw error;
  }
}

const told = (name: string): string[] => posts.filter((text) => text.startsWith(`${name}: `));
const UP = { receive: 'up', run: 'up', keep: 'up' };

test('E40: an idle kit raises an alarm while its store is locked, shows it everywhere, and keeps its ops port when keep restarts', async () => {
  await startKit({ record: RECORD });
  const release = lockOf(join(kit.folder, 'events.db'));
  await until(() => told('store_unwritable').length > 0);
  expect(told('store_unwritable')[0]).toMatch(new RegExp(`locked.*process ${process.pid}`));
  const at = `http://127.0.0.1:${kit.opsPort}`;
  const fields = { gravity: 'critical', page: `${at}/`, runbook: `${at}/runbook#store_unwritable` };
  expect(endpoint.bodies[0]).toMatchObject({ name: 'store_unwritable', instance: hostname(), ...fields });
  await eventually(async () => names(await status()).includes('store_unwritable'));
  // Waits until the heartbeats in the store are too old to show that a process is alive.
  await eventually(
    async () =>
      (kit.query<{ old: number }>(`select ${Date.now()} - max(beat_at) as old from processes`)[0]?.old ?? 0) > 6_000,
  );
  expect(await status()).toMatchObject({ processes: UP });
  expect(JSON.parse(await cli('status', '--json'))).toMatchObject({
    processes: UP,
    alarms: [{ name: 'store_unwritable' }],
  });
  expect(await cli('status')).toMatch(/receive up, run up, keep up[\s\S]*store_unwritable/);
  expect(await ops('/metrics')).toContain('kit_alarm{name="store_unwritable"} 1');
  const page = await ops('/');
  expect(page).toContain('The store cannot be written');
  expect(page).not.toMatch(/is down|does not run/);

  const before = kit.output().length;
  process.kill(await kit.alive('keep'), 'SIGKILL');
  await until(() => kit.output().slice(before).includes('keep died'));
  await eventually(async () => {
    const shown = await status();
    return names(shown).includes('store_unwritable') && shown.processes?.['keep'] === 'up';
  });
  release();
  await until(() => told('store_unwritable').length > 1);
  expect(told('store_unwritable').slice(1)).toEqual(['store_unwritable: all clear']);
  await eventually(async () => names(await status()).length === 0);
  expect(posts.filter((text) => !text.startsWith('store_unwritable'))).toEqual([]);
  expect(await deliver(kit, makeEvent(1))).toBe(204);
});

test('E40: a full disk raises store_unwritable with its remedy, and keep still raises disk_low', async ({ skip }) => {
  const disk = diskOr((reason) => skip(reason));
  end.push(async () => disk.remove());
  await startKit({ record: RECORD }, { DATABASE_URL: `sqlite:${disk.folder}/events.db` });
  const ballast = join(disk.folder, 'ballast');
  const { bavail, bsize } = statfsSync(disk.folder);
  writeFileSync(ballast, Buffer.alloc(bavail * bsize));
  // SQLite's WAL still has room for small events, so this event is large.
  const large = deliver(kit, { ...makeEvent(1), body: 'x'.repeat(2_000_000) });
  await until(() => told('store_unwritable').length > 0);
  expect(told('store_unwritable')[0]).toMatch(/SQLITE_FULL.*df -h/);
  await until(() => told('disk_low').some((text) => text.includes('nothing is left')));
  expect(await status()).toMatchObject({ processes: UP });
  expect(await large).toBe(503);
  rmSync(ballast);
  await until(() => told('store_unwritable').includes('store_unwritable: all clear'));
});

const EXITS = `
import { defineHandler } from '#kit';
export default defineHandler({
  on: 'MessageReceived',
  retry: { attempts: 20, firstMs: 10, maxMs: 50 },
  handle() { process.exit(7); },
});
`;

test('E42: the alarm and the log name a task that ended its process, by handler, key and exit code', async () => {
  await startKit({ deadly: EXITS });
  expect(await deliver(kit, makeEvent(5))).toBe(204);
  await until(() => told('run_crashing').length > 0);
  expect(told('run_crashing')[0]).toMatch(/deadly.*c:1005.*exit code 7/);
  const lines = kit
    .output()
    .split('\n')
    .filter((line) => line.includes('the process of this task died'));
  expect(lines[0]).toMatch(/"how":"exit code 7 at .*deadly\.ts:\d+".*"handler":"deadly","key":"c:1005","attempt":1/);
});

test('HEARTBEAT_URL is pinged as soon as the kit works, and a reload takes another address', async () => {
  const pings: (string | undefined)[] = [];
  const beats = createServer((req, res) => {
    pings.push(`${req.method} ${req.url}`);
    res.end();
  });
  await new Promise<void>((done) => beats.listen(0, '127.0.0.1', done));
  end.push(async () => void beats.close());
  const at = `http://127.0.0.1:${(beats.address() as AddressInfo).port}`;
  kit = await createKit({ record: RECORD }, { HEARTBEAT_URL_FILE: 'beats' });
  end.push(() => kit.remove());
  const setUrl = (url: string): void => writeFileSync(join(kit.folder, 'beats'), url, { mode: 0o600 });
  setUrl(`${at}/first`);
  await kit.start();
  await until(() => pings.length > 0);
  setUrl(`${at}/second`);
  await kit.reload();
  await until(() => pings.length > 1);
  expect(pings).toEqual(['GET /first', 'GET /second']);
});
