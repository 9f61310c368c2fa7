import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { replayItem, replayPage } from '../../../src/service/shapes.ts';
import { refuse } from '../../../src/tools/simulator/faults.ts';
import { refusal, setUp } from './caller.ts';

const NO_KEY = { authorization: '' };

test('4.2, 2.13: ReplayEvents shows the events after a cursor, as the stream would', async () => {
  const { history, replay } = await setUp();
  const [a, b, c] = [history.next(), history.next('MessageSent'), history.next()];
  const first = await replay({ limit: 2 });
  expect(first.status).toBe(200);
  const page = replayPage.parse(first.body);
  expect(page).toMatchObject({ next_cursor: b.cursor, has_more: true, reset_required: false });
  const items = page.events.map((item) => replayItem.parse(item));
  expect(items.map(({ cursor, json_payload }) => [cursor, JSON.parse(json_payload)])).toEqual([
    [a.cursor, { MessageReceived: a.data }],
    [b.cursor, { MessageSent: b.data }],
  ]);
  const second = await replay({ after_cursor: b.cursor });
  expect(second.body).toMatchObject({ events: [{ cursor: c.cursor }], next_cursor: c.cursor, has_more: false });
  const third = await replay({ after_cursor: c.cursor });
  expect(third.body).toMatchObject({ events: [], next_cursor: c.cursor, has_more: false });
});

test('6.2: a call shows at most 1000 events', async () => {
  const { history, replay } = await setUp();
  for (let i = 0; i < 1_001; i++) history.next();
  expect((await replay({})).body['events']).toHaveLength(1_000);
  expect(refusal(await replay({ limit: 1_001 }))).toEqual([400, 'VALIDATION_FAILED', 'REQUEST_INVALID']);
});

test('4.2: GetApiKeyIdentity answers any valid key', async () => {
  const { post } = await setUp();
  expect(await post('GetApiKeyIdentity', '{"request":{}}')).toMatchObject({ status: 200, body: {} });
});

