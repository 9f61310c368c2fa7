// The demo's receiver: starts a real kit, waits for its progress, and reads what its handler recorded.
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Database from 'better-sqlite3';
import { open } from '../../store/open.ts';
import type { Store } from '../../store/store.ts';
import { createSandbox } from '../sandbox.ts';

const PATIENCE_MS = 60_000;

export interface Receiver {
  url: string;
  opsUrl: string;
  secret: string;
  store: Store;
  output(): string;
  pidOfRun(): Promise<number>;
  /** `completions`: all records. `once`: events with one record. `inOrder`: records that are late or in lane order. */
  handled(): { completions: number; once: number; late: number; inOrder: number };
  /** Polls until `holds` is true. After a minute it throws an error that names `what`. */
  until(what: string, holds: () => Promise<boolean>): Promise<void>;
  stop(): Promise<void>;
}

export async function startReceiver(apiBaseUrl: string, apiKey: string): Promise<Receiver> {
  const secret = 'whsec_of_the_demo_and_of_nothing_else';
  const kit = await createSandbox('demo', {
    PATH: process.env['PATH'],
    WEBHOOK_SECRET: secret,
    HANDLERS_DIR: fileURLToPath(new URL('handlers/', import.meta.url)),
    API_BASE_URL: apiBaseUrl,
    API_KEY: apiKey,
    // Reconciliation runs once at the start, then only on request.
    RECONCILE_INTERVAL_SECONDS: '86400',
  });
  let output = '';
  const main = kit.start();
  for (const stream of [main.stdout, main.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));

  async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + PATIENCE_MS;
    while (!(await holds())) {
      if (main.exitCode !== null) throw new Error(`the receiver ended with ${main.exitCode}:\n${output}`);
      if (performance.now() > end)
        throw new Error(`after ${PATIENCE_MS / 1000} s still waiting for ${what}:\n${output}`);
      await sleep(50);
    }
  }

  await until('the receiver to be ready', () => Promise.resolve(output.includes('ready for deliveries')));
  const store = open(`sqlite:${kit.storePath}`, { busyMs: 5_000 });
  return {
    url: kit.url,
    opsUrl: kit.opsUrl,
    secret,
    store,
    output: () => output,
    async pidOfRun() {
      const processes = await store.processes.list();
      const run = processes.find(({ role }) => role === 'run');
      if (!run) throw new Error('the process that runs handlers has not started');
      return run.pid;
    },
    handled: () => count(kit.storePath),
    until,
    async stop() {
      await kit.stop(PATIENCE_MS);
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
