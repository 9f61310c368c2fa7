// The real receiver in this process: store file, group commit, verification and HTTP server, on a free port and with a
// clock that tests set. Tests send requests with node:http and as raw bytes. The harness signs with code of its own, so
// that the tests cannot share the receiver's mistakes.
import type { Store } from '../../src/store/store.ts';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request, type OutgoingHttpHeaders, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { onTestFinished } from 'vitest';
import { createGroupCommit, type GroupCommit, type DeliveryStore } from '../../src/receive/group-commit.ts';
import { createReceiveApp } from '../../src/receive/app.ts';
import { createBodyReader, type BodyReader } from '../../src/receive/body.ts';
import { storeNotice } from '../../src/receive/causes.ts';
import { createDeliveryHealth, type DeliveryHealth } from '../../src/receive/delivery-health.ts';
import { createRefusalLog } from '../../src/receive/refusal-log.ts';
import { createReceiveServer } from '../../src/receive/server.ts';
import { createVerifier, type Verifier } from '../../src/receive/verify.ts';
import type { Status } from '../../src/store/read.ts';
import { storeKind, type Kind, type Queries } from '../stores.ts';

export const T0 = Date.UTC(2026, 0, 1, 12);
export const SECONDS = T0 / 1000;
export const SECRET = 'whsec_0123456789abcdef0123456789abcdef';
export const PATH = '/webhooks';
export const BODY_LIMIT = 12 * 1024 * 1024;

/** A clock that stands still until a test sets it. */
export interface SetClock {
  at: number;
  now(): number;
  monotonic(): number;
}

export function createClock(at = T0): SetClock {
  const clock = { at, now: () => clock.at, monotonic: () => clock.at };
  return clock;
}

export interface StoreFile extends Pick<Queries, 'query'> {
  path: string;
  store: Store;
  /** SQLite: holds the write lock from another connection, until the returned function is called. */
  lock(): () => void;
  remove(): void;
}

export function createStoreFile(
  path = join(mkdtempSync(join(tmpdir(), 'kit-receive-')), 'events.db'),
  synchronous: 'FULL' | 'NORMAL' = 'FULL',
  kind = storeKind,
): StoreFile {
  const store = kind.open(path, { owner: true, busyMs: 0, synchronous, idsInSegment: 3 });
  const others: Queries[] = [];
  function another(): Queries {
    const one = kind.queries(path);
    others.push(one);
    return one;
  }
  const { query } = another();
  return {
    path,
    store,
    query,
    lock() {
      const { exec } = another();
      exec('begin immediate');
      return () => exec('commit');
    },
    remove() {
      for (const { close } of others) close();
      store.close();
      rmSync(dirname(path), { recursive: true, force: true });
    },
  };
}

export interface Options {
  /** The path of an earlier, closed receiver, whose store the new receiver opens. */
  path?: string;
  /** The kind of store. By default, that of the project. */
  kind?: Kind;
  /** SQLite's setting. NORMAL is for tests that lose no power and need many deliveries. */
  synchronous?: 'FULL' | 'NORMAL';
  secrets?: string[];
  bodyLimit?: number;
  bodies?: BodyReader;
  /** Wraps the real store before the group commit uses it. */
  wrap?: (store: DeliveryStore) => DeliveryStore;
}

export interface Receiver extends StoreFile {
  port: number;
  clock: SetClock;
  groupCommit: GroupCommit;
  verifier: Verifier;
  health: DeliveryHealth;
  server: Server;
  /** The answers that count for the failure run. */
  answered: { status: number; cause: string }[];
  /** All log lines so far. */
  lines: Record<string, unknown>[];
  drain(): void;
  /** Writes the counters, then returns those of refusals and deliveries. */
  counters(): Promise<Record<string, number>>;
  /** Writes the state, then returns the status that people see. */
  status(): Promise<Status>;
  close(): Promise<void>;
}

