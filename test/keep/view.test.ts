// What people see while the store cannot be read or written, and while `keep` starts in that state.
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { createAccounts } from '../../src/keep/account.ts';
import { createAlarms } from '../../src/alarms/alarms.ts';
import { RULES } from '../../src/alarms/rules/index.ts';
import { createView } from '../../src/keep/view.ts';
import { createOpsServer } from '../../src/ops/server.ts';
import type { Account } from '../../src/processes/channel.ts';
import { openLater } from '../../src/store/sqlite/open-later.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { StoreError } from '../../src/store/store.ts';
import { COMPOSE, listenForAlerts } from '../alarms/alert-endpoint.ts';
import { createClock, createStoreFile, createTestLog } from '../store-file.ts';

const ACCOUNT: Account = {
  processes: { receive: 'up', run: 'down', keep: 'up' },
  alarms: [{ name: 'store_unwritable', since: '2026-01-01T00:00:00.000Z', detail: 'nothing can be written: df -h' }],
  failureRun: 4,
  causes: { store: 4 },
};

async function setUp() {
  const file = createStoreFile();
  const clock = createClock();
  const { log } = createTestLog();
  const { url: alertUrl, posts, close } = await listenForAlerts();
  let reachable = false;
  let opens = 0;
  const store = openLater(file.path, () => {
    opens++;
    ifReachable();
    const opened = openSqlite(file.path, { busyMs: 0 });
    return {
      ...opened,
      read: {
        ...opened.read,
        status: async (now) => (ifReachable(), opened.read.status(now)),
        counters: async () => (ifReachable(), opened.read.counters()),
      },
    };
  });
  function ifReachable(): void {
    if (!reachable) throw new StoreError('busy', 'locked by another process');
  }
  const accounts = createAccounts(clock);
  const free = { bytes: 0 };
  const alarms = createAlarms({ store, clock, log, alertUrl, compose: COMPOSE, freeBytes: () => free.bytes, accounts });
  const view = createView({ store: store.read, account: () => accounts.latest(), up: () => alarms.up() });
  const none = { OPS_TOKEN: undefined, OPS_READ_TOKEN: undefined, OPS_ORIGIN: undefined };
  const config = { ...none, RETENTION_DAYS: 30, RUN_CONCURRENCY: 32 };
  const disk = async () => ({ storeBytes: 1, logBytes: 1, freeBytes: 1 });
  const server = createOpsServer({ config, store, view, rules: RULES, clock, log, disk, onChange: () => {} });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
    close();
    store.close();
    file.remove();
  });
  const { port } = server.address() as AddressInfo;
  const get = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  return {
    ...file,
    clock,
    posts,
    free,
    accounts,
    alarms,
    get,
    opens: () => opens,
    reach: (now: boolean) => void (reachable = now),
    turn: async () => {
      clock.time += 2_000;
      await alarms.step();
      await alarms.notify();
    },
  };
}

test('E40: if keep starts while the store cannot be opened, it shows the account, and notifies of each alarm once', async () => {
  const { accounts, turn, posts, get, reach, free, opens, query } = await setUp();
  for (let n = 0; n < 3; n++) {
    accounts.take(ACCOUNT);
    await turn();
  }
  expect(posts).toEqual([
    expect.stringMatching(/^failure_run: 4 .*df -h/),
    expect.stringMatching(/^disk_low: nothing is left/),
  ]);
  const status = JSON.parse(await get('/api/status')) as { alarms: { name: string }[]; processes: object };
  expect(status.processes).toEqual(ACCOUNT.processes);
  expect(status.alarms.map(({ name }) => name)).toEqual(['store_unwritable', 'failure_run', 'disk_low']);
  const page = await get('/');
  expect(page).toContain('The store cannot be written');
  expect(page).toContain('disk_low');
  expect(await get('/metrics')).toContain('kit_alarm{name="disk_low"} 1');
  expect(await get('/readyz')).toContain('cannot be committed');
  expect(await get('/events')).toContain('locked by another process');

  const before = opens();
  reach(true);
  free.bytes = 1e12;
  const opened = async (): Promise<number> => {
    const processes = { ...ACCOUNT.processes, run: 'up' as const };
    accounts.take({ ...ACCOUNT, processes, alarms: [], failureRun: 0, causes: {} });
    await turn();
    return opens();
  };
  await expect.poll(opened).toBe(before + 1);
  const cleared = async (): Promise<string[]> => {
    await opened();
    return posts.slice(2).toSorted();
  };
  await expect.poll(cleared).toEqual(['disk_low: all clear', 'failure_run: all clear']);
  await expect.poll(async () => (await opened(), query('select * from alarms'))).toEqual([]);
});

test('E40: while the store cannot be read, the values read last are shown', async () => {
  const { accounts, store, turn, get, reach, free } = await setUp();
  reach(true);
  free.bytes = 1e12;
  await store.state.note({ conflicts: 1, accepted: 7 });
  accounts.take({ ...ACCOUNT, alarms: [], failureRun: 0, causes: {} });
  await turn();
  await store.state.note({ conflicts: 1 });
  await turn();
  expect(await get('/metrics')).toContain('kit_accepted_total 7');
  reach(false);
  await turn();
  expect(await get('/metrics')).toMatch(/kit_accepted_total 7[^]*kit_alarm\{name="conflict"\} 1/);
  expect(await get('/api/status')).toContain('"name":"conflict"');
});

test('E41: a failure run that began and ended between two looks is notified with its full length', async () => {
  const { accounts, turn, posts, reach, free } = await setUp();
  reach(true);
  free.bytes = 1e12;
  const say = (failureRun: number): void => accounts.take({ ...ACCOUNT, alarms: [], failureRun, causes: {} });
  say(0);
  await turn();
  for (const run of [3, 10, 13, 15, 0]) say(run);
  await turn();
  expect(posts).toEqual([expect.stringMatching(/^failure_run: 15 .*has switched the webhook off: enable it/)]);
  await turn();
  await turn();
  expect(posts.slice(1)).toEqual(['failure_run: all clear']);
});

test('E40: a main process that sends no more accounts is shown as down, and keep, which answers, as up', async () => {
  const { accounts, clock, get, reach } = await setUp();
  reach(true);
  const processes = async () => (JSON.parse(await get('/api/status')) as { processes: object }).processes;
  expect(await processes()).toMatchObject({ receive: 'up', keep: 'up' });
  accounts.take({ ...ACCOUNT, alarms: [] });
  expect(await processes()).toEqual({ receive: 'up', run: 'down', keep: 'up' });
  clock.time += 10_000;
  expect(await processes()).toEqual({ receive: 'down', run: 'down', keep: 'up' });
});
