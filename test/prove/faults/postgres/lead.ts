// F50: several instances on one PostgreSQL store, whose leader changes, stops, or has a wrong clock.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { familyOf, signalAll } from '../../../postgres/members.ts';
import { until, type Kit } from '../../../system/kit.ts';
import type { Fault } from '../scene.ts';
import { RECORDS, stage, type Scene } from './scene.ts';

const INSIDE = new URL('../inside.ts', import.meta.url).href;
const HOUR_MS = 3_600_000;

/** In each transaction of `ctx.complete`, the server waits for a moment. */
const SLOW_COMPLETE = RECORDS.replace(
  /\(tx\) => \{\s+tx.run\('insert/,
  `async (tx) => { await tx.all('select pg_sleep(0.05)'); await tx.run('insert`,
);
/** Each attempt works for a while before its `ctx.complete`. */
const SLOW = RECORDS.replace(
  'await ctx.complete',
  'await new Promise((done) => setTimeout(done, 3_000));\n    await ctx.complete',
);

async function leaderOf({ cluster }: Scene): Promise<Kit> {
  await until(async () => (await cluster.leader()) !== undefined);
  return (await cluster.leader()) as Kit;
}

const otherOf = ({ kits }: Scene, leader: Kit): Kit => kits.find((kit) => kit !== leader) as Kit;

const doneIn = async ({ admin }: Scene): Promise<number> =>
  Number((await admin<{ n: string }>(`select count(*) as n from kit.tasks where state = 'done'`))[0]?.n);

export const lead: Fault[] = [
  {
    numbers: [50],
    what: 'the clocks of two instances on PostgreSQL are an hour ahead and an hour behind',
    produce: () =>
      stage({ instances: 0 }, async (scene) => {
        for (const off of [HOUR_MS, -HOUR_MS]) {
          const file = join(scene.folder, `clock${off}`);
          writeFileSync(file, String(off));
          const kit = await scene.add({ NODE_OPTIONS: `--import ${INSIDE}`, KIT_CLOCK: file });
          kit.now = () => Date.now() + off;
        }
        const leader = await leaderOf(scene);
        scene.load(50);
        await scene.acknowledge(300);
        scene.holds((await scene.cluster.leader()) === leader, 'another instance leads');
        const [row] = await scene.admin<{ off: string }>(
          `select max(abs(received_at - extract(epoch from now()) * 1000)) as off from kit.events`,
        );
        await scene.rest();
        const lost = await scene.admin('select 1 from kit.instances where lost_at is not null');
        scene.holds(lost.length === 0, `${lost.length} instances count as lost`);
        scene.holds(Number(row?.off) < 60_000, `events are received ${row?.off} ms off`);
        return `one leader all the time, times at most ${(Number(row?.off) / 1_000).toFixed(1)} s ago`;
      }),
  },
  {
    numbers: [50],
    what: 'the row of the leader in PostgreSQL is deleted every 100 ms for 3 s under load',
    produce: () =>
      stage({}, async (scene) => {
        scene.load(50);
        await scene.acknowledge(50);
        const leaders = new Set<number>();
        let changes = 0;
        for (const end = performance.now() + 3_000; performance.now() < end; await sleep(100)) {
          const rows = await scene.admin<{ instance: string }>('delete from kit.lead returning instance');
          if (rows.length > 0) changes++;
          for (const { instance } of rows) leaders.add(Number(instance));
        }
        await scene.acknowledge(50);
        await scene.rest();
        return `${changes} deleted, ${leaders.size} instances led`;
      }),
  },
  {
    numbers: [50],
    what: 'an instance is stopped (SIGSTOP) inside ctx.complete until another leads, and goes on',
    produce: () =>
      stage({ handler: SLOW_COMPLETE }, async (scene) => {
        const leader = await leaderOf(scene);
        const other = otherOf(scene, leader);
        scene.load(20, [other]);
        await until(async () => (await doneIn(scene)) > 10);
        const inside = `select 1 from pg_stat_activity where query like '%pg_sleep%' and state = 'active' and usename = 'kit'`;
        await until(async () => (await scene.admin(inside)).length > 0);
        const family = familyOf(leader);
        signalAll(family, 'SIGSTOP');
        await until(async () => (await scene.cluster.leader()) === other);
        const done = await doneIn(scene);
        await until(async () => (await doneIn(scene)) > done + 10);
        signalAll(family, 'SIGCONT');
        await until(() => leader.output().includes('another instance leads now'));
        await scene.acknowledge(50);
        await scene.rest();
        return 'what the stopped one had begun was completed once';
      }),
  },
  {
    numbers: [50],
    what: 'SIGTERM for the leader of two instances on PostgreSQL, whose handler works for 3 s',
    produce: () =>
      stage({ handler: SLOW }, async (scene) => {
        const leader = await leaderOf(scene);
        const other = otherOf(scene, leader);
        scene.load(5, [other]);
        await until(async () => (await doneIn(scene)) > 0);
        const began = performance.now();
        leader.signal('SIGTERM');
        await until(async () => (await scene.cluster.leader()) === other);
        const ms = Math.round(performance.now() - began);
        scene.holds(ms < 2_000, `another leads after ${ms} ms`);
        const code = await leader.exited();
        scene.holds(code === 0, `it ended with ${code}`);
        await scene.rest();
        return `another leads after ${ms} ms`;
      }),
  },
];