/** Starts a receiver that closes when the test ends. */
export async function startReceiver(options: Options = {}): Promise<Receiver> {
  const receiver = await openReceiver(options);
  onTestFinished(() => receiver.close());
  return receiver;
}

/** Starts a receiver that several tests share. The caller closes it. */
export async function openReceiver({
  path,
  kind,
  synchronous,
  secrets = [SECRET],
  bodyLimit = BODY_LIMIT,
  bodies = createBodyReader(),
  wrap = (store) => store,
}: Options = {}): Promise<Receiver> {
  const file = createStoreFile(path, synchronous, kind);
  const clock = createClock();
  const lines: Record<string, unknown>[] = [];
  const answered: Receiver['answered'] = [];
  const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const refusalLog = createRefusalLog(log, clock);
  const verifier = createVerifier({ secrets, prefix: 'X-Svc-', toleranceSeconds: 300 });
  const groupCommit = createGroupCommit({
    store: wrap({ ...file.store.ingest, note: (...given) => file.store.state.note(...given) }),
    clock,
    onFault: ({ code }) => refusalLog.note(storeNotice(code), {}),
  });
  const health = createDeliveryHealth({ groupCommit, clock, secrets, kept: await file.store.state.books() });
  let draining = false;
  const app = createReceiveApp({
    path: PATH,
    prefix: 'X-Svc-',
    bodyLimit,
    verifier,
    bodies,
    groupCommit,
    clock,
    machine: clock,
    log,
    refusalLog,
    health: {
      ...health,
      answered(status, cause) {
        answered.push({ status, cause });
        health.answered(status, cause);
      },
    },
    draining: () => draining,
  });
  const server = createReceiveServer(app, (status) => {
    groupCommit.count({ 'refused.bad_http': 1 });
    refusalLog.note('bad_http', { status });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    ...file,
    port: (server.address() as AddressInfo).port,
    clock,
    groupCommit,
    verifier,
    health,
    server,
    answered,
    lines,
    drain: () => void (draining = true),
    async counters() {
      await groupCommit.probe();
      return file.store.read.counters();
    },
    async status() {
      health.flush();
      await groupCommit.probe();
      return file.store.read.status(clock.now());
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
      file.remove();
    },
  };
}

/** Hex of HMAC-SHA256 over `<timestamp>.<body>` (contract 6.3). */
export function hmac(body: Uint8Array | string, timestamp: number | string = SECONDS, secret = SECRET): string {
  return createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
}

export function signed(
  body: Uint8Array | string,
  timestamp: number | string = SECONDS,
  secret = SECRET,
): OutgoingHttpHeaders {
  return { 'X-Svc-Timestamp': String(timestamp), 'X-Svc-Signature': `v1=${hmac(body, timestamp, secret)}` };
}

/** The envelope as the service writes it (contract 6.3). */
export function envelope(fields: Record<string, unknown> = {}): Record<string, unknown> {
  const { cursor = '1', type = 'MessageReceived' } = fields;
  return {
    id: `evt_${String(cursor)}`,
    type,
    created_at: '2026-01-01T11:59:58.000Z',
    cursor,
    session_id: '11111111-1111-4111-8111-111111111111',
    webhook_id: 'wh_1',
    data: { [String(type)]: message() },
    ...fields,
  };
}

export function message(fields: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    session_id: '11111111-1111-4111-8111-111111111111',
    from: 'writer@network',
    body: 'hello',
    message_id: 'msg_1',
    is_group: false,
    timestamp_unix_ms: T0 - 2_000,
    message_type: 'text',
    push_name: 'Writer',
    ...fields,
  };
}

export function bodyOf(fields: Record<string, unknown> = {}): Buffer {
  return Buffer.from(JSON.stringify(envelope(fields)));
}

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  text: string;
}

export interface Sent {
  method?: string;
  path?: string;
  headers?: OutgoingHttpHeaders;
  agent?: Agent;
}

/** Sends one request with exactly these headers. */
export function send(
  port: number,
  body: Uint8Array | string,
  { method = 'POST', path = PATH, headers = {}, agent }: Sent = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ host: '127.0.0.1', port, method, path, headers, agent: agent ?? false }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => void (text += chunk));
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
      answer.on('error', reject);
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

