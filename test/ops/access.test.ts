// Access to the ops port, to read and to change: by tokens, or, if no token is set, from this machine alone.
import { afterEach, describe, expect, test } from 'vitest';
import { NOTHING_SET, createOps, type Ops, type Reply } from './harness.ts';

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

describe('I80: with both tokens', () => {
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
    expect(await ops.store.state.get('reconcile_asked')).toBe(0);
    expect((await send(bearer(TOKEN))).status).toBeLessThan(300);
  });

  test('probes need no token', async () => {
    ops = await createOps(config);
    expect((await ops.get('/livez')).status).toBe(200);
    expect([200, 503]).toContain((await ops.get('/readyz')).status);
  });

  test('a token in the query does not count', async () => {
    ops = await createOps(config);
    expect((await ops.get(`/api/status?token=${TOKEN}&access_token=${TOKEN}`)).status).toBe(401);
  });

  test('a request with a token may have any Host, because of proxies and containers', async () => {
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

test('I80: with OPS_TOKEN alone, reading needs it too', async () => {
  ops = await createOps({ ...NOTHING_SET, OPS_TOKEN: TOKEN });
  expect((await look({})).status).toBe(401);
  expect((await look(bearer(TOKEN))).status).toBe(200);
  expect((await change(bearer(TOKEN))).status).toBe(202);
});

test('I80: with OPS_READ_TOKEN alone, nobody may change anything', async () => {
  ops = await createOps({ ...NOTHING_SET, OPS_READ_TOKEN: READ_TOKEN });
  expect((await look(bearer(READ_TOKEN))).status).toBe(200);
  expect((await look({})).status).toBe(401);
  expect((await change({})).status).toBe(401);
  expect((await change(bearer(READ_TOKEN))).status).toBe(401);
  expect((await change(bearer('undefined'))).status).toBe(401);
});

describe('I80: if no token is set, only this machine has access', () => {
  test.each(['127.0.0.1:3001', 'localhost:3001', 'localhost', 'LOCALHOST:80', '[::1]:3001'])(
    'Host %s may read and change',
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
  ])('Host %s, as after a DNS rebinding, is refused', async (host) => {
    ops = await createOps();
    for (const path of LOOKS) expect([400, 403]).toContain((await look({ host }, path)).status);
    expect([400, 403]).toContain((await change({ host })).status);
    expect(await ops.store.state.get('reconcile_asked')).toBe(0);
  });

  test.each(['Basic eDp5', 'Bearer', 'Bearer ', 'x', `Bearer ${TOKEN}`])(
    'Host evil.example with Authorization %s is refused too, because a page can set that header',
    async (authorization) => {
      ops = await createOps();
      expect([401, 403]).toContain((await look({ host: 'evil.example', authorization })).status);
      expect([401, 403]).toContain((await change({ host: 'evil.example', authorization })).status);
      expect(await ops.store.state.get('reconcile_asked')).toBe(0);
    },
  );

  test.each(['https://evil.example', 'null', 'http://localhost:9999', 'http://127.0.0.1', 'file://', 'garbage'])(
    'a page of Origin %s is refused',
    async (origin) => {
      ops = await createOps();
      assertRefused(await change({ origin }), 403, 'OPS_ORIGIN');
      expect((await look({ origin })).status).toBe(403);
      expect(await ops.store.state.get('reconcile_asked')).toBe(0);
    },
  );

  test.each(['cross-site', 'same-site'])('a request with Sec-Fetch-Site %s changes nothing', async (site) => {
    ops = await createOps();
    assertRefused(await change({ 'sec-fetch-site': site }), 403, 'OPS_ORIGIN');
    expect(await ops.store.state.get('reconcile_asked')).toBe(0);
    expect((await change({ 'sec-fetch-site': 'same-origin' })).status).toBe(202);
  });

  test('a page of this port may read and change', async () => {
    ops = await createOps();
    const origin = `http://127.0.0.1:${ops.port}`;
    expect((await look({ origin })).status).toBe(200);
    expect((await change({ origin })).status).toBe(202);
  });

  test('a page of another site gets no CORS headers', async () => {
    ops = await createOps();
    const reply = await ops.send('OPTIONS', '/api/reconcile', {
      origin: 'https://evil.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization',
    });
    expect(Object.keys(reply.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
});

describe('I80: behind a proxy, with OPS_ORIGIN', () => {
  const config = { ...NOTHING_SET, OPS_ORIGIN: 'https://ops.example.com' };

  test('the address in OPS_ORIGIN and this machine have access', async () => {
    ops = await createOps(config);
    expect((await change({ host: 'ops.example.com', origin: 'https://ops.example.com' })).status).toBe(202);
    expect((await look({ host: 'ops.example.com' })).status).toBe(200);
    expect((await look({})).status).toBe(200);
  });

  test('other addresses are refused', async () => {
    ops = await createOps(config);
    expect((await look({ host: 'evil.example' })).status).toBe(403);
    expect((await look({ host: 'ops.example.com.evil.example' })).status).toBe(403);
    expect((await change({ host: 'ops.example.com', origin: 'https://evil.example' })).status).toBe(403);
    expect((await change({ host: 'ops.example.com', origin: 'http://ops.example.com:81' })).status).toBe(403);
  });
});

describe('I80: the page, in a browser', () => {
  const config = { ...NOTHING_SET, OPS_TOKEN: TOKEN, OPS_READ_TOKEN: READ_TOKEN };
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const own = () => ({ ...form, origin: `http://127.0.0.1:${ops.port}` });
  const login = (token: string, headers = own()) => ops.send('POST', '/login', headers, `token=${token}&to=/refused`);
  const cookieOf = (reply: Reply) => String(reply.headers['set-cookie']).split(';')[0] ?? '';

  test('asks for a token at the requested address, and shows nothing else', async () => {
    ops = await createOps(config);
    for (const path of ['/', '/reconciliation', '/refused', '/refused/1']) {
      const reply = await ops.get(path);
      expect(reply.status).toBe(401);
      expect(reply.text).toContain(`name="to" value="${path}"`);
      expect(reply.text).not.toContain('<nav');
    }
  });

  test.each([
    [TOKEN, 303],
    [READ_TOKEN, 403],
  ])('a session of %s has the rights of its token', async (token, status) => {
    ops = await createOps(config);
    const reply = await login(token);
    expect([reply.status, reply.headers['location']]).toEqual([303, '/refused']);
    expect(String(reply.headers['set-cookie'])).toMatch(/HttpOnly; SameSite=Strict/);
    expect(String(reply.headers['set-cookie'])).not.toContain(token);
    const cookie = cookieOf(reply);
    expect((await ops.get('/', { cookie })).status).toBe(200);
    expect((await ops.send('POST', '/reconciliation/now', { ...own(), cookie })).status).toBe(status);
    expect((await ops.get('/api/status', { cookie })).status, 'programs bring a token').toBe(401);
    ops.clock.time += 12 * 3_600_000;
    expect((await ops.get('/', { cookie })).status, 'it expires').toBe(401);
  });

  test('a form that is sent after its session has ended changes nothing and says so; the log-in leads back to its page', async () => {
    ops = await createOps(config);
    const referer = `http://127.0.0.1:${ops.port}/dead-letters?group=1`;
    const reply = await ops.send('POST', '/reconciliation/now', { ...own(), referer });
    expect(reply.status).toBe(401);
    expect(reply.text).toContain('Nothing was done: log in, then do it again.');
    expect(reply.text).toContain('name="to" value="/dead-letters?group=1"');
    expect(await ops.store.state.get('reconcile_asked')).toBe(0);
  });

  test('a session has no rights after the log-out', async () => {
    ops = await createOps(config);
    const cookie = cookieOf(await login(TOKEN));
    await ops.send('POST', '/logout', { ...own(), cookie });
    expect((await ops.get('/', { cookie })).status).toBe(401);
  });

  test.each([
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    {},
  ])('a form from another site changes nothing, with or without a session: %o', async (from) => {
    ops = await createOps(config);
    const cookie = cookieOf(await login(TOKEN));
    expect((await ops.send('POST', '/reconciliation/now', { ...form, ...from, cookie })).status).toBe(403);
    expect((await login(TOKEN, { ...form, ...from } as ReturnType<typeof own>)).status).toBe(403);
    await ops.close();
    ops = await createOps();
    expect((await ops.send('POST', '/reconciliation/now', { ...form, ...from })).status).toBe(403);
    expect(await ops.store.state.get('reconcile_asked')).toBe(0);
  });

  test('E46: after five wrong tokens within a minute, the right one still passes', async () => {
    ops = await createOps(config);
    for (let n = 0; n < 5; n++) expect((await login('wrong')).status).toBe(401);
    expect((await login('wrong')).status).toBe(429);
    expect((await login(TOKEN)).status).toBe(303);
    expect((await look(bearer(TOKEN))).status).toBe(200);
    assertRefused(await look(bearer('wrong')), 429, 'too many wrong tokens');
    ops.clock.time += 60_000;
    expect((await login('wrong')).status).toBe(401);
  });

  test('E46: wrong tokens of both kinds are counted, and logged seldom, with addresses and without a token', async () => {
    ops = await createOps(config);
    const hostile = { 'x-forwarded-for': '<script>, 203.0.113.9' };
    for (let n = 0; n < 40; n++) await look({ ...bearer('a-wrong-bearer'), ...hostile }, '/metrics');
    for (let n = 0; n < 3; n++)
      await ops.send('POST', '/login', { ...own(), 'x-forwarded-for': '203.0.113.9, <b>' }, 'token=a-wrong-login');
    await look(bearer(TOKEN));
    await look({});
    const { text } = await look(bearer(TOKEN), '/metrics');
    expect(text).toContain('kit_wrong_tokens_total{kind="bearer"} 40');
    expect(text).toContain('kit_wrong_tokens_total{kind="form"} 3');
    const lines = ops
      .text()
      .split('\n')
      .filter((line) => line.includes('wrong token'));
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { by: 'bearer', outcome: 'wrong', from: expect.stringContaining('127.0.0.1'), forwarded: '203.0.113.9' },
      { by: 'form', outcome: 'throttled' },
    ]);
    for (const secret of [TOKEN, 'a-wrong', 'script', '<b>']) expect(ops.text()).not.toContain(secret);
  });

  test('with an https OPS_ORIGIN the cookie is Secure, and the log-in redirects only to a local path', async () => {
    ops = await createOps({ ...config, OPS_ORIGIN: 'https://ops.example.com' });
    const headers = { ...form, host: 'ops.example.com', origin: 'https://ops.example.com' };
    const reply = await ops.send('POST', '/login', headers, `token=${TOKEN}&to=//evil.example/`);
    expect(String(reply.headers['set-cookie'])).toContain('; Secure');
    expect(reply.headers['location']).toBe('/');
  });

  test('if no token is set, a page is shown only for a Host that names this machine', async () => {
    ops = await createOps();
    expect((await ops.get('/', { host: 'evil.example' })).status).toBe(403);
    expect((await ops.get('/', { host: 'localhost:3001' })).status).toBe(200);
  });

  test('a page forbids foreign scripts, styles and frames; bodies need OPS_TOKEN', async () => {
    ops = await createOps();
    const body = Buffer.from('{"secret words');
    await ops.store.ingest.accept({
      readings: [{ unreadable: { origin: 'webhook', cursor: null, body, reason: 'x' } }],
      now: 1,
    });
    const reply = await ops.get('/refused/1');
    expect(reply.headers['content-security-policy']).toMatch(/^default-src 'none'.*frame-ancestors 'none'/);
    expect(reply.text).not.toMatch(/secret words| style=|<style|<script>/);
    await ops.close();
    ops = await createOps(config);
    await ops.store.ingest.accept({
      readings: [{ unreadable: { origin: 'webhook', cursor: null, body, reason: 'x' } }],
      now: 1,
    });
    expect((await ops.get('/refused/1', bearer(TOKEN))).text).not.toContain('secret words');
    expect((await ops.post('/refused/1/body', {}, bearer(READ_TOKEN))).text).not.toContain('secret words');
    expect((await ops.post('/refused/1/body', {}, bearer(TOKEN))).text).toContain('secret words');
  });

  test('browsers keep the style and the script until they change', async () => {
    ops = await createOps(config);
    for (const path of ['/style.css', '/live.js']) {
      const { status, headers } = await ops.get(path);
      expect(status).toBe(200);
      expect((await ops.get(path, { 'if-none-match': String(headers['etag']) })).status).toBe(304);
    }
  });
});
