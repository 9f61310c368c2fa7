// Several instances on one store: every delivery is handled once and in order, whatever happens to an instance.
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { promisify } from 'node:util';
import { deliver, makeEvent, SECRET, until, type Kit, type TestEvent } from '../system/kit.ts';
import {
  childOf,
  COMPLETING,
  NOTING,
  createCluster,
  familyOf,
  send,
  signalAll,
  type Cluster,
  type Ran,
} from './members.ts';
import { createProxy } from './proxy.ts';
import { urlOf } from './server.ts';

const HOUR_MS = 3_600_000;

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

const other = async (kits: Kit[], than: Kit): Promise<boolean> => {
  const leader = await cluster.leader();
  return leader !== undefined && leader !== than && kits.includes(leader);
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

test('npx kit reload reloads every instance on this machine', async () => {
  const kits = [];
  for (let n = 0; n < 2; n++) {
    const kit = await cluster.make({ WEBHOOK_SECRET: '', WEBHOOK_SECRET_FILE: 'secret' });
    writeFileSync(join(kit.folder, 'secret'), SECRET);
    await kit.start();
    kits.push(kit);
  }
  const secret = 'whsec_of_the_time_after_the_reload';
  for (const kit of kits) writeFileSync(join(kit.folder, 'secret'), secret);
  const env = { PATH: process.env['PATH'], DATABASE_URL: cluster.url, PORT: '1' };
  const { stdout } = await promisify(execFile)(process.execPath, ['src/cli/kit.js', 'reload'], { env });
  expect(stdout.match(/^process \d+:\nreloaded \d+ handlers? in \d+ ms$/gm)).toHaveLength(2);
  for (const [n, kit] of kits.entries()) expect(await deliver(kit, makeEvent(n), [secret])).toBe(204);
});

test('an instance whose start fails is not reported as lost', async () => {
  const kit = await cluster.add();
  await expect(cluster.add({ PORT: String(kit.port) })).rejects.toThrow();
  expect(await cluster.rows('select name, lost_at from kit.instances')).toEqual([
    { name: expect.stringContaining(`:${kit.main()}`), lost_at: null },
  ]);
});

test('if the leader is killed, another instance takes over: nothing is lost, and only what was at work runs again', async () => {
  const kits = [await cluster.add({ HANDLER_MS: '5' }), await cluster.add({ HANDLER_MS: '5' })];
  const leader = (await cluster.leader()) as Kit;
  const load = send(kits, 100);
  await until(() => ends().length >= 100);
  const killedAt = performance.now();
  signalAll(familyOf(leader), 'SIGKILL');
  await until(() => other(kits, leader));
  expect(performance.now() - killedAt).toBeLessThan(5_000);
  await until(() => ends().some(({ instance }) => instance !== leader.main()));
  await load.stop();
  await until(async () => (await done()) === load.acknowledged.size);
  expectHandled(load.acknowledged, leader);
  await expectStoredOnce(load.acknowledged);
  const instances = await cluster.rows<{ name: string; lost: boolean }>(
    'select name, lost_at is not null as lost from kit.instances',
  );
  expect(instances.filter(({ lost }) => lost).map(({ name }) => name.split(':')[1])).toEqual([String(leader.main())]);
});

test('SIGTERM hands over at once, and nothing runs twice', async () => {
  const kits = [await cluster.add({ HANDLER_MS: '50' }), await cluster.add({ HANDLER_MS: '50' })];
  const leader = (await cluster.leader()) as Kit;
  const next = kits.find((kit) => kit !== leader) as Kit;
  const load = send([next], 50);
  await until(() => ends().length >= 20);
  leader.signal('SIGTERM');
  const toldAt = performance.now();
  await until(() => other(kits, leader));
  expect(performance.now() - toldAt).toBeLessThan(1_000);
  await until(() => ends().some(({ instance }) => instance === next.main()));
  expect(await leader.exited()).toBe(0);
  await load.stop();
  await until(async () => (await done()) === load.acknowledged.size);
  expect(load.answers.filter(({ status }) => status !== 204)).toEqual([]);
  expectHandled(load.acknowledged);
  expect(await cluster.rows('select 1 from kit.instances where lost_at is not null')).toEqual([]);
});

test.each(['SIGKILL', 'SIGTERM'] as const)(
  'events wait for a handler that the leader lacks, if the leader before it had the handler: %s',
  async (signal) => {
    await cluster.remove();
    cluster = await createCluster(undefined, { noting: NOTING, second: 'export default { on: "*", handle() {} };' });
    const leader = await cluster.add();
    const next = await cluster.make();
    rmSync(join(next.folder, 'handlers/second.ts'));
    await next.start();
    const load = send([next], 50);
    await until(() => load.acknowledged.size >= 30);
    if (signal === 'SIGTERM') leader.signal(signal);
    else signalAll(familyOf(leader), signal);
    await until(() => other([next], leader));
    const before = load.acknowledged.size;
    await until(() => load.acknowledged.size >= before + 30);
    await load.stop();
    await until(
      async () =>
        (
          await cluster.rows(
            `select 1 from kit.state where name = 'fanned_out' and value = (select max(seq)::text from kit.events)`,
          )
        ).length > 0,
    );
    const updated = await cluster.add();
    next.signal('SIGTERM');
    await until(() => other([updated], next));
    await until(async () => (await done()) === 2 * load.acknowledged.size);
  },
);

test('after SIGTERM of the leader, idle lanes go on elsewhere while it ends the tasks at work', async () => {
  const kits = [await cluster.add(), await cluster.add()];
  const leader = (await cluster.leader()) as Kit;
  const next = kits.find((kit) => kit !== leader) as Kit;
  const [slow, ...later] = [1, 11, 21].map((n) => makeEvent(n));
  expect(await deliver(next, { ...(slow as TestEvent), body: 'slow6000' })).toBe(204);
  await until(() => cluster.ran().length > 0);
  for (const event of later) expect(await deliver(next, event)).toBe(204);
  leader.signal('SIGTERM');
  const load = send([next], 50, 10, 1_000);
  await until(() => ends().length >= 20);
  expect(ends().map(({ instance }) => instance)).not.toContain(leader.main());
  await load.stop();
  expect(await leader.exited()).toBe(0);
  const sent = new Set([1_001, 1_011, 1_021, ...load.acknowledged]);
  await until(async () => (await done()) === sent.size);
  expectHandled(sent);
  expect(ends().filter(({ instance }) => instance === leader.main())).toMatchObject([{ cursor: 1_001 }]);
});

test('a leader that is stopped inside ctx.complete writes nothing after another has taken over', async () => {
  await cluster.remove();
  cluster = await createCluster(undefined, { completing: COMPLETING });
  const kits = [await cluster.add(), await cluster.add()];
  const leader = (await cluster.leader()) as Kit;
  const next = kits.find((kit) => kit !== leader) as Kit;
  const load = send([next], 20);
  // The handler waits in its transaction between the two notes.
  await until(() => ends().length >= 5 && cluster.ran().at(-1)?.what === 'begin');
  const family = familyOf(leader);
  signalAll(family, 'SIGSTOP');
  await until(() => other(kits, leader), 10_000);
  await until(() => ends().some(({ instance }) => instance === next.main()));
  signalAll(family, 'SIGCONT');
  await until(async () => (await cluster.rows('select 1 from kit.instances where lost_at is null')).length === 2);
  await load.stop();
  const back = send([leader], 20, 10, 5_000);
  await until(() => back.acknowledged.size >= 20);
  await back.stop();
  const acknowledged = new Set([...load.acknowledged, ...back.acknowledged]);
  await until(async () => (await done()) === acknowledged.size);
  await expectStoredOnce(acknowledged);
  const written = await cluster.rows<{ cursor: string }>('select cursor from kit.written');
  expect(written.map(({ cursor }) => Number(cursor)).toSorted((a, b) => a - b)).toEqual(
    [...acknowledged].toSorted((a, b) => a - b),
  );
});

test('if only run or only keep is killed, its instance goes on leading', async () => {
  const kits = [await cluster.add({ HANDLER_MS: '5' }), await cluster.add({ HANDLER_MS: '5' })];
  const leader = (await cluster.leader()) as Kit;
  const load = send(kits, 100);
  for (const file of ['run/main.ts', 'keep/main.ts']) {
    const before = ends().length;
    await until(() => ends().length >= before + 50 && childOf(leader, file) !== undefined);
    const pid = childOf(leader, file) as number;
    signalAll([pid], 'SIGKILL');
    await until(() => ![undefined, pid].includes(childOf(leader, file)));
  }
  const before = ends().length;
  await until(() => ends().length >= before + 50);
  await load.stop();
  await until(async () => (await done()) === load.acknowledged.size);
  expect(load.answers.filter(({ status }) => status !== 204)).toEqual([]);
  expectHandled(load.acknowledged, leader);
  await expectStoredOnce(load.acknowledged);
  expect(new Set(ends().map(({ instance }) => instance))).toEqual(new Set([leader.main()]));
});

test('if only the main process of the leader is killed, its children end, and another instance takes over', async () => {
  const kits = [await cluster.add({ HANDLER_MS: '5' }), await cluster.add({ HANDLER_MS: '5' })];
  const leader = (await cluster.leader()) as Kit;
  const family = familyOf(leader);
  const load = send(kits, 100);
  await until(() => ends().length >= 100);
  leader.signal('SIGKILL');
  await until(() => family.every((pid) => !existsSync(`/proc/${pid}`)), 5_000);
  await until(() => other(kits, leader), 5_000);
  await until(() => ends().some(({ instance }) => instance !== leader.main()));
  await load.stop();
  await until(async () => (await done()) === load.acknowledged.size);
  expectHandled(load.acknowledged, leader);
  await expectStoredOnce(load.acknowledged);
});

test('if another instance is lost, the tasks at work in the leader go on, and do not run again', async () => {
  const kits = [await cluster.add({ HANDLER_MS: '200' }), await cluster.add({ HANDLER_MS: '200' })];
  const leader = (await cluster.leader()) as Kit;
  const gone = kits.find((kit) => kit !== leader) as Kit;
  const load = send([leader], 50);
  await until(() => ends().length >= 20);
  signalAll(familyOf(gone), 'SIGKILL');
  await until(() => leader.output().includes(' is lost'), 10_000);
  const before = ends().length;
  await until(() => ends().length >= before + 50);
  await load.stop();
  await until(async () => (await done()) === load.acknowledged.size);
  expectHandled(load.acknowledged);
});

test('a standby that was lost and has come back leads with all its processes', async () => {
  const url = urlOf(String(Math.random()));
  const proxy = await createProxy(url);
  await cluster.remove();
  cluster = await createCluster(url);
  const leader = await cluster.add();
  const standby = await cluster.add({}, proxy.url);
  proxy.cut();
  await until(() => leader.output().includes(' is lost'), 10_000);
  proxy.pass();
  await until(async () => (await cluster.rows('select 1 from kit.instances where lost_at is null')).length === 2);
  leader.signal('SIGTERM');
  await until(() => other([standby], leader));
  await until(async () => {
    const roles = await cluster.rows('select 1 from kit.processes p join kit.lead l on l.instance = p.instance');
    return roles.length === 3;
  });
  const load = send([standby], 50);
  await until(() => ends().length >= 20);
  await load.stop();
  proxy.close();
});

test.each([-HOUR_MS, HOUR_MS])(
  'an instance whose clock is %i ms off hands over and takes over at the right time, and its times are the database’s',
  async (ms) => {
    const folder = mkdtempSync(join(tmpdir(), 'kit-clock-'));
    writeFileSync(join(folder, 'clock'), String(ms));
    const off = {
      NODE_OPTIONS: `--import=${resolve('test/prove/faults/inside.ts')}`,
      KIT_CLOCK: join(folder, 'clock'),
      HANDLER_MS: '5',
    };
    const wrong = async (): Promise<Kit> => Object.assign(await cluster.add(off), { now: () => Date.now() + ms });
    const first = await wrong();
    const second = await cluster.add({ HANDLER_MS: '5' });
    const load = send([first, second], 100);
    await until(() => ends().length >= 100);
    expect(await cluster.leader()).toBe(first);
    const killedAt = performance.now();
    signalAll(familyOf(first), 'SIGKILL');
    await until(() => other([second], first));
    const afterMs = performance.now() - killedAt;
    expect(afterMs).toBeGreaterThan(2_500);
    expect(afterMs).toBeLessThan(5_000);
    await load.stop();
    const third = await wrong();
    const more = send([third], 100, 10, 5_000);
    await until(() => more.acknowledged.size >= 100);
    expect(await cluster.leader()).toBe(second);
    second.signal('SIGTERM');
    const toldAt = performance.now();
    await until(() => other([third], second));
    expect(performance.now() - toldAt).toBeLessThan(1_000);
    await until(() => ends().some(({ instance }) => instance === third.main()));
    await more.stop();
    const acknowledged = new Set([...load.acknowledged, ...more.acknowledged]);
    await until(async () => (await done()) === acknowledged.size);
    expectHandled(acknowledged, first);
    await expectStoredOnce(acknowledged);
    const [times] = await cluster.rows(`
      select min(e.received_at) > x.now - 60000 and max(e.received_at) <= x.now as received,
        min(t.changed_at) > x.now - 60000 and max(t.changed_at) <= x.now as changed,
        min(t.started_at) > x.now - 60000 and max(t.started_at) <= x.now as started
      from kit.tasks t join kit.events e on e.seq = t.event,
        (select extract(epoch from clock_timestamp()) * 1000 + 500 as now) as x group by x.now`);
    expect(times).toEqual({ received: true, changed: true, started: true });
    rmSync(folder, { recursive: true });
  },
);

test('an instance that was stopped past its time writes nothing more, and comes back as a new one that stands by', async () => {
  const kits = [await cluster.add({ HANDLER_MS: '20' }), await cluster.add({ HANDLER_MS: '20' })];
  const leader = (await cluster.leader()) as Kit;
  const next = kits.find((kit) => kit !== leader) as Kit;
  const load = send([next], 100);
  await until(() => ends().length >= 50);
  const family = familyOf(leader);
  signalAll(family, 'SIGSTOP');
  await until(() => other(kits, leader), 10_000);
  await until(() => ends().some(({ instance }) => instance === next.main()));
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
