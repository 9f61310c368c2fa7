// F50: the PostgreSQL server refuses: no connection is left, it is read-only, a right is missing, or a crash of it would
// lose what it has confirmed.
import { Client } from 'pg';
import type { Fault } from '../scene.ts';
import { outage } from './outage.ts';
import { stage, type Scene } from './scene.ts';

/** Ends all connections of the kit, as a failover does. */
const CUT = `select pg_terminate_backend(pid) from pg_stat_activity where usename = 'kit'`;
const ROOM = 30;

/** SQL of the superuser, one statement after another. */
async function all({ admin }: Scene, ...statements: string[]): Promise<void> {
  for (const sql of statements) await admin(sql);
}

/** Uses up the connections that are left. Resolves to a function that ends them. */
async function crowd({ server }: Scene): Promise<() => Promise<unknown>> {
  const clients: Client[] = [];
  for (let left = true; left;) {
    const client = new Client({ connectionString: server.url });
    client.on('error', () => {});
    left = await client.connect().then(
      () => true,
      () => false,
    );
    if (left) clients.push(client);
  }
  return () => Promise.all(clients.map((client) => client.end()));
}

/** From now on each connection of the kit has this setting. */
const changed = (what: string, setting: string, reset: string, words: RegExp, passes?: 'passes'): Fault => ({
  numbers: [50],
  what,
  produce: () =>
    stage({ instances: 1, allowed: [503] }, async (scene) => {
      const seen = await outage(scene, {
        words,
        begin: () => all(scene, setting, CUT),
        async end() {
          await scene.rest();
          const refused = await scene.refuses(words, passes);
          await all(scene, reset);
          scene.load(10);
          return refused;
        },
      });
      return `${seen}; a start was refused with the remedy`;
    }),
});

export const refusals: Fault[] = [
  {
    numbers: [50],
    what: 'the role of PostgreSQL may have 0, then 2 connections, and then enough',
    produce: () =>
      stage({ instances: 0 }, async (scene) => {
        await scene.admin('alter role kit connection limit 0');
        const refused = await scene.refuses(/53300.*no connection left.*connection limit of this user/, 'passes');
        await scene.admin('alter role kit connection limit 2');
        await scene.refuses(/53300.*connection limit of this user/, 'passes');
        await scene.admin('alter role kit connection limit -1');
        await scene.add();
        scene.load(20);
        await scene.acknowledge(50);
        await scene.rest();
        return refused;
      }),
  },
  {
    numbers: [50],
    what: 'other clients use up max_connections of PostgreSQL, and the connections of the kit are ended',
    produce: () =>
      stage({ settings: [`max_connections=${ROOM}`], allowed: [503] }, async (scene) => {
        let release = (): Promise<unknown> => Promise.resolve();
        return outage(scene, {
          words: /53300.*raise max_connections/,
          async begin() {
            await all(scene, 'alter role kit connection limit 0', CUT);
            release = await crowd(scene);
            await all(scene, 'alter role kit connection limit -1');
          },
          end: () => release(),
        });
      }),
  },
  changed(
    'PostgreSQL is read-only, as after a failover to a standby',
    'alter database kit set default_transaction_read_only = on',
    'alter database kit reset default_transaction_read_only',
    /25006.*read-only/,
    'passes',
  ),
  changed(
    'synchronous_commit is set off for the role of PostgreSQL, and connections are ended',
    'alter role kit set synchronous_commit = off',
    'alter role kit reset synchronous_commit',
    /reset synchronous_commit/,
  ),
  {
    numbers: [50],
    what: 'PostgreSQL is reloaded with synchronous_commit off under load, and killed: each 204 was synced all the same',
    produce: () =>
      // Without a sync, a commit stays in the memory of the server for seconds.
      stage({ settings: ['wal_writer_delay=10000', 'wal_writer_flush_after=100MB'] }, async (scene) => {
        scene.load(50);
        await scene.acknowledge(50);
        await all(scene, 'alter system set synchronous_commit = off', 'select pg_reload_conf()');
        await scene.acknowledge(100);
        await scene.server.end('SIGKILL');
        await scene.server.start();
        // The instances refuse the server until it syncs again.
        await all(scene, 'alter system reset synchronous_commit', 'select pg_reload_conf()');
        await scene.acknowledge(50);
        await scene.rest();
        return 'killed and started again';
      }),
  },
  {
    numbers: [50],
    what: 'the role of PostgreSQL may not create a schema at the first start, and then it may',
    produce: () =>
      stage({ instances: 0, setup: ['create role kit login', 'create database kit'] }, async (scene) => {
        const refused = await scene.refuses(
          /permission denied for database kit. Grant this user create on the database/,
        );
        await scene.admin('grant create on database kit to kit');
        await scene.add();
        scene.load(20);
        await scene.acknowledge(50);
        await scene.rest();
        return refused;
      }),
  },
  {
    numbers: [50],
    what: 'the role of PostgreSQL may not insert into events for 10 s',
    produce: () =>
      stage({ allowed: [503] }, (scene) =>
        outage(scene, {
          words: /42501.*Grant this user .* all rights on the schema kit and its tables/,
          begin: () => all(scene, 'revoke insert on kit.events from kit'),
          end: () => all(scene, 'grant insert on kit.events to kit'),
        }),
      ),
  },
];
