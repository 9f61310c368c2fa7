// Several instances on one store: every delivery is handled once and in order, whatever happens to an instance.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { deliver, makeEvent, type Kit } from '../system/kit.ts';
import { createCluster, familyOf, send, signalAll, until, type Cluster, type Ran } from './members.ts';

let cluster: Cluster;
beforeEach(async () => {
  cluster = await createCluster();
});
afterEach(() => cluster.remove());

const ends = (): Ran[] => cluster.ran().filter(({ what }) => what === 'end');
const done = async (): Promise<number> => {
  const [row] = await cluster.rows<{ value: string }>(`select value from kit.counters where name = 'tasks.done'`);
  return Number(row?.value ?? 0);
};

/** Every acknowledged event was handled, in order. Only what was at work in the instance `gone` ran again. */
function expectHandled(acknowledged: Set<number>, gone?: Kit): void {
  const ended = ends();
  const last = new Map(ended.map((one, at) => [one.cursor, at]));
  expect([...acknowledged].filter((cursor) => !last.has(cursor))).toEqual([]);
  const begun = cluster.ran().filter(({ what }) => what === 'begin');
  const again = [...Map.groupBy(begun, ({ cursor }) => cursor).values()].filter((attempts) => attempts.length > 1);
  expect(again.filter(([first, ...more]) => first?.instance !== gone?.main() || more.length > 1)).toEqual([]);
  const final = ended.filter((one, at) => last.get(one.cursor) === at);
  for (const lane of Map.groupBy(final, (one) => one.lane).values()) {
    const cursors = lane.map(({ cursor }) => cursor);
    expect(cursors).toEqual(cursors.toSorted((a, b) => a - b));
  }
}

async function expectStoredOnce(acknowledged: Set<number>): Promise<void> {
  const rows = await cluster.rows<{ cursor: string }>('select cursor from kit.events');
  expect(rows.map(({ cursor }) => Number(cursor)).toSorted((a, b) => a - b)).toEqual(
    [...acknowledged].toSorted((a, b) => a - b),
  );
}

test('all instances accept, and the one that leads handles everything once and in order', async () => {
  const kits = [await cluster.add(), await cluster.add()];
  const load = send(kits, 200);
  await until(() => load.acknowledged.size >= 400);
  await load.stop();
  await until(async () => (await done()) === load.acknowledged.size);
  expect(load.answers.filter(({ status }) => status !== 204)).toEqual([]);
  expectHandled(load.acknowledged);
  await expectStoredOnce(load.acknowledged);
  const leader = await cluster.leader();
  expect(new Set(ends().map(({ instance }) => instance))).toEqual(new Set([leader?.main()]));
});

test('if the leader is killed, another instance takes over: nothing is lost, and only what was at work runs again', async () => {
  const kits = [await cluster.add({ HANDLER_MS: '5' }), await cluster.add({ HANDLER_MS: '5' })];
  const leader = (await cluster.leader()) as Kit;
  const load = send(kits, 100);
  await until(() => ends().length >= 100);
  const killedAt = performance.now();
  signalAll(familyOf(leader), 'SIGKILL');
  await until(() => ends().some(({ instance }) => instance !== leader.main()), 10_000);
  expect(performance.now() - killedAt).toBeLessThan(6_000);
  await load.stop();
  await until(async () => (await done()) === load.acknowledged.size);
  expectHandled(load.acknowledged, leader);
  await expectStoredOnce(load.acknowledged);
  const instances = await cluster.rows<{ name: string; lost: boolean }>(
    'select name, lost_at is not null as lost from kit.instances',
  );
  expect(instances.filter(({ lost }) => lost).map(({ name }) => name.split(':')[1])).toEqual([String(leader.main())]);
});

test('if an instance that stands by is killed, what the leader has at work goes on and runs once', async () => {
  const kits = [await cluster.add(), await cluster.add()];
  const leader = (await cluster.leader()) as Kit;
  const other = kits.find((kit) => kit !== leader) as Kit;
  expect(await deliver(leader, { ...makeEvent(1), body: 'slow 6000' })).toBe(204);
  await until(() => cluster.ran().length === 1);
  signalAll(familyOf(other), 'SIGKILL');
  await until(() => leader.output().includes('is lost'), 10_000);
  expect(ends()).toEqual([]);
  await until(async () => (await done()) === 1);
  expect(cluster.ran().map(({ what }) => what)).toEqual(['begin', 'end']);
});

test('SIGTERM hands over at once, and nothing runs twice: idle lanes go on while the old leader ends what is at work', async () => {
  const kits = [await cluster.add({ HANDLER_MS: '50' }), await cluster.add({ HANDLER_MS: '50' })];
  const leader = (await cluster.leader()) as Kit;
  const other = kits.find((kit) => kit !== leader) as Kit;
  const load = send([other], 50);
  await until(() => ends().length >= 20);
  leader.signal('SIGTERM');
  await until(() => ends().some(({ instance }) => instance === other.main()), 5_000);
  expect(await leader.exited()).toBe(0);
  await load.stop();
  await until(async () => (await done()) === load.acknowledged.size);
  expect(load.answers.filter(({ status }) => status !== 204)).toEqual([]);
  expectHandled(load.acknowledged);
  expect(await cluster.rows('select 1 from kit.instances where lost_at is not null')).toEqual([]);
});

test('an instance that was stopped past its time writes nothing more, and comes back as a new one that stands by', async () => {
  const kits = [await cluster.add({ HANDLER_MS: '20' }), await cluster.add({ HANDLER_MS: '20' })];
  const leader = (await cluster.leader()) as Kit;
  const other = kits.find((kit) => kit !== leader) as Kit;
  const load = send([other], 100);
  await until(() => ends().length >= 50);
  const family = familyOf(leader);
  signalAll(family, 'SIGSTOP');
  await until(async () => (await cluster.leader()) === other, 10_000);
  await until(() => ends().some(({ instance }) => instance === other.main()), 10_000);
  signalAll(family, 'SIGCONT');
  await until(() => leader.output().includes('another instance leads now'), 10_000);
  await until(async () => (await cluster.rows('select 1 from kit.instances where lost_at is null')).length === 2);
  await load.stop();
  await until(async () => (await done()) === load.acknowledged.size);
  // Its attempts that were at work may have gone on for a moment, so only the rows of the store are compared.
  await expectStoredOnce(load.acknowledged);
  const events = await cluster.rows<{ n: string }>(
    `select count(*) as n from kit.tasks where state = 'done' group by event having count(*) > 1`,
  );
  expect(events).toEqual([]);
  const again = send([leader], 50);
  await until(() => again.acknowledged.size >= 20);
  await again.stop();
});
