// The ops port over real HTTP on a real store file.
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'vitest';
import { RULES } from '../../src/alarms/rules/index.ts';
import { createOpsServer, type OpsOptions } from '../../src/ops/server.ts';
import type { Instance } from '../../src/store/processes.ts';
import { createRecords, type Records } from '../admin/harness.ts';
import { createTestLog, type TestLog } from '../reconcile/harness.ts';

export { fanOut, claim, deliver, end, HOSTILE, INSTANCES, OTHER_SESSION, SESSION } from '../admin/harness.ts';

export interface Reply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  /** Throws if the body is not JSON. */
  json: () => unknown;
}

export interface Ops extends Records, TestLog {
  port: number;
  /** How often `onChange` was called. */
  changes: () => number;
  get: (path: string, headers?: Record<string, string>) => Promise<Reply>;
  /** An object is sent as JSON, text as it is. */
  post: (path: string, body?: object | string, headers?: Record<string, string>) => Promise<Reply>;
  send: (method: string, path: string, headers?: Record<string, string>, body?: string) => Promise<Reply>;
  close: () => Promise<void>;
}

export async function createOps(
  config: OpsOptions['config'] = NOTHING_SET,
  rules: OpsOptions['rules'] = RULES,
  /** The store of another port, which removes it. */
  shared?: Records,
): Promise<Ops> {
  const records = shared ?? createRecords();
  const { store, clock } = records;
  const testLog = createTestLog();
  let changes = 0;
  const options = {
    config,
    store,
    rules,
    clock,
    log: testLog.log,
    disk: async () => DISK,
    onChange: () => void changes++,
  };
  const server = createOpsServer(options);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;

  function send(method: string, path: string, headers: Record<string, string> = {}, body = ''): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const req = request({ host: '127.0.0.1', port, method, path, headers, agent: false }, (res) => {
        const chunks: Buffer[] = [];
        res.on('data', (chunk: Buffer) => chunks.push(chunk));
        res.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          resolve({ status: res.statusCode ?? 0, headers: res.headers, text, json: () => JSON.parse(text) as unknown });
        });
      });
      req.on('error', reject);
      req.end(body);
    });
  }

  return {
    ...records,
    ...testLog,
    port,
    send,
    changes: () => changes,
    get: (path, headers) => send('GET', path, headers),
    post: (path, body = {}, headers = {}) =>
      send(
        'POST',
        path,
        { 'content-type': 'application/json', ...headers },
        typeof body === 'string' ? body : JSON.stringify(body),
      ),
    async close() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
      if (!shared) records.remove();
    },
  };
}

export const beat = ({ store, clock }: Ops, role: string) =>
  store.processes.beat({ role, pid: 1, started: '', boot: 1 }, clock.time);

interface Events {
  events: { key: string; seq: number; [field: string]: unknown }[];
  next: number | null;
}
interface Tasks {
  tasks: { id: number; key: string; handler: string; state: string; [field: string]: unknown }[];
  next: number | null;
}
export const eventsIn = (reply: Reply) => reply.json() as Events;
export const tasksIn = (reply: Reply) => reply.json() as Tasks;
export const keysOf = (reply: Reply) => eventsIn(reply).events.map(({ key }) => key);
export const statesOf = (reply: Reply) => tasksIn(reply).tasks.map(({ state }) => state);

/** Expects an error that people understand: JSON, one line, no stack, no path of a file. */
export function assertClear(reply: Reply, status: number, ...words: string[]): void {
  expect(reply.status).toBe(status);
  const { error } = reply.json() as { error: string };
  for (const word of words) expect(error).toContain(word);
  expect(error).not.toMatch(/\n|\bat \w+ \(|\.ts\b|node_modules|SQLITE|ZodError/);
}

/** The status of the store shows these instances, as if it were in PostgreSQL. */
export async function share({ store, clock }: Ops, instances: Instance[]): Promise<void> {
  const status = await store.read.status(clock.time);
  store.read.status = async () => ({ ...status, instances });
}

export const DISK = { storeBytes: 4_096, logBytes: 1_024, freeBytes: 1e9 };

export const NOTHING_SET: OpsOptions['config'] = {
  OPS_TOKEN: undefined,
  OPS_READ_TOKEN: undefined,
  OPS_ORIGIN: undefined,
  RETENTION_DAYS: 30,
  RUN_CONCURRENCY: 32,
};
