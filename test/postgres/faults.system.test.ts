// The server and the network fail: every acknowledged event is stored once and handled once.
import { afterEach, expect, test } from 'vitest';
import { deliver, makeEvent, until, type Kit } from '../system/kit.ts';
import { createCluster, send, type Cluster } from './members.ts';
import { createProxy, type Proxy } from './proxy.ts';
import { hasServer, startServer, urlOf, type Server } from './server.ts';

let cluster: Cluster | undefined;
let proxy: Proxy | undefined;
let server: Server | undefined;
afterEach(async () => {
  proxy?.pass();
  await cluster?.remove();
  proxy?.close();
  await server?.stop();
  [cluster, proxy, server] = [undefined, undefined, undefined];
});

async function readyOf(kit: Kit): Promise<number> {
  return (await fetch(`http://127.0.0.1:${kit.port}/readyz`)).status;
}

async function doneIn(of: Cluster): Promise<number> {
  const [row] = await of.rows<{ value: string }>(`select value from kit.counters where name = 'tasks.done'`);
  return Number(row?.value ?? 0);
}

async function expectStoredAndHandledOnce(of: Cluster, acknowledged: Set<number>): Promise<void> {
  await until(async () => (await doneIn(of)) === acknowledged.size);
  const events = await of.rows<{ cursor: string }>('select cursor from kit.events order by cursor');
  expect(events.map(({ cursor }) => Number(cursor))).toEqual([...acknowledged].toSorted((a, b) => a - b));
  const ended = of.ran().filter(({ what }) => what === 'end');
  expect(new Set(ended.map(({ cursor }) => cursor))).toEqual(acknowledged);
  expect(ended.length).toBe(acknowledged.size);
}

test.runIf(hasServer())(
  'a server that is killed and restarted under load costs no delivery a non-2xx answer',
  async () => {
    server = await startServer(['fsync=on', 'full_page_writes=on']);
    cluster = await createCluster(`${server.url}?schema=kit`);
    const kits = [await cluster.add(), await cluster.add()];
    const load = send(kits, 100);
    for (let kills = 1; kills <= 3; kills++) {
      await until(() => load.acknowledged.size > 150 * kills);
      await server.end('SIGKILL');
      await server.start();
    }
    await until(() => load.acknowledged.size > 700);
    await load.stop();
    expect(load.answers.filter(({ status }) => status !== 204)).toEqual([]);
    expect(Math.max(...load.answers.map(({ ms }) => ms))).toBeLessThan(8_000);
    await expectStoredAndHandledOnce(cluster, load.acknowledged);
  },
);

test('an instance whose connection is cut says so, and loses nothing', async () => {
  const url = urlOf(String(Math.random()));
  proxy = await createProxy(url);
  cluster = await createCluster(url);
  const near = await cluster.add();
  const far = await cluster.add({}, proxy.url);
  const load = send([near, far], 100);
  await until(() => load.acknowledged.size > 100);
  proxy.cut();
  const cutAt = performance.now();
  await until(async () => (await readyOf(far)) === 503);
  expect(performance.now() - cutAt).toBeLessThan(2_500);
  await until(() => load.acknowledged.size > 300);
  proxy.pass();
  await until(async () => (await readyOf(far)) === 200, 10_000);
  await load.stop();
  expect(load.answers.filter(({ status, port }) => status !== 204 && port === near.port)).toEqual([]);
  await expectStoredAndHandledOnce(cluster, load.acknowledged);
});

test('deliveries to an instance whose connection is cut wait, and get 503 after 8 s', async () => {
  const url = urlOf(String(Math.random()));
  proxy = await createProxy(url);
  cluster = await createCluster(url);
  await cluster.add();
  const far = await cluster.add({}, proxy.url);
  const answered = async (n: number) => {
    const at = performance.now();
    const status = await deliver(far, makeEvent(n));
    return { status, ms: performance.now() - at };
  };
  proxy.cut();
  const late = await answered(1);
  expect(late.status).toBe(503);
  expect(late.ms).toBeGreaterThan(7_500);
  expect(late.ms).toBeLessThan(9_500);
  const waiting = answered(2);
  await until(async () => (await readyOf(far)) === 503);
  proxy.pass();
  expect((await waiting).status).toBe(204);
  await expectStoredAndHandledOnce(cluster, new Set([1_002]));
});

test('if the network of the leader falls silent, another instance leads, and nothing is lost', async () => {
  const url = urlOf(String(Math.random()));
  proxy = await createProxy(url);
  cluster = await createCluster(url);
  const far = await cluster.add({}, proxy.url);
  const near = await cluster.add();
  const of = cluster;
  const load = send([near], 100);
  await until(() => load.acknowledged.size > 100);
  expect(await of.leader()).toBe(far);
  proxy.silence();
  await until(async () => (await of.leader()) === near, 10_000);
  await until(async () => (await doneIn(of)) > 200);
  proxy.cut();
  proxy.pass();
  await until(() => far.output().includes('another instance leads now'), 20_000);
  await until(async () => (await readyOf(far)) === 200, 20_000);
  await load.stop();
  await until(async () => (await doneIn(of)) === load.acknowledged.size);
  const events = await of.rows<{ cursor: string }>('select cursor from kit.events order by cursor');
  expect(events.map(({ cursor }) => Number(cursor))).toEqual([...load.acknowledged].toSorted((a, b) => a - b));
});

test('with a slow network, deliveries share commits', async () => {
  const url = urlOf(String(Math.random()));
  proxy = await createProxy(url);
  proxy.delay(4);
  cluster = await createCluster(url);
  const kit = await cluster.add({}, proxy.url);
  const load = send([kit], 500);
  await until(() => load.acknowledged.size > 1_000);
  await load.stop();
  expect(load.answers.filter(({ status }) => status !== 204)).toEqual([]);
  await expectStoredAndHandledOnce(cluster, load.acknowledged);
});

test.each(['cut', 'silence'] as const)(
  'an instance ends in time although its server cannot be reached (%s)',
  async (how) => {
    const url = urlOf(String(Math.random()));
    proxy = await createProxy(url);
    cluster = await createCluster(url);
    const kit = await cluster.add({}, proxy.url);
    proxy[how]();
    const began = performance.now();
    expect(await kit.stop()).toBe(0);
    expect(performance.now() - began).toBeLessThan(10_000);
  },
);

test('if the network falls silent, an instance raises an alarm within 5 s', async () => {
  const url = urlOf(String(Math.random()));
  proxy = await createProxy(url);
  cluster = await createCluster(url);
  const kit = await cluster.add({}, proxy.url);
  const load = send([kit], 20);
  await until(() => load.acknowledged.size > 20);
  proxy.silence();
  await until(() => kit.output().includes('"alarm":"store_unwritable"'), 5_000);
  proxy.cut();
  proxy.pass();
  await load.stop();
});
