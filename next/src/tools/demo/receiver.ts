// The demo's receiver: the kit's own processes, on a store in a temporary folder. Nothing of the real kit is touched.
import Database from 'better-sqlite3';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** The part of GET /api/status that the demo reads. */
interface Status {
  events: number;
  duplicates: number;
  tasks: { done: number };
  reconcile: { lastAt: string | number | null; recovered: number };
}

const LIMIT_MS = 30_000;
const pathOf = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

export function startReceiver(port: number, opsPort: number, env: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'kit-demo-'));
  const store = join(folder, 'events.db');
  const ports = { HOST: '127.0.0.1', PORT: String(port), OPS_PORT: String(opsPort) };
  const places = { DATABASE_URL: `sqlite:${store}`, HANDLERS_DIR: pathOf('handlers') };
  const all = { PATH: process.env['PATH'], LOG_LEVEL: 'warn', ...ports, ...places, ...env };
  // The folder is not the clone, because the .env there belongs to the real kit.
  const main = spawn(process.execPath, [pathOf('../../main.ts')], { cwd: folder, env: all, detached: true });
  let output = '';
  for (const stream of [main.stdout, main.stderr]) stream.on('data', (part: Buffer) => (output += part.toString()));
  process.once('exit', () => {
    if (main.exitCode === null) main.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });

  async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    for (let waited = 0; !(await isSo().catch(() => false)); waited += 20) {
      if (main.exitCode !== null) throw new Error(`the receiver has ended:\n${output}`);
      if (waited > LIMIT_MS) throw new Error(`waited ${LIMIT_MS / 1_000} s in vain for ${what}:\n${output}`);
      await sleep(20);
    }
  }

  return {
    until,
    /** What it has logged. */
    output: () => output,
    ready: () => until('it to be ready', async () => (await fetch(`http://127.0.0.1:${port}/readyz`)).ok),
    status: async (): Promise<Status> =>
      (await (await fetch(`http://127.0.0.1:${opsPort}/api/status`)).json()) as Status,
    /** Tried until it is taken, because the ops port opens a moment after the other. */
    reconcile: () =>
      until('a reconciliation to be asked for', async () => {
        const asked = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
        return (await fetch(`http://127.0.0.1:${opsPort}/api/reconcile`, asked)).ok;
      }),
    /** The first value of the first row, from the store's file. */
    count(sql: string): number {
      const db = new Database(store, { readonly: true });
      const value = db.prepare(sql).pluck().get();
      db.close();
      return Number(value ?? 0);
    },
    async stop(): Promise<void> {
      main.kill('SIGTERM');
      if (main.exitCode === null) await once(main, 'exit');
    },
  };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return port;
}
