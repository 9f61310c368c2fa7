// Runs the kit as real processes on a store of its own, sends signed deliveries, and kills processes.
import { spawn, type ChildProcess } from 'node:child_process';
import { createHmac, randomInt } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';

export const SECRET = 'whsec_of_the_system_tests';

/** The receiver of deliveries. */
export interface Target {
  port: number;
  /** The sender's clock, used for signing. */
  now?: () => number;
  /** How long to wait for an answer, milliseconds. Undefined: no limit. */
  timeoutMs?: number;
  /** Connections of its own. The shared ones are few, so that many unanswered deliveries would delay others. */
  agent?: Agent;
}

export interface Kit extends Target {
  folder: string;
  opsPort: number;
  output: () => string;
  /**
   * Resolves when the kit is ready for deliveries. The ops port opens later: wait for `alive('keep')`. Rejects with the
   * output if the kit ends first.
   */
  start(): Promise<void>;
  /**
   * Reloads the kit, whose configuration must have no fault. Resolves when the new `keep` is ready: the old one answers
   * at the ops port until the reload is nearly over, and closes the port then.
   */
  reload(): Promise<void>;
  /** The exit code. Null if a signal ended the process. */
  exited: () => Promise<number | null>;
  signal(signal: NodeJS.Signals): void;
  /** Sends SIGKILL to all processes of the kit. */
  killAll(): Promise<void>;
  stop(): Promise<number | null>;
  remove(): Promise<void>;
  query<Row>(sql: string, ...values: unknown[]): Row[];
  pid(role: string): number | undefined;
  /** Resolves to the pid of this role's process, which is not `before`, once the process has given a sign of life. */
  alive(role: string, before?: number): Promise<number>;
  /** The pid of the process that `start` made, available at once. */
  main(): number | undefined;
  addHandler(name: string, source: string): void;
}

/** `under` is a command that runs the kit, such as a tracer. `root` is the folder of the project. */
export async function createKit(
  handlers: Record<string, string> = {},
  env: Record<string, string> = {},
  under: string[] = [],
  root = '.',
): Promise<Kit> {
  const folder = mkdtempSync(join(tmpdir(), 'kit-system-'));
  mkdirSync(join(folder, 'handlers'));
  const database = env['DATABASE_URL']?.slice('sqlite:'.length) ?? join(folder, 'events.db');
  const port = await freePort();
  const opsPort = await freePort();
  let child: ChildProcess | undefined;
  let output = '';

  const kit: Kit = {
    folder,
    port,
    opsPort,
    output: () => output,
    async start() {
      output = '';
      const [launch, main] = [resolve(root, 'src/base/node/launch.js'), resolve(root, 'src/main.ts')];
      const [command, ...args] = [...under, process.execPath, '--max-semi-space-size=16', launch, main];
      child = spawn(command, args, {
        cwd: folder,
        stdio: ['ignore', 'pipe', 'pipe'],
        env: {
          PATH: process.env['PATH'],
          WEBHOOK_SECRET: SECRET,
          PORT: String(port),
          OPS_PORT: String(opsPort),
          HANDLERS_DIR: join(folder, 'handlers'),
          DATABASE_URL: `sqlite:${database}`,
          ...env,
        },
      });
      child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()));
      child.stderr?.on('data', (chunk: Buffer) => (output += chunk.toString()));
      const ended = kit.exited().then((code) => {
        throw new Error(`the kit ended with ${code ?? child?.signalCode}:\n${output}`);
      });
      await Promise.race([until(() => output.includes('ready for deliveries')), ended]);
      ended.catch(() => {});
    },
    async reload() {
      const before = await kit.alive('keep');
      const from = output.length;
      kit.signal('SIGHUP');
      // The first new `keep` may be that of a reload before, which had a fault.
      await until(() => /secrets and handlers reloaded[^]*the page is at/.test(output.slice(from)));
      await kit.alive('keep', before);
    },
    exited: () =>
      new Promise((done) => {
        if (!child || child.exitCode !== null || child.signalCode !== null) done(child?.exitCode ?? null);
        else child.once('close', (code) => done(code));
      }),
    signal: (signal) => void child?.kill(signal),
    async killAll() {
      const pids = kit.query<{ pid: number }>('select pid from processes').map((row) => row.pid);
      for (const pid of [child?.pid, ...pids]) if (pid) killQuietly(pid);
      await kit.exited();
    },
    async stop() {
      child?.kill('SIGTERM');
      return kit.exited();
    },
    async remove() {
      child?.kill('SIGKILL');
      await kit.exited();
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
    query<Row>(sql: string, ...values: unknown[]) {
      // Read-only, because a writer that opens the store alone would repair what a crash has left.
      const db = new Database(database, { readonly: true, timeout: 5_000 });
      try {
        return db.prepare<unknown[], Row>(sql).all(...values);
      } finally {
        db.close();
      }
    },
    main: () => child?.pid,
    pid: (role) => kit.query<{ pid: number }>('select pid from processes where role = ?', role)[0]?.pid,
    async alive(role, before) {
      let pid = before;
      await until(() => (pid = kit.pid(role)) !== undefined && pid !== before);
      return pid as number;
    },
    addHandler: (name, source) => writeFileSync(join(folder, 'handlers', `${name}.ts`), source),
  };
  for (const [name, source] of Object.entries(handlers)) kit.addHandler(name, source);
  return kit;
}

