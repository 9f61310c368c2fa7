// Plants faults one at a time, and expects each to be found, with its remedy. The receiver is a real process on a real
// store; what stands before it, and the service, are real HTTP servers of a few lines.
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { address } from '../../src/cli/doctor/address.ts';
import { kindOf } from '../../src/base/ip-address.ts';
import { examine, exitOf, type Check } from '../../src/cli/doctor/check.ts';
import { handlers } from '../../src/cli/doctor/handlers.ts';
import { clocks, key, replay } from '../../src/cli/doctor/service.ts';
import { configuration, secrets } from '../../src/cli/doctor/setup.ts';
import { alarms, file, folder } from '../../src/cli/doctor/store.ts';
import { receiver, roundTrip } from '../../src/cli/doctor/trip.ts';
import { diagnose } from '../../src/cli/commands/doctor.ts';
import { systemClock as clock } from '../../src/base/clock.ts';
import type { Env } from '../../src/config.ts';
import { startOf } from '../../src/base/process-start.ts';
import { fingerprintOf } from '../../src/store/sqlite/lock.ts';
import { openSqlite } from '../../src/store/sqlite/open.ts';
import { createKit, SECRET, until, type Kit } from '../system/kit.ts';

const servers: Server[] = [];
let at: string;

beforeEach(() => {
  at = mkdtempSync(join(tmpdir(), 'kit-doctor-'));
});
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
  rmSync(at, { recursive: true });
});

/** The states and texts of these checks alone, and the exit code. */
async function see(checks: Check[], env: Env, url?: string): Promise<{ text: string; exit: number }> {
  const found = [];
  for await (const one of examine(checks, { env: { WEBHOOK_SECRET: SECRET, ...env }, url, clock })) found.push(one);
  const text = found.map(({ state, check, detail, remedy }) => `${state} ${check}: ${detail} → ${remedy}`).join('\n');
  for (const secret of [SECRET, 'svc_test_key']) expect(text).not.toContain(secret);
  return { text, exit: exitOf(found) };
}

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  servers.push(server);
  await new Promise((done) => server.once('listening', done));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** An address where nothing listens. */
async function closed(): Promise<string> {
  const url = await serve(() => {});
  const server = servers.pop();
  await new Promise((done) => server?.close(done));
  return url;
}

