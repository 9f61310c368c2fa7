// The proxy of compose.yaml in front of a real kit, with the configuration from that file. Only the addresses differ.
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createKit, dataOf, freePort, load, makeEvent, RECORD, SECRET, until, type Kit } from './kit.ts';

/** The oldest version of Caddy that must work: the version in Debian stable. */
const OLDEST = [2, 6, 2];
const lacking = !hasCaddy();
if (lacking) console.warn(`skipped: needs caddy ${OLDEST.join('.')} or newer: apt-get install caddy`);

let kit: Kit;
let caddy: ChildProcess | undefined;
let port: number;
let tlsPort: number;

beforeEach(async ({ skip }) => {
  skip(lacking);
  kit = await createKit({ record: RECORD });
  await kit.start();
  await startCaddy();
});
afterEach(async () => {
  if (caddy?.exitCode === null) {
    caddy.kill('SIGKILL');
    await once(caddy, 'close');
  }
  await kit?.remove();
});

/** F19 needs 30 restarts: set PROXY_RESTARTS=30 before a release. */
const RESTARTS = Number(process.env['PROXY_RESTARTS'] ?? 8);

test(`${RESTARTS} times the receiver is stopped and started under 50 deliveries a second: each gets its 204, and is one event`, async () => {
  const running = load({ port }, 50);
  for (let round = 0; round < RESTARTS; round++) {
    const enough = running.acknowledged.size + 20;
    await until(() => running.acknowledged.size > enough);
    expect(await kit.stop()).toBe(0);
    await kit.start();
  }
  const sent = await running.stop();
  expect([...running.statuses]).toEqual([[204, sent]]);
  await until(() => count('seen') === sent);
  expect(count('events')).toBe(sent);
  expect(kit.query('select key from seen group by key having count(*) > 1')).toEqual([]);
});

test('bytes arrive unchanged: odd spacing, invalid UTF-8, more than a mebibyte', async () => {
  const odd = Buffer.from(
    `{ "id":"evt_odd" ,\n\t"type" : "MessageReceived","created_at":"2026-01-01T00:00:00Z",\r\n "cursor":"77", "session_id":null,"webhook_id":"w", "data": ${JSON.stringify(dataOf(makeEvent(1)), null, 3)} }  \n`,
  );
  const broken = Buffer.concat([
    Buffer.from('{"id":"evt_broken","text":"'),
    Buffer.from([0xff, 0xfe, 0x80]),
    Buffer.from('"}'),
  ]);
  const large = Buffer.from(
    JSON.stringify({ id: 'evt_large', type: 'Large', cursor: '78', data: { Large: {} } }).padEnd(2 ** 20 + 1),
  );
  for (const body of [odd, broken, large]) expect(await post('/webhooks', body)).toBe(204);
  const stored = kit.query<{ body: Buffer }>('select body from events order by cursor').map(({ body }) => body);
  expect(stored.map((body) => body.length)).toEqual([odd.length, large.length]);
  expect([odd, large].every((body, n) => stored[n]?.equals(body))).toBe(true);
  expect(kit.query('select body from quarantine')).toEqual([{ body: broken }]);
});

test('the proxy exposes only the webhook path', async () => {
  const body = Buffer.from('{}');
  for (const path of [
    '/',
    '/livez',
    '/readyz',
    '/metrics',
    '/api/status',
    '/webhooks/',
    '/webhooks/x',
    '//webhooks',
    '/Webhooks',
  ]) {
    expect([path, await post(path, body)]).toEqual([path, 404]);
  }
  expect(await post('/webhooks', body, 'whsec_of_a_stranger')).toBe(401);
});

test('a request for another host does not reach the receiver', async () => {
  expect(await post('/webhooks', Buffer.from('{"id":"x"}'), SECRET, 'elsewhere.example')).toBe(204);
  expect(count('quarantine')).toBe(1);
});

function hasCaddy(): boolean {
  try {
    const found = execFileSync('caddy', ['version'], { encoding: 'utf8' });
    const [, ...parts] = /(\d+)\.(\d+)\.(\d+)/.exec(found) ?? [];
    const [version, oldest] = [parts.map(Number), OLDEST].map(([a = 0, b = 0, c = 0]) => a * 1e6 + b * 1e3 + c);
    return (version ?? 0) >= (oldest ?? 0);
  } catch {
    return false;
  }
}

async function startCaddy(): Promise<void> {
  port = await freePort();
  tlsPort = await freePort();
  const file = join(kit.folder, 'Caddyfile');
  writeFileSync(file, caddyfile());
  caddy = spawn('caddy', ['run', '--config', file, '--adapter', 'caddyfile'], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'], HOME: kit.folder },
  });
  let said = '';
  caddy.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
  await until(() => {
    if (caddy?.exitCode !== null) throw new Error(`caddy ended:\n${said}`);
    return said.includes('certificate obtained successfully');
  });
  // The proxy uses a new certificate only after a moment.
  let shown = false;
  const ask = (): void => void post('/', Buffer.from('')).then(() => (shown = true), ask);
  ask();
  await until(() => shown);
}

/**
 * The proxy's configuration in compose.yaml, changed for loopback: variables filled in, a plain port beside the TLS
 * port, and a self-signed certificate.
 */
function caddyfile(): string {
  const compose = readFileSync('compose.yaml', 'utf8');
  const content = /content: \|\n((?: {6}.*\n|\n)+)/.exec(compose)?.[1] ?? '';
  const text = content
    .replaceAll(/^ {6}/gm, '')
    .replace(/^\{$/m, '{\ndefault_bind 127.0.0.1\nskip_install_trust\nauto_https disable_redirects')
    .replace(
      /^\$\{SITE_ADDRESS.*\}, https:\/\/ \{$/m,
      `http://:${port}, localhost:${tlsPort}, https://:${tlsPort} {\ntls internal`,
    )
    .replaceAll(/\$\{WEBHOOK_PATH:-(.*?)\}/g, '$1')
    .replace('receiver:3000', `127.0.0.1:${kit.port}`);
  expect(text).not.toMatch(/\$|receiver:/);
  return text;
}

/** Posts over TLS, by default with a right signature. Resolves to the status. */
function post(path: string, body: Buffer, secret = SECRET, host = 'localhost'): Promise<number> {
  const timestamp = Math.floor(Date.now() / 1000);
  const signature = createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex');
  const headers = {
    host,
    'x-svc-timestamp': timestamp,
    'x-svc-signature': `v1=${signature}`,
    'content-length': body.length,
  };
  const options = {
    host: '127.0.0.1',
    servername: 'localhost',
    port: tlsPort,
    path,
    method: 'POST',
    headers,
    agent: false,
    rejectUnauthorized: false,
  };
  return new Promise((done, fail) => {
    const sent = request(options, (response) => {
      response.resume();
      response.on('end', () => done(response.statusCode ?? 0));
    });
    sent.on('error', fail);
    sent.end(body);
  });
}

function count(table: 'events' | 'seen' | 'quarantine'): number {
  return kit.query<{ n: number }>(`select count(*) as n from ${table}`)[0]?.n ?? 0;
}
