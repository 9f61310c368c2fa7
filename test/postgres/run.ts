// `npm run test:postgres`: runs the tests that need a PostgreSQL server. Without TEST_POSTGRES_URL it installs one on first
// use and starts it for this run. Whatever it makes is removed at the end, also after Ctrl-C.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { EXIT } from '../../src/base/errors.ts';
import { root } from '../memory-folder.ts';
import { installServer } from './install.ts';
import { endServersIn, startServer } from './server.ts';

const given = process.env['TEST_POSTGRES_URL'];
// The folder of all temporary files, also of tests that are killed.
const folder = mkdtempSync(join(root, 'kit-test-postgres-'));
chmodSync(folder, 0o755);
process.env['TMPDIR'] = folder;

let child: ChildProcess | undefined;
let interrupted = false;
// This process waits for the end of its child, and then cleans up.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => {
    interrupted = true;
    child?.kill(signal);
  });

let code: number = EXIT.failed;
try {
  const server = given ? await createDatabase(given) : await installAndStart();
  try {
    const args = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'postgres*', ...process.argv.slice(2)];
    code = await exitOf(process.execPath, args, { TEST_POSTGRES_URL: server.url });
  } finally {
    await server.stop();
  }
} catch (error) {
  console.error(interrupted ? 'interrupted' : error);
} finally {
  await endServersIn(folder).catch(console.error);
  if (child?.pid) await killGroup(child.pid);
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
}
process.exit(code);

async function installAndStart() {
  await installServer('set TEST_POSTGRES_URL to a server of your own');
  return startServer();
}

/** Creates a database for this run alone, so that the server holds nothing of it afterwards. */
async function createDatabase(url: string) {
  const name = `kit_test_${randomBytes(6).toString('hex')}`;
  const own = new URL(url);
  own.pathname = name;
  const run = async (sql: string): Promise<void> => {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      await client.query(sql);
    } finally {
      await client.end();
    }
  };
  await run(`create database ${name} encoding 'UTF8' template template0`);
  return { url: own.href, stop: () => run(`drop database if exists ${name} with (force)`) };
}

async function exitOf(command: string, args: string[], env: Record<string, string>): Promise<number> {
  if (interrupted) throw new Error('interrupted');
  child = spawn(command, args, { stdio: 'inherit', env: { ...process.env, ...env }, detached: true });
  const [status] = (await once(child, 'exit')) as [number | null];
  return status ?? EXIT.failed;
}

/** Kills what tests that were cut off have left: workers and instances. */
async function killGroup(leader: number): Promise<void> {
  try {
    for (let tries = 0; tries < 100; tries++) {
      process.kill(-leader, 'SIGKILL');
      await sleep(50);
    }
  } catch {
    // The group has no process.
  }
}