describe('what lies on this machine', () => {
  test('every fault of the configuration is told, by name', async () => {
    const { text, exit } = await see([configuration], { PORT: 'x', OPS_TOKEN: 'short', API_KEY: 'k' });
    for (const name of ['PORT', 'OPS_TOKEN', 'API_BASE_URL']) expect(text).toContain(`fault configuration: ${name} `);
    expect(text).toContain('set it so in .env');
    expect(exit).toBe(78);
  });

  test.each([
    ['quotes', `"${SECRET}"`, 'holds quotes'],
    ['whitespace', `${SECRET},${SECRET}2 `, 'secret 2 of 2 holds whitespace'],
    ['no prefix', 'of_the_system_tests_123', 'does not begin with whsec_'],
    ['too short', 'whsec_abc123', 'has 6 characters'],
    ['a placeholder', 'whsec_your_secret_comes_here', 'is a placeholder'],
    ['one secret twice', `${SECRET},${SECRET}`, 'twice'],
  ])('a secret with %s is found without being shown', async (_, WEBHOOK_SECRET, words) => {
    const { text, exit } = await see([secrets], { WEBHOOK_SECRET });
    expect(text).toContain(words);
    expect(text).toContain('copy the whsec_… from the service again');
    expect(exit).toBe(78);
  });

  test('a secret in a file is judged by the text of the file', async () => {
    writeFileSync(join(at, 'secret'), ` ${SECRET}\n`);
    const env = { WEBHOOK_SECRET: undefined, WEBHOOK_SECRET_FILE: join(at, 'secret') };
    expect((await see([secrets], env)).text).toContain('holds whitespace');
    writeFileSync(join(at, 'secret'), `${SECRET}\n`);
    expect((await see([secrets], env)).exit).toBe(0);
  });

  test('a fault in a variable skips what needs it, and nothing else', async () => {
    const { text } = await see([folder, clocks], { DATABASE_URL: 'x' });
    expect(text).toContain('skipped store folder: because the configuration has faults in DATABASE_URL');
    expect(text).toContain('skipped clock: because API_BASE_URL is not set');
  });

  test.each<[string, () => void, string, number]>([
    ['a folder that is missing', () => {}, 'start the receiver once, or fix DATABASE_URL', 78],
    ['a store that is missing', () => mkdirSync(join(at, 'data')), 'start the receiver once with npm start', 69],
    ['a file of others', () => plant('create table theirs (x)'), 'is not a store of this kit', 78],
    ['a store of a newer kit', () => plant('pragma user_version = 99', true), 'update this clone', 78],
  ])('%s', async (_, prepare, words, code) => {
    prepare();
    const { text, exit } = await see([folder, file], { DATABASE_URL: `sqlite:${at}/data/events.db` });
    expect(text).toContain(words);
    expect(exit).toBe(code);
  });

  function plant(sql: string, ours = false): void {
    mkdirSync(join(at, 'data'));
    const path = join(at, 'data', 'events.db');
    if (ours) openSqlite(path, { owner: true }).close();
    new Database(path).exec(sql).close();
  }

  test.each([
    ['a syntax error', 'export default {', 'broken.ts', 'fault'],
    ['no default export', 'export const x = 1;', 'broken.ts: has no default export', 'fault'],
    ['a file that ends the process', 'process.exit(3);', 'ends the process (exit code 3)', 'fault'],
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
      'E60: a setup that ends the process',
      `export default { on: '*', handle() {}, setup() { process.exit(0); } };`,
      'broken.ts, in setup, ends the process',
      'fault',
    ],
    [
      'E61: a type that is misspelt',
      `export default { on: 'MesageReceived', handle() {} };`,
      'did you mean MessageReceived? → fix `on`',
      'warning',
    ],
    ['no handlers', undefined, 'events are stored and wait for nobody → write one', 'warning'],
    ['a good one', `export default { on: '*', handle() {} };`, '1 loaded: broken', 'ok'],
  ])('handlers: %s', async (_, source, words, state) => {
    if (source !== undefined) writeFileSync(join(at, 'broken.ts'), source);
    const { text, exit } = await see([handlers], { HANDLERS_DIR: at, PATH: process.env['PATH'] });
    expect(text).toContain(`${state} handlers: `);
    expect(text).toContain(words);
    expect(exit).toBe(state === 'fault' ? 78 : 0);
  });
});

