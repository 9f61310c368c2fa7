// What holds for every route of the ops port, and the routes of reconciliation and quarantine.
import { UNREADABLE_TARGETS } from '../receive/harness.ts';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { NOTHING_SET, assertClear, createOps, deliver, eventsIn, type Ops } from './harness.ts';

let ops: Ops;
beforeEach(async () => {
  ops = await createOps();
});
afterEach(() => ops.close());

test.each(UNREADABLE_TARGETS)(
  'E86: a target that cannot be parsed (%s) gets 400, without a log line',
  async (target) => {
    expect((await ops.get(target)).status).toBe(400);
    expect((await ops.post(target)).status).toBe(400);
    expect(ops.text()).toBe('');
  },
);

test('POST /api/reconcile stores the time of the request', async () => {
  const reply = await ops.post('/api/reconcile');
  expect(reply.status).toBe(202);
  expect(reply.json()).toEqual({ asked: new Date(ops.clock.time).toISOString() });
  expect(await ops.store.state.get('reconcile_asked')).toBe(ops.clock.time);
});

test('GET /api/quarantine shows quarantined rows, newest first, without their bytes', async () => {
  const keep = (body: string, cursor: string | null) =>
    ops.store.ingest.accept({
      readings: [
        { unreadable: { origin: 'replay', cursor: cursor as never, body: Buffer.from(body), reason: 'not JSON' } },
      ],
      now: ops.clock.time,
    });
  await keep('<script>alert(1)</script>', null);
  await keep('another one', '7');
  const reply = await ops.get('/api/quarantine');
  expect(reply.json()).toEqual({
    quarantine: [
      { id: 2, receivedAt: expect.stringMatching(/Z$/), origin: 'replay', cursor: '7', reason: 'not JSON', bytes: 11 },
      { id: 1, receivedAt: expect.stringMatching(/Z$/), origin: 'replay', cursor: null, reason: 'not JSON', bytes: 25 },
    ],
  });
  expect(reply.text).not.toContain('script');
});

describe('every answer', () => {
  test.each(['/livez', '/api/status', '/api/events?limit=0', '/metrics', '/nowhere'])(
    '%s forbids caching and content sniffing',
    async (path) => {
      const { headers } = await ops.get(path);
      expect(headers).toMatchObject({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
    },
  );

  test('an unknown path is 404', async () => {
    for (const path of ['/api', '/api/event', '/API/status', '/api/secrets', '/api/tasks/retry']) {
      expect([404, 405]).toContain((await ops.get(path)).status);
    }
  });

  test('an unknown address of a page links to the overview; without a token, all addresses get the same answer', async () => {
    for (const path of ['/nowhere', '/events/c%3A1/more', '/refused/17', '/dead-letters/retry']) {
      const { status, text } = await ops.get(path);
      expect(status, path).toBe(path.endsWith('retry') ? 405 : 404);
      expect(text).toContain('<a href="/">Overview</a>');
    }
    expect((await ops.get('/api/nowhere')).text).toBe('Not Found');
    const closed = await createOps({ ...NOTHING_SET, OPS_TOKEN: 'changes-0123456789' });
    expect((await closed.get('/nowhere')).text).toBe(
      (await closed.get('/nothing')).text.replace('/nothing', '/nowhere'),
    );
    expect((await closed.get('/nowhere')).status).toBe(401);
    await closed.close();
  });

  test('another method is 405, and changes nothing', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
      expect((await ops.send(method, '/api/status')).status).toBe(405);
    }
    expect((await ops.get('/api/reconcile')).status).toBe(405);
    expect(await ops.store.state.get('reconcile_asked')).toBe(0);
  });

  test('F6: while the store is locked, a change is 503 and says why; reading goes on', async () => {
    ops.exec('begin immediate');
    assertClear(await ops.post('/api/reconcile'), 503, 'locked');
    expect((await ops.get('/api/status')).status).toBe(200);
    ops.exec('rollback');
  });

  test('F6: while the store is locked, a form leads back to its page, which says that nothing was done', async () => {
    const origin = `http://127.0.0.1:${ops.port}`;
    const headers = {
      origin,
      referer: `${origin}/dead-letters?group=1`,
      'content-type': 'application/x-www-form-urlencoded',
    };
    ops.exec('begin immediate');
    const reply = await ops.send('POST', '/reconciliation/now', headers);
    ops.exec('rollback');
    expect([reply.status, reply.headers['location']]).toEqual([303, '/dead-letters?group=1']);
    const cookie = String(reply.headers['set-cookie']).split(';')[0] ?? '';
    expect((await ops.get('/dead-letters', { cookie })).text).toMatch(/role="status">Not done.* Try again in a moment/);
  });

  test('a bug is 500 without a stack, and it is logged', async () => {
    ops.exec('drop table quarantine');
    const reply = await ops.get('/api/quarantine');
    assertClear(reply, 500, 'see the log');
    expect(ops.text()).toContain('an ops request failed');
  });

  test('I78: hostile text in an event comes back as JSON, byte for byte', async () => {
    const session = '<img src=x onerror=alert(1)>\u202e\u001b]0;x\u0007=cmd|1';
    await deliver(ops, { cursor: '1', session });
    const reply = await ops.get('/api/events');
    expect(reply.headers['content-type']).toMatch(/^application\/json/);
    expect(eventsIn(reply).events[0]?.['sessionId']).toBe(session);
  });
});
