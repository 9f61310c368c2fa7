// Runs single checks of doctor against servers of the test.
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished } from 'vitest';
import { systemClock as clock } from '../../src/base/clock.ts';
import { examine, exitOf, type Check } from '../../src/cli/doctor/check.ts';
import type { Env } from '../../src/config.ts';
import { SECRET } from '../system/kit.ts';

/** Runs these checks. Resolves to their findings as text, and to the exit code. */
export async function see(checks: Check[], env: Env, url?: string): Promise<{ text: string; exit: number }> {
  const found = [];
  for await (const one of examine(checks, { env: { WEBHOOK_SECRET: SECRET, ...env }, url, clock })) found.push(one);
  const text = found.map(({ state, check, detail, remedy }) => `${state} ${check}: ${detail} → ${remedy}`).join('\n');
  for (const secret of [SECRET, 'svc_test_key']) expect(text).not.toContain(secret);
  return { text, exit: exitOf(found) };
}

/** Starts a server that closes when the test ends. Resolves to its address. */
export async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise((done) => server.once('listening', done));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An address where nothing listens. */
export async function closed(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return `http://127.0.0.1:${port}`;
}