describe('the service', () => {
  const error = (code: string, reason: string): string => JSON.stringify({ error: { code, reason, message: 'não' } });
  const page = JSON.stringify({ events: [], next_cursor: '', has_more: false });

  test.each<[string, number, string, string, number]>([
    ['an expired key', 401, error('UNAUTHENTICATED', 'API_AUTH_REQUIRED'), 'copy API_KEY whole', 78],
    ['a forbidden address', 403, error('FORBIDDEN', 'API_KEY_IP_FORBIDDEN'), `to the key's allowed IPs`, 78],
    ['a wrong path', 404, error('NOT_FOUND', 'RPC_METHOD_NOT_FOUND'), 'it ends in /v1', 78],
    ['a web page', 200, '<html>', 'no JSON', 78],
    ['an outage', 503, error('UNAVAILABLE', 'X'), 'try again later', 69],
    ['a key without events:read', 200, '{"key":{"scopes":["messages:send"]}}', 'the scope events:read', 78],
  ])('%s is told by its answer', async (_, status, body, words, code) => {
    const url = await serve((_request, response) => response.writeHead(status).end(body));
    const { text, exit } = await see([key, replay], { API_BASE_URL: `${url}/v1`, API_KEY: 'svc_test_key' });
    expect(text).toContain(words);
    expect(text).toContain('skipped replay: because api key has a fault');
    expect(exit).toBe(code);
  });

  test('a connection that is refused and a name that does not resolve are told apart', async () => {
    const API_KEY = 'svc_test_key';
    const refused = await see([key], { API_BASE_URL: `${await closed()}/v1`, API_KEY });
    expect(refused).toMatchObject({
      exit: 69,
      text: expect.stringContaining('(ECONNREFUSED) → fix its host and port'),
    });
    const unknown = await see([key], { API_BASE_URL: 'http://nothing.invalid/v1', API_KEY });
    expect(unknown).toMatchObject({ exit: 69, text: expect.stringContaining('does not resolve') });
  });

  test('a key that may not replay is told, whatever its identity says', async () => {
    const url = await serve(({ url: path }, response) =>
      path?.endsWith('ReplayEvents')
        ? response.writeHead(403).end(error('FORBIDDEN', 'X'))
        : response.end('{"permissions":"events:read groups:read"}'),
    );
    const { text, exit } = await see([key, replay], { API_BASE_URL: `${url}/v1`, API_KEY: 'svc_test_key' });
    expect(text).toContain('ok api key: accepted, with events:read, groups:read');
    expect(text).toContain('fault replay: ReplayEvents is forbidden (X) → give the key the scope events:read');
    expect(exit).toBe(78);
  });

  test('a good key reads one event', async () => {
    const url = await serve(({ url: path }, response) => response.end(path?.endsWith('ReplayEvents') ? page : '{}'));
    const { text, exit } = await see([key, replay], { API_BASE_URL: `${url}/v1`, API_KEY: 'svc_test_key' });
    expect(text).toContain('ok replay: the key reads events');
    expect(exit).toBe(0);
  });

  test.each([
    [0, 'ok clock'],
    [60, 'warning clock: this machine is 60 s behind the service → set the clock by NTP'],
    [-400, 'fault clock: this machine is 400 s ahead of the service → set the clock by NTP'],
  ])('a clock that is %d s apart', async (seconds, words) => {
    // Dates are whole seconds: half of one keeps the rounding off the edge.
    const date = (): string => new Date(Math.floor(clock.now() / 1000) * 1000 + seconds * 1000).toUTCString();
    const url = await serve((_request, response) => response.setHeader('Date', date()).end());
    const { text } = await see([clocks], { API_BASE_URL: `${url}/v1`, API_KEY: 'svc_test_key' });
    expect(text.replace(/\b(59|61) s/, '60 s').replace(/\b(399|401) s/, '400 s')).toContain(words);
  });
});

