// The proxy of compose.yaml in front of a real kit, with the configuration from that file. Only the addresses differ.
import { createHmac } from 'node:crypto';
import { request } from 'node:https';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { hasCaddy, OLDEST, startCaddy, type Caddy } from './caddy.ts';
import { createKit, dataOf, load, makeEvent, RECORD, SECRET, until, type Kit } from './kit.ts';

const lacking = !hasCaddy();
if (lacking) console.warn(`skipped: needs caddy ${OLDEST} or newer: apt-get install caddy`);

let kit: Kit;
let caddy: Caddy | undefined;

beforeEach(async ({ skip }) => {
  skip(lacking);
  kit = await createKit({ record: RECORD });
  await kit.start();
  caddy = await startCaddy(kit);
});
afterEach(async () => {
  await caddy?.stop();
  await kit?.remove();
});

/** F19 needs 30 restarts: set PROXY_RESTARTS=30 before a release. */
const RESTARTS = Number(process.env['PROXY_RESTARTS'] ?? 8);

test(`${RESTARTS} times the receiver is stopped and started under 50 deliveries a second: each gets its 204, and is one event`, async () => {
  const running = load({ port: caddy?.port ?? 0 }, 50);
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
    port: caddy?.tlsPort,
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