export interface TestEvent {
  id: string;
  cursor: string | null;
  session: string;
  from: string;
  body?: string;
}

export function makeEvent(n: number, lanes = 10): TestEvent {
  const lane = n % lanes;
  const session = `00000000-0000-4000-8000-${String(lane).padStart(12, '0')}`;
  return { id: `evt_${n}`, cursor: String(1_000 + n), session, from: `person-${lane}` };
}

export function dataOf(event: TestEvent): object {
  return {
    MessageReceived: {
      session_id: event.session,
      from: event.from,
      body: event.body ?? 'hello',
      message_id: `m-${event.id}`,
      is_group: false,
      timestamp_unix_ms: Date.now(),
      message_type: 'text',
      push_name: 'Ana',
    },
  };
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

/** The status, or 0 if there was no answer. */
export function deliver(kit: Target, event: TestEvent, secrets = [SECRET]): Promise<number> {
  const now = kit.now?.() ?? Date.now();
  const { id, cursor, session } = event;
  const envelope = {
    id,
    type: 'MessageReceived',
    created_at: new Date(now).toISOString(),
    cursor,
    session_id: session,
    webhook_id: 'w',
  };
  const body = JSON.stringify({ ...envelope, data: dataOf(event) });
  const timestamp = Math.floor(now / 1000);
  const sign = (secret: string): string =>
    `v1=${createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')}`;
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'Svc-Webhooks/1',
    'x-svc-event-id': id,
    'x-svc-event-type': envelope.type,
    'x-svc-delivery-id': `d-${id}`,
    'x-svc-attempt': 1,
    'x-svc-timestamp': timestamp,
    'x-svc-signature': secrets.map(sign).join(','),
  };
  return new Promise((done) => {
    const sent = request(
      { port: kit.port, host: '127.0.0.1', path: '/webhooks', method: 'POST', headers, agent: kit.agent ?? agent },
      (response) => {
        response.resume();
        response.on('end', () => done(response.statusCode ?? 0));
        response.on('error', () => done(0));
      },
    );
    sent.on('error', () => done(0));
    if (kit.timeoutMs !== undefined) sent.setTimeout(kit.timeoutMs, () => sent.destroy());
    sent.end(body);
  });
}

/** Sends deliveries at a steady rate until `stop`. `secrets` returns the secrets to sign with at that moment. */
export function load(
  kit: Target,
  perSecond: number,
  from = 0,
  secrets = (): string[] => [SECRET],
): { acknowledged: Set<string>; statuses: Map<number, number>; stop(): Promise<number> } {
  const acknowledged = new Set<string>();
  const statuses = new Map<number, number>();
  const pending = new Set<Promise<void>>();
  let n = from;
  const send = async (event: TestEvent): Promise<void> => {
    const status = await deliver(kit, event, secrets());
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    if (status === 204) acknowledged.add(event.id);
  };
  const timer = setInterval(() => {
    for (let i = 0; i < perSecond / 50; i++) {
      const sending = send(makeEvent(n++));
      pending.add(sending);
      void sending.finally(() => pending.delete(sending));
    }
  }, 20);
  return {
    acknowledged,
    statuses,
    async stop() {
      clearInterval(timer);
      await Promise.all(pending);
      return n;
    },
  };
}

/**
 * Polls. After the limit it throws an error that quotes the code of the condition. The limit is long, because a start
 * may wait for handlers that block their process, on a machine that others use.
 */
export async function until(holds: () => boolean | Promise<boolean>, limitMs = 120_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`waited ${limitMs} ms in vain for ${holds.toString()}`);
    await sleep(20);
  }
}

const given = new Set<number>();

/**
 * A free port below the ephemeral range, because a client could get an ephemeral port while the kit is down. No port is
 * given twice, because a kit that starts or restarts has not opened its ports yet.
 */
export function freePort(): Promise<number> {
  const port = randomInt(10_000, 32_768);
  if (given.has(port)) return freePort();
  given.add(port);
  return new Promise((done) => {
    const server = createServer();
    server.once('error', () => done(freePort()));
    server.listen(port, '127.0.0.1', () => void server.close(() => done(port)));
  });
}

export function killQuietly(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}

/** A handler that writes each event into the table `seen`, in the same transaction as the task's completion. */
export const RECORD = `
import { defineHandler } from '#kit';
export default defineHandler({
  on: 'MessageReceived',
  retry: { attempts: 5, firstMs: 10, maxMs: 50 },
  setup(tx) { tx.run('create table if not exists seen (n integer primary key, key text, cursor integer, lane text, late integer)'); },
  async handle(event, ctx) {
    await ctx.complete((tx) => {
      tx.run('insert into seen (key, cursor, lane, late) values (?, ?, ?, ?)', event.key, event.cursor, event.sessionId + '/' + event.data.from, ctx.late ? 1 : 0);
    });
  },
});
`;