test.each(['0', '12abc', '', '99999999999999999999'])(
  '6.1: the cursor %j, which no earlier event has, is refused',
  async (cursor) => {
    const { history, replay } = await setUp();
    history.next();
    expect(refusal(await replay({ after_cursor: cursor }))).toEqual([400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID']);
  },
);

test('4.2: the answer to an expired cursor asks for a reset', async () => {
  const { history, replay } = await setUp();
  const [a, b] = [history.next(), history.next()];
  history.expireUpTo(a.cursor ?? '');
  const { status, body } = await replay({ after_cursor: a.cursor });
  expect(status).toBe(200);
  expect(replayPage.parse(body)).toMatchObject({ events: [], has_more: false, reset_required: true });
  expect((await replay({})).body).toMatchObject({ events: [{ cursor: b.cursor }], reset_required: false });
});

test.each([['Bearer another'], ['svc_test_of_nobody'], ['']])(
  '5.1: the credential %j is refused',
  async (authorization) => {
    const { post } = await setUp();
    const response = await post('ReplayEvents', '{"request":{}}', { authorization });
    expect(refusal(response)).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED']);
  },
);

test('7.1: an error has its request id in the envelope and in the header', async () => {
  const { post } = await setUp();
  const { headers, body } = await post('Nothing', '{"request":{}}');
  const { requestId, message } = body['error'] as Record<string, unknown>;
  expect(requestId).toBe(headers.get('x-request-id'));
  expect(message).toEqual(expect.any(String));
});

test('7.4: an unknown operation is refused with its reason, an unknown route without one', async () => {
  const { ask, post } = await setUp();
  expect(refusal(await post('Nothing', '{"request":{}}'))).toEqual([404, 'NOT_FOUND', 'RPC_METHOD_NOT_FOUND']);
  for (const path of ['/v1/elsewhere', '/media/1', '/v1/media/', '/v1/media/1/2'])
    expect(refusal(await ask('GET', path))).toEqual([404, 'NOT_FOUND']);
});

test.each([
  ['{', 'JSON_INVALID'],
  ['[]', 'JSON_INVALID'],
  ['{}', 'RPC_REQUEST_INVALID'],
  ['{"request":[]}', 'RPC_REQUEST_INVALID'],
  ['{"request":{},"more":1}', 'RPC_REQUEST_INVALID'],
  ['{"request":{},"deadlineMs":0}', 'RPC_DEADLINE_INVALID'],
  ['{"request":{},"deadlineMs":30001}', 'RPC_DEADLINE_INVALID'],
  ['{"request":{},"deadlineMs":1.5}', 'RPC_DEADLINE_INVALID'],
  ['{"request":{"afterCursor":"1"}}', 'RPC_REQUEST_INVALID'],
])('4.1, 7.4: the body %s is refused as %s', async (body, reason) => {
  const { post } = await setUp();
  expect(refusal(await post('ReplayEvents', body))).toEqual([400, 'VALIDATION_FAILED', reason]);
});

test('7.4: a body must have the content type of JSON', async () => {
  const { post } = await setUp();
  const response = await post('ReplayEvents', '{"request":{}}', { 'content-type': 'text/plain' });
  expect(refusal(response)).toEqual([400, 'VALIDATION_FAILED', 'JSON_INVALID']);
});

test('8: a body above 12 MiB is refused', async () => {
  const { post } = await setUp();
  const response = await post('ReplayEvents', ' '.repeat(12 * 1024 * 1024 + 1));
  expect(refusal(response)).toEqual([413, 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE']);
});

test('4.1: a deadline within its bounds is accepted', async () => {
  const { replay } = await setUp();
  expect((await replay({}, { deadlineMs: 30_000 })).status).toBe(200);
});

test('8: an account has 120 calls a minute, and a refusal does not say when the next is allowed', async () => {
  const { clock, api, replay } = await setUp();
  const statuses = await Promise.all(Array.from({ length: 120 }, async () => (await replay({})).status));
  expect(new Set(statuses)).toEqual(new Set([200]));
  clock.at += 59_999;
  const refused = await replay({});
  expect(refusal(refused)).toEqual([429, 'RATE_LIMITED', 'RATE_LIMITED']);
  expect(refused.headers.has('retry-after')).toBe(false);
  clock.at += 1;
  expect((await replay({})).status).toBe(200);
  expect(api.calls()).toBe(122);
});

test('a test can make the next calls fail, in order', async () => {
  const { chaos, replay } = await setUp();
  chaos.next('503');
  chaos.next(refuse(401, 'API_AUTH_REVOKED'));
  expect(refusal(await replay({}))).toEqual([503, 'UNAVAILABLE']);
  expect(refusal(await replay({}))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED']);
  expect((await replay({})).status).toBe(200);
});

test('4.3: GET / describes the API without a key; GET /v1 lists the operations and needs one', async () => {
  const { ask } = await setUp();
  expect(await ask('GET', '/v1/', { headers: NO_KEY })).toMatchObject({ status: 200, body: { version: 'v1' } });
  expect(refusal(await ask('GET', '/v1', { headers: NO_KEY }))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED']);
  expect((await ask('GET', '/v1')).body['operations']).toContain('ReplayEvents');
});

test('5.3: an operation needs its scope', async () => {
  const { replay } = await setUp({ scopes: ['groups:read'] });
  expect(refusal(await replay({}))).toEqual([403, 'FORBIDDEN', 'RPC_METHOD_FORBIDDEN']);
});

test('5.4: a key restricted to numbers sees only their events, and none of the whole account', async () => {
  const { history, keys, ask } = await setUp();
  const [mine = ''] = history.numbers;
  const { secret } = keys.create({ name: 'one', scopes: ['events:read'], validDays: null, numbers: [mine] });
  for (let i = 0; i < 20; i++) history.next();
  history.next('CampaignUpdated');
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
  const { body } = await ask('POST', '/v1/rpc/ReplayEvents', { headers, body: '{"request":{}}' });
  const seen = replayPage.parse(body).events.map((item) => replayItem.parse(item).cursor);
  const own = history.all().filter(({ sessionId }) => sessionId === mine);
  expect(seen).toEqual(own.map(({ cursor }) => cursor));
  expect(own.length).toBeGreaterThan(0);
});

test('3.1, 7.4: a revoked key is refused as revoked, an expired key like a missing one', async () => {
  const { clock, keys, key, replay } = await setUp({ validDays: 1 });
  clock.at += 86_400_000 - 1;
  expect((await replay({})).status).toBe(200);
  clock.at += 1;
  expect(refusal(await replay({}))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED']);
  keys.revoke(key);
  expect(refusal(await replay({}))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED']);
});

test.each([0, 1, 24] as const)('3.1: the old secret of a key works for %i h after a rotation', async (hours) => {
  const { clock, keys, key, call, post } = await setUp();
  const fresh = { authorization: `Bearer ${keys.rotate(key, hours)}` };
  const now = async () => [
    (await call('GetApiKeyIdentity', {})).status,
    (await post('GetApiKeyIdentity', '{"request":{}}', fresh)).status,
  ];
  clock.at += hours * 3_600_000 - 1;
  if (hours > 0) expect(await now()).toEqual([200, 200]);
  clock.at += 1;
  expect(await now()).toEqual([401, 200]);
  expect(refusal(await call('GetApiKeyIdentity', {}))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED']);
});

test.each([
  [400, 'VALIDATION_FAILED'],
  [401, 'UNAUTHENTICATED'],
  [402, 'PAYMENT_REQUIRED'],
  [403, 'FORBIDDEN'],
  [404, 'NOT_FOUND'],
  [409, 'CONFLICT'],
  [413, 'VALIDATION_FAILED'],
  [428, 'PAYMENT_REQUIRED'],
  [429, 'RATE_LIMITED'],
  [500, 'INTERNAL'],
  [503, 'UNAVAILABLE'],
  [504, 'UNAVAILABLE'],
])('7.2: the status %i has the code %s', async (status, code) => {
  const { chaos, replay } = await setUp();
  chaos.next(refuse(status));
  expect(refusal(await replay({}))).toEqual([status, code]);
});

test.each([
  [['127.0.0.0/8'], 200],
  [['10.0.0.1', '::1'], 403],
])('5.5: with the IP list %j a call from 127.0.0.1 gets %i', async (ips, status) => {
  const { replay } = await setUp({ ips });
  const response = await replay({});
  expect(response.status).toBe(status);
  if (status === 403) expect(refusal(response)).toEqual([403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN']);
});

test.each([
  ['GET', '/v1'],
  ['GET', '/v1/events'],
  ['GET', '/v1/media/a-picture'],
  ['POST', '/v1/rpc/GetApiKeyIdentity'],
  ['POST', '/v1/messages/send'],
  ['POST', '/v1/billing/quotes'],
  ['POST', '/v1/sessions/resume'],
  ['POST', '/v1/sessions/create'],
])("5.6: the key's own limit holds on all routes: %s %s", async (method, path) => {
  const { ask, clock, replay } = await setUp({ perMinute: 1 });
  await replay({});
  const call = () => ask(method, path, method === 'POST' ? { body: '{"request":{}}' } : {});
  expect(refusal(await call())).toEqual([429, 'RATE_LIMITED', 'API_KEY_RATE_LIMITED']);
  clock.at += 60_000;
  expect((await replay({})).status).toBe(200);
});

test.each([
  ['GET', '/v1/media/1', 60],
  ['POST', '/v1/billing/quotes', 60],
  ['POST', '/v1/sessions/create', 10],
  ['POST', '/v1/sessions/resume', 10],
  ['POST', '/v1/messages/send', 120],
])('8: %s %s is limited to %i a minute', async (method, path, most) => {
  const { ask } = await setUp({ scopes: ['sessions:manage', 'messages:send'] });
  const call = () => ask(method, path, method === 'POST' ? { body: '{"request":{}}' } : {});
  for (let i = 0; i < most; i++) expect((await call()).status).not.toBe(429);
  expect(refusal(await call())).toEqual([429, 'RATE_LIMITED', 'RATE_LIMITED']);
});

test.each(['resume', 'create'])('8: a body for sessions/%s is at most 4 KiB', async (what) => {
  const { ask } = await setUp({ scopes: ['sessions:manage'] });
  const response = await ask('POST', `/v1/sessions/${what}`, { body: `{"request":"${'x'.repeat(4096)}"}` });
  expect(refusal(response)).toEqual([413, 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE']);
});

test('7.1: a request that is not valid HTTP also gets the error envelope and an id', async () => {
  const { base } = await setUp();
  const socket = connect(Number(new URL(base).port), '127.0.0.1');
  socket.end('NONSENSE\r\n\r\n');
  const answer = (await Array.fromAsync(socket)).join('');
  const id = /x-request-id: (\S+)/.exec(answer)?.[1];
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  expect(JSON.parse(answer.split('\r\n\r\n')[1] ?? '')).toMatchObject({ error: { requestId: id } });
});

test('4.1: billing is ignored if the operation is not paid', async () => {
  const { replay } = await setUp();
  expect(await replay({}, { billing: 'nothing of the kind' })).toMatchObject({ status: 200 });
});

test('8: operations and sends share the 120 calls of the account, whichever key makes them', async () => {
  const { ask, keys, replay } = await setUp({ scopes: ['events:read', 'messages:send'] });
  const { secret } = keys.create({ name: 'another', scopes: ['events:read'], validDays: null });
  for (let i = 0; i < 60; i++) await replay({});
  for (let i = 0; i < 60; i++) await ask('POST', '/v1/messages/send', { body: '{}' });
  const headers = { authorization: `Bearer ${secret}` };
  const refused = await ask('POST', '/v1/rpc/ReplayEvents', { headers, body: '{"request":{}}' });
  expect(refusal(refused)).toEqual([429, 'RATE_LIMITED', 'RATE_LIMITED']);
});

test.each([
  ['POST', '/v1/messages/send'],
  ['POST', '/v1/billing/quotes'],
])('8: a body of %s %s above 12 MiB is refused', async (method, path) => {
  const { ask } = await setUp({ scopes: ['messages:send'] });
  const response = await ask(method, path, { body: ' '.repeat(12 * 1024 * 1024 + 1) });
  expect(refusal(response)).toEqual([413, 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE']);
});

test.each([
  ['proxy-500', 500],
  ['proxy-502', 502],
  ['proxy-503', 503],
] as const)(
  '7.2: a proxy answers %s without an error envelope, on operations and on the stream',
  async (name, status) => {
    const { ask, chaos, replay } = await setUp();
    chaos.next(name);
    chaos.next(name);
    for (const answered of [await replay({}), await ask('GET', '/v1/events')]) {
      expect(answered.status).toBe(status);
      expect(answered.body).toEqual({});
    }
  },
);

test('4.3, 5.4: a key creates numbers up to its maximum, and each joins the numbers of the key', async () => {
  const { ask, history, key, keys } = await setUp({ scopes: ['sessions:manage'], creates: 1 });
  keys.edit(key, { numbers: history.numbers.slice(0, 1) });
  const create = () => ask('POST', '/v1/sessions/create', { body: '{"request":{}}' });
  const created = await create();
  const [progress, qr, connected] = [...created.text.matchAll(/event: message\ndata: (.*)/g)].map(
    ([, data = '']) => JSON.parse(data) as { event: string; progress?: { session_id: string } },
  );
  expect([progress?.event, qr?.event, connected?.event]).toEqual(['progress', 'qr', 'connected']);
  expect(created.text).toMatch(/event: end\ndata: \{\}\n\n$/);
  expect(key.attributes.numbers).toEqual([history.numbers[0], progress?.progress?.session_id]);
  expect(refusal(await create())).toEqual([403, 'FORBIDDEN']);
  keys.edit(key, { creates: undefined });
  expect(refusal(await create()), 'without the option').toEqual([403, 'FORBIDDEN']);
});

test('2.14, 4.3, 5.4: only a number of the key is reconnected', async () => {
  const { ask, history, key, keys } = await setUp({ scopes: ['sessions:manage'] });
  const [one = '', other = ''] = history.numbers;
  keys.edit(key, { numbers: [one] });
  const resume = (request: object) => ask('POST', '/v1/sessions/resume', { body: JSON.stringify({ request }) });
  expect((await resume({ session_id: one })).text).toMatch(/"progress".*"connected".*event: end/s);
  expect(refusal(await resume({ session_id: other }))).toEqual([404, 'NOT_FOUND', 'SESSION_NOT_FOUND']);
  expect(refusal(await resume({ sessionId: one }))).toEqual([400, 'VALIDATION_FAILED', 'REQUEST_INVALID']);
});

test('5.3: every other route also needs its scope', async () => {
  const { ask } = await setUp({ scopes: ['groups:read'] });
  for (const path of ['/v1/messages/send', '/v1/sessions/resume', '/v1/sessions/create'])
    expect(refusal(await ask('POST', path, { body: '{}' }))).toEqual([403, 'FORBIDDEN']);
});
