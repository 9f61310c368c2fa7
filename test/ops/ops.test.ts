// The ops port over real HTTP: who may do what, and what the answers are.
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from '../../src/base/log.ts';
import { loadConfig } from '../../src/config.ts';
import { startOps } from '../../src/ops/server.ts';
import { report } from '../operations/fixture.ts';
import { createWorld, type World } from '../store/fixture.ts';

const [ALL, READ] = ['all-all-all-all-all', 'read-read-read-read'];

interface Asked {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
}

async function startWorld(env: Record<string, string> = {}) {
  const world = await createWorld().begin();
  await world.accept({ cursor: 1, id: 'a' });
  await world.settle();
  await report(world);
  const base = { WEBHOOK_SECRET: 'whsec_x', OPS_PORT: '0', DATABASE_URL: `sqlite:${world.file}` };
  const [config, log] = [loadConfig({ ...base, ...env }), createLog('keep', 'silent')];
  const server = await startOps({ db: world.people, config, log });
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  /** Unlike fetch, it lets a test set Host and Origin. */
  const ask = (path: string, { method = 'GET', headers = {}, body }: Asked = {}) =>
    new Promise<{ status: number; body: string }>((resolve, reject) => {
      const type = body === undefined ? {} : { 'content-type': 'application/json' };
      const sent = request({ port, path, method, headers: { ...type, ...headers }, agent: false }, (answer) => {
        text(answer).then((all) => resolve({ status: answer.statusCode ?? 0, body: all }), reject);
      });
      sent.on('error', reject).end(body);
    });
  return { world, ask };
}

const PAUSE = { method: 'POST', body: '{"handler":"h"}' };
const isPaused = (world: World): unknown => world.value('select paused from handlers');
const basic = (password: string): string => `Basic ${Buffer.from(`kit:${password}`).toString('base64')}`;

test('the status has exactly the fields that it promises', async () => {
  const { ask } = await startWorld();
  const { status, body } = await ask('/api/status');
  expect([status, JSON.parse(body)]).toEqual([
    200,
    {
      headline: { level: 'ok', text: 'Deliveries are taken and handled: 1 task waiting or running' },
      version: expect.stringMatching(/^\d+\.\d+\.\d+/) as string,
      ...{ events: 1, behind: 0, duplicates: 0, quarantined: 0 },
      tasks: { waiting: 1, running: 0, done: 0, skipped: 0, dead: 0 },
      oldestWaitingSeconds: null,
      ...{ watermark: null, floor: null, newestCursor: '1', gaps: 0, failuresInARow: 0 },
      reconcile: { state: 'idle', lastAt: '1970-01-01T00:16:40.000Z', reason: null, recovered: 0 },
      alarms: [],
      handlers: [{ name: 'h', state: 'running', waiting: 1, dead: 0 }],
      processes: { receive: 'up', run: 'up', keep: 'up' },
      instances: 1,
    },
  ]);
});

test('every operation that reads is a GET, and one that changes is a POST', async () => {
  const { ask, world } = await startWorld();
  for (const path of ['events?type=A', 'tasks?handler=h', 'handlers', 'quarantine', 'explain?event=a'])
    expect([path, (await ask(`/api/${path}`)).status]).toEqual([path, 200]);
  expect((await ask('/api/pause?handler=h')).status).toBe(405);
  expect(isPaused(world)).toBe(0);
  expect(await ask('/api/pause', PAUSE)).toEqual({ status: 200, body: '{"handler":"h","paused":true}' });
  expect(isPaused(world)).toBe(1);
});

test.each<[string, string, Asked, number]>([
  ['an unknown parameter', '/api/events?sesion=1', {}, 400],
  ['a parameter twice', '/api/events?type=A&type=B', {}, 400],
  ['a change without what it needs', '/api/pause', { method: 'POST', body: '{}' }, 400],
  ['a change with something unknown', '/api/pause', { method: 'POST', body: '{"handler":"h","x":1}' }, 400],
  ['discarding without a filter', '/api/discard', PAUSE, 400],
  ['a body that is no JSON', '/api/pause', { method: 'POST', body: '{' }, 400],
  ['a body that is too large', '/api/pause', { method: 'POST', body: `{"handler":"${'x'.repeat(70_000)}"}` }, 413],
  ['the data of an event by GET', '/api/explain?event=a&data=true', {}, 400],
  ['what strangers wrote by GET', '/api/events?text=1555', {}, 400],
])('%s is refused with a reason', async (_, path, asked, status) => {
  const { ask, world } = await startWorld();
  const answer = await ask(path, asked);
  expect(answer.status).toBe(status);
  expect(JSON.parse(answer.body)).toEqual({ error: expect.stringMatching(/\w/) as string });
  expect(isPaused(world)).toBe(0);
});

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
test.each<[string, boolean, Asked['headers'], number, number]>([
  ['by this machine, without tokens', false, { host: 'localhost:3001' }, 200, 200],
  ['by its own page', false, { host: 'localhost:3001', origin: 'http://localhost:3001' }, 200, 200],
  ['by a name that was rebound to it', false, { host: 'evil.example' }, 403, 403],
  ['by a page of another site', false, { origin: 'https://evil.example' }, 403, 403],
  ['by a page of another site that has the token', true, { origin: 'null', ...bearer(ALL) }, 403, 403],
  ['without a token that it needs', true, {}, 401, 401],
  ['with a wrong token', true, bearer('wrong'), 401, 401],
  ['with an empty token', true, { authorization: 'Bearer ' }, 401, 401],
  ['with a token for readers', true, bearer(READ), 200, 403],
  ['with the token', true, bearer(ALL), 200, 200],
  ['with the token as a password, by another name', true, { host: 'kit.example', authorization: basic(ALL) }, 200, 200],
])('asked %s', async (_, hasTokens, headers, reading, changing) => {
  const { ask, world } = await startWorld(hasTokens ? { OPS_TOKEN: ALL, OPS_READ_TOKEN: READ } : {});
  const asked = headers ? { headers } : {};
  expect((await ask('/api/status', asked)).status).toBe(reading);
  expect((await ask('/api/pause', { ...PAUSE, ...asked })).status).toBe(changing);
  expect(isPaused(world)).toBe(changing === 200 ? 1 : 0);
});

test('what strangers wrote is shown with the token alone', async () => {
  const { ask } = await startWorld({ OPS_TOKEN: ALL, OPS_READ_TOKEN: READ });
  const data = (token: string) =>
    ask('/api/explain', { method: 'POST', body: '{"event":"a","data":true}', headers: bearer(token) });
  expect((await data(READ)).status).toBe(403);
  expect(await data(ALL)).toEqual({ status: 200, body: expect.stringContaining('"body"') as string });
});

test('metrics are few, and have no label that a sender could choose', async () => {
  const { ask, world } = await startWorld();
  await world.accept({ cursor: 2, type: 'Hostile-Type' });
  const { status, body } = await ask('/metrics');
  const names = [...body.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name);
  expect([status, names.length <= 30, body.includes('Hostile')]).toEqual([200, true, false]);
  expect(body).toContain('kit_handler_waiting{handler="h"} 1');
});

test('it is ready while the main process gives signs of life, and alive without', async () => {
  const { ask, world } = await startWorld();
  expect((await ask('/readyz')).status).toBe(200);
  world.now += 11_000;
  expect([(await ask('/readyz')).status, (await ask('/livez')).status]).toEqual([503, 200]);
});
