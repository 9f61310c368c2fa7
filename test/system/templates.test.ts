// Runs every template: in a real kit beside the simulator, and as `npx kit new` writes it, in `npm run dev`.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { createSimulatedService } from '../../src/tools/simulator/service.ts';
import { SECRET, until } from './kit.ts';
import { newKit } from './new-kit.ts';

const names = readdirSync('templates')
  .filter((file) => /^[^.]+\.ts$/.test(file))
  .map((file) => file.replace('.ts', ''));

const forwarded = new Set<string>();
let notices = 0;
const endpoint = createServer((request, response) => {
  if (request.url === '/notices') notices++;
  else forwarded.add(String(request.headers['idempotency-key']));
  request.resume().on('end', () => response.writeHead(204).end());
});
/** The variables that the templates need. */
let needed: Record<string, string>;
beforeAll(async () => {
  await once(endpoint.listen(0, '127.0.0.1'), 'listening');
  const address = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}`;
  needed = {
    FORWARD_URL: `${address}/events`,
    FORWARD_SECRET: 'of the test',
    HANDOFF_TO: 'user-1',
    NOTIFY_URL: `${address}/notices`,
  };
});
afterAll(() => {
  endpoint.closeAllConnections();
  endpoint.close();
});

test('every template handles its events', async () => {
  const service = createSimulatedService({ seed: 1, addresses: { loopback: true } });
  onTestFinished(() => service.close());
  const scopes = ['events:read', 'product:inbox', 'messages:send'];
  const { key, secret } = service.keys.create({ name: 'templates', scopes, validDays: 30 });
  const api = { API_BASE_URL: await service.listen(), API_KEY: secret, PAID_OPERATIONS: 'allow' };
  const kit = await newKit({}, { HANDLERS_DIR: resolve('templates'), ...api, ...needed });
  await kit.start();
  await service.webhooks.register(key, { url: `http://127.0.0.1:${kit.port}/webhooks`, secret: SECRET });
  const [session = ''] = service.history.numbers;
  const write = (n: number, data: object) =>
    service.happen(1, 'MessageReceived', {
      sessionId: session,
      data: { session_id: session, from: `1555010${n}`, ...data },
    });
  forwarded.clear();
  notices = 0;
  for (const n of [1, 1, 2, 3]) write(n, { body: 'hello' });
  write(4, { body: 'a person, please' });
  write(5, { body: 'Sair!' });
  write(6, { body: '', message_type: 'image', media_asset_id: 'a-picture' });
  for (const status of ['READ', 'SENT'])
    service.happen(1, 'MessageStatusUpdated', { sessionId: session, data: { message_id: 'm1', status } });
  // The data of a bare event name no status.
  service.happen(1, 'MessageStatusUpdated', { bare: 'on' });

  const tasks = () => kit.query<{ name: string; state: string; n: number }>(TASKS);
  // Each of 7 messages gives a task to 7 templates. Each of 3 updates gives one to forward-http and to delivery-status,
  // and each of the 5 replies gives one to forward-http. The second message of a burst and the opt-out get no reply.
  await until(() => tasks().reduce((sum, { n }) => sum + n, 0) === 7 * 7 + 3 * 2 + 5);
  expect(tasks()).toEqual([
    { name: 'auto-reply', state: 'done', n: 5 },
    { name: 'auto-reply', state: 'skipped', n: 2 },
    { name: 'conversations', state: 'done', n: 7 },
    { name: 'delivery-status', state: 'done', n: 2 },
    { name: 'delivery-status', state: 'skipped', n: 1 },
    { name: 'forward-http', state: 'done', n: 15 },
    { name: 'handoff', state: 'done', n: 7 },
    { name: 'notify', state: 'done', n: 7 },
    { name: 'opt-out', state: 'done', n: 7 },
    { name: 'save-media', state: 'done', n: 1 },
    { name: 'save-media', state: 'skipped', n: 6 },
  ]);
  expect(kit.query('select sum(unread) as n from conversations')).toEqual([{ n: 7 }]);
  expect(kit.query('select status from delivery_status')).toEqual([{ status: 'read' }]);
  expect(kit.query('select peer, state from opt_out')).toEqual([{ peer: '15550105', state: 'out' }]);
  const [{ file } = { file: '' }] = kit.query<{ file: string }>('select file from save_media');
  expect(readFileSync(join(kit.folder, 'data/media', file), 'utf8')).toBe('not much of a picture');
  expect(forwarded.size).toBe(15);
  expect(notices).toBe(7);
});

const TASKS = `select handlers.name, tasks.state, count(*) as n from tasks join handlers on handlers.id = tasks.handler
  where tasks.state in ('done', 'skipped', 'dead') group by 1, 2 order by 1, 2`;

/** Scaffolds every template into a new folder, and starts `npm run dev` there. */
function startDev(env: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'kit-templates-'));
  for (const inside of ['handlers', 'temp']) mkdirSync(join(folder, inside));
  const own = {
    PATH: process.env['PATH'],
    HANDLERS_DIR: join(folder, 'handlers'),
    TMPDIR: join(folder, 'temp'),
    ...env,
  };
  for (const name of names)
    execFileSync(process.execPath, [resolve('src/cli/kit.js'), 'new', name, `my-${name}`], { cwd: folder, env: own });
  const child = spawn(process.execPath, [resolve('src/tools/dev/main.ts'), '--traffic'], { cwd: folder, env: own });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  onTestFinished(async () => {
    child.kill('SIGTERM');
    await until(() => child.exitCode !== null || child.signalCode !== null);
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  });
  return () => output;
}

test('as scaffolded, every template works in npm run dev with the variables that it needs', async () => {
  const output = startDev(needed);
  // The simulated events bring no gap.
  const waiting = names.filter((name) => name !== 'fill-gap');
  const ended = (name: string): boolean => new RegExp(` my-${name} +(done|skipped) `).test(output());
  await until(() => waiting.every(ended));
  expect(output()).not.toMatch(/ my-[\w-]+ +(retry|dead) |broken|fault/);
});

test('as scaffolded, a template says in one line in npm run dev which variable it lacks', async () => {
  const output = startDev({});
  await until(() => output().includes('it starts again when you save a file'));
  const lines = output()
    .split('\n')
    .filter((line) => line.includes('handlers/my-'));
  expect(lines.map((line) => /my-([\w-]+)\.ts:\d+: .*: (set \w+)/.exec(line)?.slice(1))).toEqual([
    ['forward-http', 'set FORWARD_URL'],
    ['handoff', 'set HANDOFF_TO'],
    ['notify', 'set NOTIFY_URL'],
  ]);
});
