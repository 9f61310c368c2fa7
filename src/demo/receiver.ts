// A real receiver for the demo: the main process as `npm start` runs it, on a folder of its own that goes with it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { openSqlite } from '../store/sqlite/open.ts';
import type { Store } from '../store/store.ts';

const PATIENCE_MS = 60_000;

export interface Receiver {
  url: string;
  opsUrl: string;
  secret: string;
  store: Store;
  /** What it wrote to its log. */
  output(): string;
  pidOfRun(): Promise<number>;
  /** What the demo's handler wrote down. */
  handled(): { completions: number; once: number; late: number; inOrder: number };
  /** Looks again and again; throws after a minute with what was waited for. */
  until(what: string, holds: () => Promise<boolean>): Promise<void>;
  stop(): Promise<void>;
}

export async function startReceiver(apiBaseUrl: string, apiKey: string): Promise<Receiver> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-demo-'));
  const path = join(folder, 'events.db');
  const secret = 'whsec_of_the_demo_and_of_nothing_else';
  const [port, opsPort] = [await freePort(), await freePort()];
  let output = '';

  const main = spawn(process.execPath, [fileURLToPath(new URL('../main.ts', import.meta.url))], {
    // Not in the clone's folder: its .env is not the demo's.
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      WEBHOOK_SECRET: secret,
      DATABASE_URL: `sqlite:${path}`,
      HANDLERS_DIR: fileURLToPath(new URL('handlers/', import.meta.url)),
      HOST: '127.0.0.1',
      PORT: String(port),
      OPS_PORT: String(opsPort),
      API_BASE_URL: apiBaseUrl,
      API_KEY: apiKey,
      // Once at its beginning, then when it is asked.
      RECONCILE_INTERVAL_SECONDS: '86400',
    },
  });
  for (const stream of [main.stdout, main.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  process.once('exit', () => {
    main.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });

  async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + PATIENCE_MS;
    while (!(await holds())) {
      if (main.exitCode !== null) throw new Error(`the receiver ended with ${main.exitCode}:\n${output}`);
      if (performance.now() > end) throw new Error(`waited ${PATIENCE_MS / 1000} s in vain for ${what}:\n${output}`);
      await sleep(50);
    }
  }

  await until('the receiver to be ready', () => Promise.resolve(output.includes('ready for deliveries')));
  const store = openSqlite(path, { busyMs: 5_000 });
  return {
    url: `http://127.0.0.1:${port}/webhooks`,
    opsUrl: `http://127.0.0.1:${opsPort}`,
    secret,
    store,
    output: () => output,
    async pidOfRun() {
      const processes = await store.processes();
      const run = processes.find(({ role }) => role === 'run');
      if (!run) throw new Error('the process that runs handlers has not shown itself');
      return run.pid;
    },
    handled: () => count(path),
    until,
    async stop() {
      main.kill('SIGTERM');
      if (main.exitCode === null) await once(main, 'close');
      store.close();
    },
  };
}

function count(path: string): ReturnType<Receiver['handled']> {
  const db = new Database(path, { readonly: true });
  const number = (sql: string): number => db.prepare<[], number>(sql).pluck().get() ?? 0;
  const before = 'max(cursor) over (partition by lane order by n rows between unbounded preceding and 1 preceding)';
  const seen = {
    completions: number('select count(*) from demo_handled'),
    once: number('select count(*) from (select 1 from demo_handled group by key having count(*) = 1)'),
    late: number('select count(*) from demo_handled where late'),
    inOrder: number(
      `select count(*) from (select late or cursor > coalesce(${before}, -1) as fine from demo_handled) where fine`,
    ),
  };
  db.close();
  return seen;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : 0;
}
