// F50: PgBouncer in transaction mode stands between the kit and the PostgreSQL server.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { answers } from '../../../postgres/server.ts';
import { freePort } from '../../../system/kit.ts';
import { eventually, Lacking, type Fault } from '../scene.ts';
import { stage, type Scene } from './scene.ts';

/** The first version that keeps prepared statements in transaction mode. */
const OLDEST = [1, 21] as const;

/** Starts a pooler. Resolves to the address of the store behind it, and a function that ends it. */
async function pool({ server, folder }: Scene) {
  const port = await freePort();
  const file = join(folder, 'pgbouncer.ini');
  const lines = [
    '[databases]',
    `kit = host=127.0.0.1 port=${server.port} dbname=kit user=kit`,
    '[pgbouncer]',
    `listen_port = ${port}`,
    'listen_addr = 127.0.0.1',
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    'max_prepared_statements = 1000',
  ];
  writeFileSync(file, lines.join('\n'));
  chmodSync(folder, 0o755);
  const as = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child = spawn('pgbouncer', ['-q', ...as, file], { stdio: 'ignore' });
  const url = `postgres://kit@127.0.0.1:${port}/kit`;
  if (!(await eventually(() => answers(url)))) throw new Error('PgBouncer does not answer');
  return {
    url,
    async end(): Promise<void> {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
    },
  };
}

export const pooler: Fault[] = [
  {
    numbers: [50],
    what: 'PgBouncer in transaction mode, max_prepared_statements 1000, two instances',
    async produce() {
      const told = spawnSync('pgbouncer', ['-V'], { encoding: 'utf8' }).stdout ?? '';
      const [, major = 0, minor = 0] = /PgBouncer (\d+)\.(\d+)/.exec(told)?.map(Number) ?? [];
      if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]))
        throw new Lacking(`PgBouncer ${OLDEST.join('.')} or newer (Debian: pgbouncer)`);
      return stage({ instances: 0 }, async (scene) => {
        const pooled = await pool(scene);
        try {
          for (let n = 0; n < 2; n++) await scene.add({}, pooled.url);
          scene.load(50);
          await scene.acknowledge(500);
          await scene.finish();
          return 'nothing but the port in DATABASE_URL was changed';
        } finally {
          await pooled.end();
        }
      });
    },
  },
];