describe('the public address', () => {
  test.each([
    ['http://1.1.1.1/webhooks', 'is not https → put TLS in front'],
    ['https://1.1.1.1:3000/webhooks', 'the service delivers to 443 and 8443 only'],
    ['https://u:hidden@1.1.1.1/webhooks', 'the service refuses them: take them out'],
    ['https://1.1.1.1/hooks', 'not WEBHOOK_PATH /webhooks → make the two equal'],
    ['https://nothing.invalid/webhooks', 'which does not resolve → fix the name'],
    ['https://169.254.169.254/webhooks', 'the service delivers to public addresses only'],
    ['https://[::ffff:10.0.0.1]/webhooks', 'the service delivers to public addresses only'],
  ])('%s is refused', async (PUBLIC_URL, words) => {
    const { text, exit } = await see([address], { PUBLIC_URL });
    expect(text).toContain(words);
    expect(text).not.toContain('hidden');
    expect(exit).toBe(78);
  });

  test('one that the service would take', async () => {
    expect((await see([address], { PUBLIC_URL: 'https://1.1.1.1:8443/webhooks' })).exit).toBe(0);
  });

  test.each(['127.0.0.1', '10.1.2.3', '172.31.0.1', '192.168.1.1', '100.64.0.1', '169.254.169.254', '::1', 'fd00::1'])(
    '%s is not public',
    (ip) => {
      expect(kindOf(ip)).toBeDefined();
    },
  );
  test.each(['8.8.8.8', '172.32.0.1', '100.128.0.1', '2606:4700::1111'])('%s is public', (ip) => {
    expect(kindOf(ip)).toBeUndefined();
  });
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

  /** Passes deliveries on, changed so; or answers itself, where `instead` does. */
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
    ['answers itself', {}, () => 204, 'somebody else answers → see who answers', 78],
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

  test('one that minds only content types that the service never sends is a warning', async () => {
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

  test('a receiver with another secret is told to read it again, before any proxy is blamed', async () => {
    const found = await see([receiver, roundTrip], { ...env, WEBHOOK_SECRET: `${SECRET},whsec_another_one_0123` });
    expect(found.text).toContain('the running receiver refuses secret 2 of 2 → npx kit reload');
    expect(found.text).toContain('skipped round trip: because receiver has a fault');
    expect(found.exit).toBe(78);
  });

  test('a receiver of another store, of another path, and none at all are told apart', async () => {
    openSqlite(join(at, 'other.db'), { owner: true }).close();
    const other = await see([receiver], { ...env, DATABASE_URL: `sqlite:${at}/other.db` });
    expect(other.text).toContain('give both the same DATABASE_URL');
    const path = await see([receiver], { ...env, WEBHOOK_PATH: '/other' });
    expect(path.text).toContain('answers 404 → it has another WEBHOOK_PATH');
    const none = await see([receiver], { ...env, PORT: '1' });
    expect(none).toMatchObject({ exit: 69, text: expect.stringContaining('start the receiver with npm start') });
  });

  test('where all is well nothing is a fault, and what was sent is one harmless ping each', async () => {
    const told: string[] = [];
    const all = { WEBHOOK_SECRET: SECRET, PATH: process.env['PATH'], ...env };
    const { findings, exit } = await diagnose(all, await proxy({}), ({ check }) => told.push(check));
    expect(findings.filter(({ state }) => state === 'fault')).toEqual([]);
    expect(exit).toBe(0);
    expect(told).toEqual(findings.map(({ check }) => check));
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

test('a log that was deleted under the running receiver is found before the file is touched', async () => {
  const kit = await createKit();
  try {
    await kit.start();
    await until(() => kit.pid('keep') !== undefined);
    rmSync(join(kit.folder, 'events.db-wal'));
    const { text, exit } = await see([folder, file], { DATABASE_URL: `sqlite:${kit.folder}/events.db` });
    expect(text).toContain('stop the kit with SIGTERM: what was acknowledged is still in its hands');
    expect(exit).toBe(1);
  } finally {
    await kit.remove();
  }
});

test('the alarms that the receiver holds are shown, whatever the store is', async () => {
  const path = join(at, 'events.db');
  const detail = 'nothing can be written to the store';
  const alarm = { name: 'store_unwritable', since: '2026-01-01T00:00:00.000Z', detail };
  const url = await serve((_, res) => {
    res.writeHead(503, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ words: 'the store cannot be written', store: fingerprintOf(path), alarms: [alarm] }));
  });
  const env = { DATABASE_URL: `sqlite:${path}`, PORT: new URL(url).port };
  const shown = `warning alarms: store_unwritable: ${detail} → see src/ops/runbook.md`;
  const broken = (await see([folder, file, alarms], env)).text;
  expect(broken).toContain('fault store file: there is no store');
  expect(broken).toContain(shown);
  expect(broken).toContain('skipped alarms: because the store has a fault: the ops page (OPS_PORT) shows the others');
  openSqlite(path, { owner: true }).close();
  expect((await see([folder, file, alarms], env)).text).toContain(shown);
  rmSync(path);
  const alone = (await see([folder, file, alarms], { ...env, PORT: new URL(await closed()).port })).text;
  expect(alone).toMatch(/skipped alarms: because the store has a fault, and nothing listens on port \d+/);
});

test('another file in the place of the one that the receiver has open is found', async () => {
  const path = join(at, 'events.db');
  const store = openSqlite(path, { owner: true });
  await store.beat({ role: 'receive', pid: process.pid, started: startOf(process.pid), boot: 0 }, clock.now());
  store.close();
  copyFileSync(path, join(at, 'copy.db'));
  const { text } = await see([folder, file], { DATABASE_URL: `sqlite:${at}/copy.db` });
  expect(text).toContain('has another file open → start the kit again');
});
