// The demo's receiver: the kit's own processes, on a store in a temporary folder. The real kit is not touched.
import Database from 'better-sqlite3';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSandbox } from '../sandbox.ts';

/** The part of GET /api/status that the demo reads. */
interface Status {
  events: number;
  duplicates: number;
  tasks: { done: number };
  reconcile: { lastAt: string | number | null; recovered: number };
}

const LIMIT_MS = 30_000;

export async function createReceiver() {
  const folder = mkdtempSync(join(tmpdir(), 'kit-demo-'));
  const store = join(folder, 'events.db');
  let output = '';
  const { url, opsUrl, ...kit } = await createSandbox({
    cwd: folder,
    store,
    onLine: (line) => (output += `${line}\n`),
  });
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

  async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    for (let waited = 0; !(await isSo().catch(() => false)); waited += 20) {
      if (!kit.isRunning()) throw new Error(`the receiver has ended:\n${output}`);
      if (waited > LIMIT_MS) throw new Error(`waited ${LIMIT_MS / 1_000} s in vain for ${what}:\n${output}`);
      await sleep(20);
    }
  }

  return {
    url,
    start(env: Record<string, string>): void {
      const handlers = join(import.meta.dirname, 'handlers');
      kit.start({ PATH: process.env['PATH'], LOG_LEVEL: 'warn', HANDLERS_DIR: handlers, ...env });
    },
    until,
    /** What the receiver has logged. */
    output: () => output,
    ready: () => until('the receiver to be ready', async () => (await fetch(new URL('/readyz', url))).ok),
    status: async (): Promise<Status> => (await kit.read('status')) as Status,
    /** Sends the request until it is accepted, because the ops port opens a moment after the public one. */
    reconcile: () =>
      until('the receiver to accept a request to reconcile', async () => {
        const asked = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
        return (await fetch(`${opsUrl}/api/reconcile`, asked)).ok;
      }),
    /** The first value of the first row, from the store's file. */
    count(sql: string): number {
      const db = new Database(store, { readonly: true });
      const value = db.prepare(sql).pluck().get();
      db.close();
      return Number(value ?? 0);
    },
    stop: () => kit.stop(LIMIT_MS),
  };
}
