// The whole receiver, as real processes on a store of its own: what must still hold after an update of the kit. None of
// your handlers run here.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { fixture, signedRequest } from '../src/testing.ts';

const SECRET = 'whsec_of_the_receiver_test';
const HANDLER = `
import { defineHandler } from '#kit';
export default defineHandler({ on: 'MessageReceived', order: 'arrival', handle() {} });
`;
/** A start compiles the kit, on a machine that may be busy. */
const wait = { timeout: 60_000, interval: 20 };

let folder: string;
let address: string;
let receiver: ChildProcess;
let output = '';

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'receiver-test-'));
  mkdirSync(join(folder, 'handlers'));
  writeFileSync(join(folder, 'handlers', 'seen.ts'), HANDLER);
  const [port, opsPort] = await freePorts();
  address = `http://127.0.0.1:${port}/webhooks`;
  const env = {
    PATH: process.env['PATH'],
    WEBHOOK_SECRET: SECRET,
    PORT: String(port),
    OPS_PORT: String(opsPort),
    HANDLERS_DIR: join(folder, 'handlers'),
    DATABASE_URL: `sqlite:${join(folder, 'events.db')}`,
  };
  receiver = spawn(process.execPath, [resolve('src/main.ts')], { cwd: folder, env });
  for (const stream of [receiver.stdout, receiver.stderr]) stream?.on('data', (chunk) => (output += String(chunk)));
  await vi.waitUntil(() => output.includes('ready for deliveries') || receiver.exitCode !== null, wait);
  expect(receiver.exitCode, output).toBeNull();
}, wait.timeout);

afterAll(async () => {
  if (receiver.exitCode === null) {
    receiver.kill('SIGKILL');
    await once(receiver, 'close');
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
});

async function freePorts(): Promise<number[]> {
  const servers = await Promise.all(
    [0, 0].map(async (port) => {
      const server = createServer().listen(port, '127.0.0.1');
      await once(server, 'listening');
      return server;
    }),
  );
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => once(server.close(), 'close')));
  return ports;
}

async function deliver(secret: string): Promise<number> {
  const { headers, body } = signedRequest(fixture('MessageReceived'), { secret });
  return (await fetch(address, { method: 'POST', headers, body: new Uint8Array(body) })).status;
}

function states(): unknown[] {
  const db = new Database(join(folder, 'events.db'), { readonly: true });
  try {
    return db.prepare('select state from tasks').pluck().all();
  } finally {
    db.close();
  }
}

test('a signed delivery is stored and handled, a forged one is refused', async () => {
  expect(await deliver(SECRET)).toBe(204);
  await vi.waitUntil(() => states().includes('done'), wait);
  expect(await deliver('whsec_of_somebody_else')).toBe(401);
  expect(states()).toEqual(['done']);
}, 60_000);

test('SIGTERM ends it, with exit code 0', async () => {
  receiver.kill('SIGTERM');
  const [code] = (await once(receiver, 'close')) as [number | null];
  expect(code, output).toBe(0);
}, 60_000);
