// The ops port over real HTTP on a real store file, and a few events and tasks to look at.
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createOpsServer, type OpsOptions } from '../../src/ops/server.ts';
import type { Store } from '../../src/store/store.ts';
import type { NewTask } from '../../src/store/work.ts';
import { readDelivery } from '../../src/wire/event.ts';
import { fields } from '../reconcile/replay-server.ts';
import {
  createClock,
  createStoreFile,
  createTestLog,
  type StoreFile,
  type TestClock,
  type TestLog,
} from '../reconcile/harness.ts';

export interface Reply {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
  /** Throws where the body is no JSON. */
  json: () => unknown;
}

export interface Ops extends StoreFile, TestLog {
  clock: TestClock;
  port: number;
  /** How often tasks were moved by hand. */
  changes: () => number;
  get: (path: string, headers?: Record<string, string>) => Promise<Reply>;
  /** An object goes as JSON; text goes as it is. */
  post: (path: string, body?: object | string, headers?: Record<string, string>) => Promise<Reply>;
  send: (method: string, path: string, headers?: Record<string, string>, body?: string) => Promise<Reply>;
  close: () => Promise<void>;
}

export async function createOps(config: OpsOptions['config'] = NOTHING_SET): Promise<Ops> {
  const file = createStoreFile();
  const clock = createClock();
  const testLog = createTestLog();
  let changes = 0;
  const options = {
    config,
    store: file.store,
    clock,
    log: testLog.log,
    disk: () => DISK,
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
    ...file,
    ...testLog,
    clock,
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
      file.remove();
    },
  };
}

export const DISK = { storeBytes: 4_096, logBytes: 1_024, freeBytes: 1e9 };

export const NOTHING_SET: OpsOptions['config'] = {
  OPS_TOKEN: undefined,
  OPS_READ_TOKEN: undefined,
  OPS_ORIGIN: undefined,
};

export interface Delivered {
  cursor?: string | null;
  id?: string;
  type?: string;
  session?: string;
  data?: object;
}

/** Deliveries, each received a second after the one before. */
export async function deliver(ops: Ops, ...events: Delivered[]): Promise<void> {
  for (const { cursor = null, id = `e${cursor}`, type = 'MessageReceived', session = SESSION, data } of events) {
    ops.clock.time += 1_000;
    const held = { [type]: data ?? fields(cursor ?? id, { session_id: session, timestamp_unix_ms: ops.clock.time }) };
    const envelope = {
      id,
      type,
      created_at: new Date(ops.clock.time).toISOString(),
      cursor,
      session_id: session,
      data: held,
    };
    await ops.store.accept({ readings: [readDelivery(Buffer.from(JSON.stringify(envelope)))], now: ops.clock.time });
  }
}

export const SESSION = '5f0c3a52-6f1e-4c55-9a52-9d9f5b1f6d11';
export const OTHER_SESSION = '00000000-6f1e-4c55-9a52-9d9f5b1f6d11';

/** Makes a task of each event that has none yet, for each handler; all are due. Ids of the handlers. */
export async function assign(ops: Ops, names: string[], more: Partial<NewTask> = {}): Promise<number[]> {
  const { store, clock } = ops;
  const ids = await store.register(names);
  const handlers = names.map((name) => ids.get(name) ?? 0);
  const { from, events } = await store.unassigned(1_000);
  const tasks = events.flatMap(({ seq, cursor }) =>
    handlers.map((handler) => ({ event: seq, handler, lane: null, cursor, releaseAt: clock.time, ...more })),
  );
  await turn(store, clock, { assign: { from, upTo: events.at(-1)?.seq ?? from, tasks } });
  return handlers;
}

/** Claims one task of the handler and ends it so. */
export async function end(
  ops: Ops,
  handler: number,
  state: 'done' | 'dead' | 'skipped',
  error: string | null = null,
): Promise<number> {
  const { store, clock } = ops;
  const { claims } = await turn(store, clock, { room: 1, handlers: [handler] });
  const [claimed] = claims;
  if (!claimed) throw new Error('no task is due');
  await turn(store, clock, { settle: [{ claim: claimed, state, error }] });
  return claimed.task;
}

/** Claims one task of the handler and leaves it running. */
export async function claim(ops: Ops, handler: number): Promise<number | undefined> {
  const { claims } = await turn(ops.store, ops.clock, { room: 1, handlers: [handler] });
  return claims[0]?.task;
}

function turn(store: Store, clock: TestClock, more: Partial<Parameters<Store['turn']>[0]>) {
  return store.turn({ now: clock.time, boot: 1, settle: [], assign: null, room: 0, handlers: [], ...more });
}
