// Plants faults in the handlers, and between `doctor` and a running receiver. The receiver is a real process on a real
// store. Small HTTP servers stand in for proxies.
import { rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { CHECKS } from '../../src/cli/commands/doctor.ts';
import { examine, exitOf } from '../../src/cli/doctor/check.ts';
import { handlers } from '../../src/cli/doctor/handlers.ts';
import { file, folder } from '../../src/cli/doctor/store.ts';
import { receiver, roundTrip } from '../../src/cli/doctor/trip.ts';
import type { Env } from '../../src/config.ts';
import { systemClock as clock } from '../../src/base/clock.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { createFolder } from '../run/fixture.ts';
import { createKit, SECRET, type Kit } from '../system/kit.ts';
import { closed, see, serve } from './harness.ts';

let at: string;
beforeEach(() => {
  at = createFolder();
});

test.each([
  ['a syntax error', 'export default {', 'broken.ts', 'fault'],
  ['no default export', 'export const x = 1;', 'broken.ts: has no default export', 'fault'],
  ['a file that ends the process', 'process.exit(3);', 'broken.ts:1: ended its process (exit code 3) while', 'fault'],
  [
    'E60: a setup that fails',
    `export default { on: '*', handle() {},\nsetup() { throw new Error('no table'); } };`,
    'broken.ts:2: setup of handler broken failed: no table → fix the file',
    'fault',
  ],
  [
    'E60: a setup that minds what it has made',
    `export default { on: '*', handle() {}, setup(tx) {\ntx.run('create table mine (n)'); } };`,
    'broken.ts:2: setup of handler broken failed: ',
    'fault',
  ],
  [
    'a list that makes each table once',
    `export default { on: '*', handle() {}, setup: ['create table mine (n)', (tx) => tx.run('drop table mine')] };`,
    '1 loaded: broken',
    'ok',
  ],
  [
    'a step that fails',
    `export default { on: '*', handle() {}, setup: ['create table mine (n)', 'create table mine (n)'] };`,
    'broken.ts: setup of handler broken failed in step 2: ',
    'fault',
  ],
  [
    'E60: a setup that ends the process',
    `export default { on: '*', handle() {}, setup() { process.exit(0); } };`,
    'broken.ts:1: ended its process (exit code 0) during its setup',
    'fault',
  ],
  [
    'E61: a type that is misspelt',
    `export default { on: 'MesageReceived', handle() {} };`,
    'did you mean MessageReceived? → fix `on`',
    'warning',
  ],
  ['no handlers', undefined, 'events are stored and wait → write one', 'warning'],
  ['a good one', `export default { on: '*', handle() {} };`, '1 loaded: broken', 'ok'],
])('handlers: %s', async (_, source, words, state) => {
  if (source !== undefined) writeFileSync(join(at, 'broken.ts'), source);
  const { text, exit } = await see([handlers], { HANDLERS_DIR: at, PATH: process.env['PATH'] });
  expect(text).toContain(`${state} handlers: `);
  expect(text).toContain(words);
  expect(exit).toBe(state === 'fault' ? 78 : 0);
});

describe('the round trip', () => {
  let kit: Kit;
  let env: Env;

  beforeAll(async () => {
    kit = await createKit();
    await kit.start();
    const DATABASE_URL = `sqlite:${kit.folder}/events.db`;
    env = { PORT: String(kit.port), DATABASE_URL, HANDLERS_DIR: join(kit.folder, 'handlers') };
  });
  afterAll(() => kit.remove());

  interface Change {
    headers?: (headers: NodeJS.Dict<string | string[]>) => void;
    body?: (body: Buffer) => Buffer;
    path?: string;
    method?: string;
  }

  /** Forwards deliveries with these changes. If `instead` returns a status, the proxy answers with it itself. */
  function proxy(change: Change, instead: (body: Buffer) => number | undefined = () => undefined): Promise<string> {
    return serve((incoming, response) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.on('end', () => {
        const body = change.body?.(Buffer.concat(chunks)) ?? Buffer.concat(chunks);
        const status = instead(body);
        if (status !== undefined) {
          response.writeHead(status, { location: 'https://elsewhere.example/x?token=hidden' }).end();
          return;
        }
        const headers = { ...incoming.headers, 'content-length': String(body.length) };
        change.headers?.(headers);
        const { path = '/webhooks', method = 'POST' } = change;
        const passed = request({ host: '127.0.0.1', port: kit.port, path, method, headers }, (answer) => {
          answer.resume();
          response.writeHead(answer.statusCode ?? 0).end();
        });
        passed.end(body);
      });
    });
  }

  const rewrite = (body: Buffer): Buffer => Buffer.from(JSON.stringify(JSON.parse(body.toString())));
  const strip = (name: string) => (headers: NodeJS.Dict<string | string[]>) => delete headers[name];

  test.each<[string, Change, ((body: Buffer) => number | undefined) | undefined, string, number]>([
    ['rewrites JSON', { body: rewrite }, undefined, 'changes its body → let it pass bodies untouched', 78],
    ['adds a byte', { body: (b) => Buffer.concat([b, b.subarray(0, 1)]) }, undefined, 'changes its body', 78],
    ['strips the signature', { headers: strip('x-svc-signature') }, undefined, 'strips the Signature header', 78],
    ['strips the timestamp', { headers: strip('x-svc-timestamp') }, undefined, 'strips the Timestamp header', 78],
    ['asks for a login', {}, () => 401, 'a login of its own: take this path out', 78],
    ['redirects', {}, () => 301, 'to https://elsewhere.example/x → the service follows none', 78],
    ['limits size', {}, ({ length }) => (length > 1_000_000 ? 413 : undefined), 'client_max_body_size 13m', 78],
    ['answers itself', {}, () => 204, 'another server answers → find the server', 78],
    ['does not pass the path', {}, () => 404, 'by the proxy → let it pass POST /webhooks to port', 78],
    ['passes another path', { path: '/' }, undefined, 'by the receiver → the proxy changes path or method', 78],
    ['changes the method', { method: 'PUT' }, undefined, 'by the receiver → the proxy changes path or method', 78],
    ['takes no POST', {}, () => 405, 'by the proxy → let it pass POST', 78],
    [
      'compresses',
      { headers: (headers) => (headers['content-encoding'] = 'gzip') },
      undefined,
      'compresses bodies → let it pass bodies as they come',
      78,
    ],
    ['does not reach the receiver', {}, () => 502, 'point it at port', 69],
  ])('a proxy that %s is named, with its remedy', async (_, change, instead, words, code) => {
    const { text, exit } = await see([receiver, roundTrip], env, await proxy(change, instead));
    expect(text).toContain('ok receiver: ');
    expect(text).toContain('fault round trip: ');
    expect(text).toContain(words);
    expect(text).not.toContain('hidden');
    expect(exit).toBe(code);
  });

  test('a proxy that refuses only content types that the service never sends is a warning', async () => {
    const picky = await serve((incoming, response) => {
      incoming.resume();
      if (incoming.headers['content-type'] !== 'application/json') return response.writeHead(415).end();
      const { headers, method } = incoming;
      const passed = request({ host: '127.0.0.1', port: kit.port, path: '/webhooks', method, headers }, (answer) => {
        answer.resume();
        response.writeHead(answer.statusCode ?? 0).end();
      });
      return incoming.pipe(passed);
    });
    const { text, exit } = await see([receiver, roundTrip], env, picky);
    expect(text).toContain('warning round trip: a delivery with an unusual content type was answered 415');
    expect(exit).toBe(0);
  });

  test('a refused connection and a TLS fault are told apart', async () => {
    const refused = await see([roundTrip], env, await closed());
    expect(refused).toMatchObject({ exit: 69, text: expect.stringContaining('start the proxy, open the port') });
    const plain = (await proxy({})).replace('http:', 'https:');
    const tls = await see([roundTrip], env, plain);
    expect(tls).toMatchObject({ exit: 78, text: expect.stringContaining('give it a certificate that is valid') });
  });

  test('a receiver without one of the secrets is reported before any proxy, and the remedy is a reload', async () => {
    const found = await see([receiver, roundTrip], { ...env, WEBHOOK_SECRET: `${SECRET},whsec_another_one_0123` });
    expect(found.text).toContain('the running receiver refuses secret 2 of 2 → npx kit reload');
    expect(found.text).toContain('skipped round trip: because receiver has a fault');
    expect(found.exit).toBe(78);
  });

  test('a receiver of another store, one of another path, and no receiver are told apart', async () => {
    openSqlite(join(at, 'other.db'), { owner: true }).close();
    const other = await see([receiver], { ...env, DATABASE_URL: `sqlite:${at}/other.db` });
    expect(other.text).toContain('give both the same DATABASE_URL');
    const path = await see([receiver], { ...env, WEBHOOK_PATH: '/other' });
    expect(path.text).toContain('answers 404 → it has another WEBHOOK_PATH');
    const none = await see([receiver], { ...env, PORT: '1' });
    expect(none).toMatchObject({ exit: 69, text: expect.stringContaining('start the receiver with npm start') });
  });

  test('if all is well, there is no fault, and only harmless pings were stored', async () => {
    const all = { WEBHOOK_SECRET: SECRET, PATH: process.env['PATH'], ...env };
    const findings = await Array.fromAsync(examine(CHECKS, { env: all, url: await proxy({}), clock }));
    expect(findings.filter(({ state }) => state === 'fault')).toEqual([]);
    expect(exitOf(findings)).toBe(0);
    expect(findings).toContainEqual(expect.objectContaining({ check: 'round trip', state: 'ok' }));
    expect(findings).toContainEqual(
      expect.objectContaining({ detail: `process ${kit.pid('receive')}, which receives, has this very file open` }),
    );
    const odd = kit.query(
      `select id from events where type <> 'webhook.ping' or cursor is not null or id not like 'doctor_%'`,
    );
    expect(odd).toEqual([]);
    expect(kit.query('select * from quarantine')).toEqual([]);
  });
});

test('a WAL that was deleted under the running receiver is found before the store is opened', async () => {
  const kit = await createKit();
  try {
    await kit.start();
    await kit.alive('keep');
    rmSync(join(kit.folder, 'events.db-wal'));
    const { text, exit } = await see([folder, file], { DATABASE_URL: `sqlite:${kit.folder}/events.db` });
    expect(text).toContain('stop the kit with SIGTERM: it still has what was acknowledged');
    expect(exit).toBe(1);
  } finally {
    await kit.remove();
  }
});
