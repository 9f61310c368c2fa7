// Who may look at the ops port and who may change things (I80): tokens, and without any, this machine alone.
import { afterEach, describe, expect, test } from 'vitest';
import { NOTHING_SET, createOps, type Ops, type Reply } from './rig.ts';

const TOKEN = 'the-token-that-may-change-things';
const READ_TOKEN = 'the-token-that-may-only-look';

let ops: Ops;
afterEach(() => ops.close());

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const LOOKS = ['/api/status', '/api/events', '/api/events/c:1', '/api/tasks', '/api/quarantine', '/metrics'];
const CHANGES: [string, object][] = [
  ['/api/tasks/retry', { filter: {} }],
  ['/api/tasks/discard', { filter: {}, reason: 'x' }],
  ['/api/reconcile', {}],
];

const look = (headers: Record<string, string>, path = '/api/status') => ops.get(path, headers);
const change = (headers: Record<string, string>) => ops.post('/api/reconcile', {}, headers);

function assertRefused(reply: Reply, status: number, word: string): void {
  expect(reply.status).toBe(status);
  expect(reply.json()).toEqual({ error: expect.stringContaining(word) });
}

describe('with both tokens', () => {
  const config = { ...NOTHING_SET, OPS_TOKEN: TOKEN, OPS_READ_TOKEN: READ_TOKEN };

  test.each(LOOKS)('GET %s takes either token, and nothing else', async (path) => {
    ops = await createOps(config);
    const allowed = path === '/api/events/c:1' ? 404 : 200;
    expect((await look(bearer(TOKEN), path)).status).toBe(allowed);
    expect((await look(bearer(READ_TOKEN), path)).status).toBe(allowed);
    for (const headers of [
      {},
      bearer('wrong'),
      bearer(`${TOKEN}x`),
      bearer(''),
      { authorization: TOKEN },
      { authorization: `Basic ${TOKEN}` },
    ]) {
      assertRefused(await look(headers, path), 401, 'OPS_READ_TOKEN');
    }
  });

  test.each(CHANGES)('POST %s takes OPS_TOKEN alone', async (path, body) => {
    ops = await createOps(config);
    const send = (headers: Record<string, string>) => ops.post(path, body, headers);
    assertRefused(await send(bearer(READ_TOKEN)), 401, 'OPS_TOKEN');
    assertRefused(await send({}), 401, 'OPS_TOKEN');
    expect(await ops.store.reconcileAsked()).toBe(0);
    expect((await send(bearer(TOKEN))).status).toBeLessThan(300);
  });

  test('probes need no token', async () => {
    ops = await createOps(config);
    expect((await ops.get('/livez')).status).toBe(200);
    expect([200, 503]).toContain((await ops.get('/readyz')).status);
  });

  test('a token in the query is no token', async () => {
    ops = await createOps(config);
    expect((await ops.get(`/api/status?token=${TOKEN}&access_token=${TOKEN}`)).status).toBe(401);
  });

  test('who has a token may come by any name: it is behind a proxy, or in a container', async () => {
    ops = await createOps(config);
    expect((await look({ ...bearer(TOKEN), host: 'ops.example.com' })).status).toBe(200);
  });

  test('a refusal repeats no token', async () => {
    ops = await createOps(config);
    const reply = await look(bearer('a-guess-that-fails'));
    expect(reply.text).not.toContain('a-guess');
    expect(reply.text).not.toContain(TOKEN);
  });
});

test('with OPS_TOKEN alone, looking needs it too', async () => {
  ops = await createOps({ ...NOTHING_SET, OPS_TOKEN: TOKEN });
  expect((await look({})).status).toBe(401);
  expect((await look(bearer(TOKEN))).status).toBe(200);
  expect((await change(bearer(TOKEN))).status).toBe(202);
});

test('with OPS_READ_TOKEN alone, nobody may change anything', async () => {
  ops = await createOps({ ...NOTHING_SET, OPS_READ_TOKEN: READ_TOKEN });
  expect((await look(bearer(READ_TOKEN))).status).toBe(200);
  expect((await look({})).status).toBe(401);
  expect((await change({})).status).toBe(401);
  expect((await change(bearer(READ_TOKEN))).status).toBe(401);
  expect((await change(bearer('undefined'))).status).toBe(401);
});

describe('without a token, this machine alone', () => {
  test.each(['127.0.0.1:3001', 'localhost:3001', 'localhost', 'LOCALHOST:80', '[::1]:3001'])(
    'Host %s may look and change',
    async (host) => {
      ops = await createOps();
      expect((await look({ host })).status).toBe(200);
      expect((await change({ host })).status).toBe(202);
    },
  );

  test.each([
    'evil.example',
    'evil.example:3001',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    'evil.example@127.0.0.1',
    '169.254.169.254',
    '0.0.0.0:3001',
    ' ',
  ])('Host %s, as after a DNS rebinding, may not', async (host) => {
    ops = await createOps();
    for (const path of LOOKS) expect([400, 403]).toContain((await look({ host }, path)).status);
    expect([400, 403]).toContain((await change({ host })).status);
    expect(await ops.store.reconcileAsked()).toBe(0);
  });

  test.each(['Basic eDp5', 'Bearer', 'Bearer ', 'x', `Bearer ${TOKEN}`])(
    'Host evil.example with Authorization %s may not either: a page can set that header',
    async (authorization) => {
      ops = await createOps();
      expect([401, 403]).toContain((await look({ host: 'evil.example', authorization })).status);
      expect([401, 403]).toContain((await change({ host: 'evil.example', authorization })).status);
      expect(await ops.store.reconcileAsked()).toBe(0);
    },
  );

  test.each(['https://evil.example', 'null', 'http://localhost:9999', 'http://127.0.0.1', 'file://', 'garbage'])(
    'a page of Origin %s may not',
    async (origin) => {
      ops = await createOps();
      assertRefused(await change({ origin }), 403, 'OPS_ORIGIN');
      expect((await look({ origin })).status).toBe(403);
      expect(await ops.store.reconcileAsked()).toBe(0);
    },
  );

  test('the page of this port may', async () => {
    ops = await createOps();
    const origin = `http://127.0.0.1:${ops.port}`;
    expect((await look({ origin })).status).toBe(200);
    expect((await change({ origin })).status).toBe(202);
  });

  test('a page elsewhere is not told that it may ask', async () => {
    ops = await createOps();
    const reply = await ops.send('OPTIONS', '/api/reconcile', {
      origin: 'https://evil.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization',
    });
    expect(Object.keys(reply.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
});

describe('behind a proxy, with OPS_ORIGIN', () => {
  const config = { ...NOTHING_SET, OPS_ORIGIN: 'https://ops.example.com' };

  test('its address may, and so may this machine', async () => {
    ops = await createOps(config);
    expect((await change({ host: 'ops.example.com', origin: 'https://ops.example.com' })).status).toBe(202);
    expect((await look({ host: 'ops.example.com' })).status).toBe(200);
    expect((await look({})).status).toBe(200);
  });

  test('others may not', async () => {
    ops = await createOps(config);
    expect((await look({ host: 'evil.example' })).status).toBe(403);
    expect((await look({ host: 'ops.example.com.evil.example' })).status).toBe(403);
    expect((await change({ host: 'ops.example.com', origin: 'https://evil.example' })).status).toBe(403);
    expect((await change({ host: 'ops.example.com', origin: 'http://ops.example.com:81' })).status).toBe(403);
  });
});