/** Sends one signed delivery and returns its status. `headers` are added to the signed headers, or replace them. */
export async function deliver(
  port: number,
  body: Uint8Array | string,
  headers: OutgoingHttpHeaders = {},
  agent?: Agent,
): Promise<number> {
  const { status } = await send(port, body, { headers: { ...signed(body), ...headers }, ...(agent ? { agent } : {}) });
  return status;
}

export interface Line {
  socket: Socket;
  /** Everything received so far. */
  text(): string;
  write(bytes: Uint8Array | string): void;
  /** Resolves when the received text contains this, or when the other side has closed. */
  heard(what: string | RegExp): Promise<string>;
  /** Resolves with everything received when the connection is closed. */
  closed(): Promise<string>;
  broken(): boolean;
}

/** A raw connection, which closes when the test ends. A stubborn one can still send after the server has ended. */
export async function openLine(port: number, { stubborn = false } = {}): Promise<Line> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: stubborn });
  let text = '';
  let broken = false;
  socket.on('data', (chunk) => void (text += chunk.toString('latin1')));
  socket.on('error', () => void (broken = true));
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  return {
    socket,
    text: () => text,
    write: (bytes) => void socket.write(bytes),
    async heard(what) {
      await until(() => (typeof what === 'string' ? text.includes(what) : what.test(text)) || socket.closed);
      return text;
    },
    async closed() {
      await until(() => socket.closed);
      return text;
    },
    broken: () => broken,
  };
}

/** Writes these bytes. Returns all received text, once the first answer is complete or the connection is closed. */
export async function raw(port: number, ...bytes: (Uint8Array | string)[]): Promise<string> {
  const line = await openLine(port);
  for (const part of bytes) line.write(part);
  const text = await line.heard(/^HTTP\/1\.1 [2-5]\d\d[^]*?\r\n\r\n/);
  line.socket.destroy();
  return text;
}

/** The bytes of a request's head, with header lines in this order and spelling. */
export function head(lines: (readonly [string, string] | string)[], start = `POST ${PATH} HTTP/1.1`): string {
  const text = lines.map((line) => (typeof line === 'string' ? line : `${line[0]}: ${line[1]}`));
  return [start, 'Host: receiver', ...text, '', ''].join('\r\n');
}

/** The header lines of a validly signed delivery, as pairs. */
export function pairs(body: Uint8Array | string, length = true): [string, string][] {
  const lines = Object.entries(signed(body)).map(([name, value]): [string, string] => [name, String(value)]);
  return length ? [...lines, ['Content-Length', String(Buffer.byteLength(body))]] : lines;
}

export function statuses(text: string): number[] {
  return [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status));
}

/** Targets of requests that Node accepts and Koa cannot parse. */
export const UNREADABLE_TARGETS = ['http://[::1/x', 'http://a|b/webhooks', 'http://%zz@a/webhooks', 'http://a:b:c/'];

/** Polls until the condition holds. Throws after the limit. */
export async function until(holds: () => boolean, what = 'the condition', limitMs = 10_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`waited too long for ${what}`);
    await pause(2);
  }
}

export interface Kept {
  events: { id: string | null; cursor: string | null; flags: string; body: Buffer }[];
  quarantine: { reason: string; body: Buffer }[];
}

/** The stored rows, in order of arrival. */
export function kept(file: StoreFile): Kept {
  return {
    events: file.query('select id, cast(cursor as text) as cursor, flags, body from events order by seq'),
    quarantine: file.query('select reason, body from quarantine order by id'),
  };
}

/** The number of rows in all tables that a delivery can write to. */
export function rows(file: StoreFile): number {
  const [row] = file.query<{ n: number }>(
    'select (select count(*) from events) + (select count(*) from quarantine) + (select count(*) from conflicts) as n',
  );
  return row?.n ?? 0;
}
