// F50: another session holds a lock on a table of the kit, and the role of the kit has time limits.
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { Fault } from '../scene.ts';
import { outage } from './outage.ts';
import { stage, type Scene } from './scene.ts';

/** Locks the events, as a migration or a careless `alter table` does. Resolves to a function that ends the lock. */
async function lock({ server }: Scene): Promise<() => Promise<void>> {
  const other = new Client({ connectionString: server.url.replace(/\/postgres$/, '/kit') });
  await other.connect();
  await other.query('begin; lock table kit.events');
  return () => other.end();
}

/** A lock that is too short to make a delivery fail. */
const short = (ms: number, what: string, limits: string[] = []): Fault => ({
  numbers: [50],
  what,
  ...(ms < 5_000 && { short: true }),
  produce: () =>
    stage({ instances: 0 }, async (scene) => {
      for (const limit of limits) await scene.admin(`alter role kit set ${limit}`);
      for (let n = 0; n < 2; n++) await scene.add();
      scene.load(20);
      await scene.acknowledge(50);
      const release = await lock(scene);
      await sleep(ms);
      await release();
      await scene.acknowledge(50);
      await scene.rest();
      return 'deliveries waited, and were accepted';
    }),
});

export const locks: Fault[] = [
  short(6_000, 'another session locks the events in PostgreSQL for 6 s'),
  short(
    3_000,
    'a lock for 3 s in PostgreSQL, and time limits of the role: 200 ms for statements and idle transactions',
    [`statement_timeout = '200ms'`, `idle_in_transaction_session_timeout = '200ms'`, `lock_timeout = '200ms'`],
  ),
  {
    numbers: [50],
    what: 'another session locks the events in PostgreSQL for 20 s',
    produce: () =>
      stage({ allowed: [503] }, async (scene) => {
        let release = async (): Promise<void> => {};
        return outage(scene, {
          ms: 20_000,
          begin: async () => (release = await lock(scene)),
          end: () => release(),
        });
      }),
  },
];
