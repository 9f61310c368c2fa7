import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { replayItem, replayPage } from '../../../src/service/shapes.ts';
import { refuse } from '../../../src/tools/simulator/faults.ts';
import { REASONS } from '../../contract/reasons.ts';
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

test('6.2, 7.4: ReplayEvents shows at most 1000 events, and refuses a higher limit with REQUEST_INVALID', async () => {
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
  '6.1: ReplayEvents refuses the cursor %j, which no earlier event has, with EVENT_CURSOR_INVALID',
  async (cursor) => {
    const { history, replay } = await setUp();
    history.next();
    expect(refusal(await replay({ after_cursor: cursor }))).toEqual([400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID']);
  },
);

test('4.2: ReplayEvents answers an expired cursor with reset_required', async () => {
  const { history, replay } = await setUp();
  const [a, b] = [history.next(), history.next()];
  history.expireUpTo(a.cursor ?? '');
  const { status, body } = await replay({ after_cursor: a.cursor });
  expect(status).toBe(200);
  expect(replayPage.parse(body)).toMatchObject({ events: [], has_more: false, reset_required: true });
  expect((await replay({})).body).toMatchObject({ events: [{ cursor: b.cursor }], reset_required: false });
});

test.each([['Bearer another'], ['svc_test_of_nobody'], ['']])(
  '5.1: the simulator refuses the credential %j with API_AUTH_REQUIRED',
  async (authorization) => {
    const { post } = await setUp();
    const response = await post('ReplayEvents', '{"request":{}}', { authorization });
    expect(refusal(response)).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED']);
  },
);

test('7.1: an error of the simulator has its request id in the envelope and in the header', async () => {
  const { post } = await setUp();
  const { headers, body } = await post('Nothing', '{"request":{}}');
  const { requestId, message } = body['error'] as Record<string, unknown>;
  expect(requestId).toBe(headers.get('x-request-id'));
  expect(message).toEqual(expect.any(String));
});

test('7.4: an unknown operation gets RPC_METHOD_NOT_FOUND, an unknown route a 404 without a reason', async () => {
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
])('4.1, 7.4: the simulator refuses the body %s with %s', async (body, reason) => {
  const { post } = await setUp();
  expect(refusal(await post('ReplayEvents', body))).toEqual([400, 'VALIDATION_FAILED', reason]);
});

test('7.4: the simulator refuses a body without the content type of JSON with JSON_INVALID', async () => {
  const { post } = await setUp();
  const response = await post('ReplayEvents', '{"request":{}}', { 'content-type': 'text/plain' });
  expect(refusal(response)).toEqual([400, 'VALIDATION_FAILED', 'JSON_INVALID']);
});

test('7.4, 8: the simulator refuses a body of an operation above 12 MiB with PAYLOAD_TOO_LARGE', async () => {
  const { post } = await setUp();
  const response = await post('ReplayEvents', ' '.repeat(12 * 1024 * 1024 + 1));
  expect(refusal(response)).toEqual([413, 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE']);
});

test('4.1: the simulator accepts a deadlineMs of 30000', async () => {
  const { replay } = await setUp();
  expect((await replay({}, { deadlineMs: 30_000 })).status).toBe(200);
});

test('8: an account can call 120 operations a minute, and the 429 after them has no Retry-After', async () => {
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

test('7.4: a test can make the simulator refuse a call with each listed reason', async () => {
  const { chaos, replay } = await setUp();
  for (const [reason, status] of REASONS) {
    chaos.next(refuse(status, reason));
    expect(refusal(await replay({}))).toEqual([status, expect.any(String), reason]);
  }
});

test('4.3: GET / describes the API without an API key; GET /v1 lists the operations and needs one', async () => {
  const { ask } = await setUp();
  expect(await ask('GET', '/v1/', { headers: NO_KEY })).toMatchObject({ status: 200, body: { version: 'v1' } });
  expect(refusal(await ask('GET', '/v1', { headers: NO_KEY }))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED']);
  expect((await ask('GET', '/v1')).body['operations']).toContain('ReplayEvents');
});

test('5.3, 7.4: the simulator refuses an operation without its scope with RPC_METHOD_FORBIDDEN', async () => {
  const { replay } = await setUp({ scopes: ['groups:read'] });
  expect(refusal(await replay({}))).toEqual([403, 'FORBIDDEN', 'RPC_METHOD_FORBIDDEN']);
});

test('5.4: ReplayEvents shows an API key restricted to numbers only their events', async () => {
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

test('3.1, 7.4: a revoked API key gets API_AUTH_REVOKED, an expired one API_AUTH_REQUIRED', async () => {
  const { clock, keys, key, replay } = await setUp({ validDays: 1 });
  clock.at += 86_400_000 - 1;
  expect((await replay({})).status).toBe(200);
  clock.at += 1;
  expect(refusal(await replay({}))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED']);
  keys.revoke(key);
  expect(refusal(await replay({}))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED']);
});

test.each([0, 1, 24] as const)('3.1: the old secret of an API key works for %i h after a rotation', async (hours) => {
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
])('7.2: an error of the simulator with the status %i has the code %s', async (status, code) => {
  const { chaos, replay } = await setUp();
  chaos.next(refuse(status));
  expect(refusal(await replay({}))).toEqual([status, code]);
});

test('5.5: an API key can be used from the addresses of a range that it allows', async () => {
  const { replay } = await setUp({ ips: ['10.0.0.1', '127.0.0.0/8'] });
  expect((await replay({})).status).toBe(200);
});

test('5.5, 7.4: a call from an address that its API key does not allow gets API_KEY_IP_FORBIDDEN', async () => {
  const { replay } = await setUp({ ips: ['10.0.0.1', '::1'] });
  expect(refusal(await replay({}))).toEqual([403, 'FORBIDDEN', 'API_KEY_IP_FORBIDDEN']);
});

/** All routes that need an API key. */
const ROUTES = [
  ['GET', '/v1'],
  ['GET', '/v1/events'],
  ['GET', '/v1/media/a-picture'],
  ['POST', '/v1/rpc/GetApiKeyIdentity'],
  ['POST', '/v1/messages/send'],
  ['POST', '/v1/billing/quotes'],
  ['POST', '/v1/sessions/resume'],
  ['POST', '/v1/sessions/create'],
] as const;

test.each(ROUTES)(
  '5.1, 7.1: %s %s without an API key gets 401, in an envelope with the id of the call',
  async (...route) => {
    const { ask } = await setUp();
    const [method, path] = route;
    const body = method === 'POST' ? { body: '{"request":{}}' } : {};
    const answered = await ask(method, path, { ...body, headers: NO_KEY });
    expect(refusal(answered)).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED']);
    expect(answered.body).toMatchObject({ error: { requestId: answered.headers.get('x-request-id') } });
  },
);

test.each(ROUTES)(
  "5.6, 7.4: an API key's own limit also holds on %s %s: API_KEY_RATE_LIMITED",
  async (method, path) => {
    const { ask, clock, replay } = await setUp({ perMinute: 1 });
    await replay({});
    const call = () => ask(method, path, method === 'POST' ? { body: '{"request":{}}' } : {});
    expect(refusal(await call())).toEqual([429, 'RATE_LIMITED', 'API_KEY_RATE_LIMITED']);
    clock.at += 60_000;
    expect((await replay({})).status).toBe(200);
  },
);

test.each([
  ['GET', '/v1/media/1', 60],
  ['POST', '/v1/billing/quotes', 60],
  ['POST', '/v1/sessions/create', 10],
  ['POST', '/v1/sessions/resume', 10],
  ['POST', '/v1/messages/send', 120],
])('8: an account can call %s %s %i times a minute', async (method, path, most) => {
  const { ask } = await setUp({ scopes: ['sessions:manage', 'messages:send'] });
  const call = () => ask(method, path, method === 'POST' ? { body: '{"request":{}}' } : {});
  for (let i = 0; i < most; i++) expect((await call()).status).not.toBe(429);
  expect(refusal(await call())).toEqual([429, 'RATE_LIMITED', 'RATE_LIMITED']);
});

test('5.6, 8: the limit of the account also holds for an API key with a limit of its own', async () => {
  const { keys, post, replay } = await setUp({ perMinute: 5 });
  const { secret } = keys.create({ name: 'another', scopes: ['events:read'], validDays: null });
  const authorization = `Bearer ${secret}`;
  for (let i = 0; i < 119; i++) await post('ReplayEvents', '{"request":{}}', { authorization });
  expect((await replay({})).status).toBe(200);
  expect(refusal(await replay({}))).toEqual([429, 'RATE_LIMITED', 'RATE_LIMITED']);
});

test('8: POST /sessions/create and /sessions/resume share the 10 calls of the account', async () => {
  const { ask } = await setUp({ scopes: ['sessions:manage'] });
  const call = (what: string) => ask('POST', `/v1/sessions/${what}`, { body: '{"request":{}}' });
  for (let i = 0; i < 5; i++) await call('create');
  for (let i = 0; i < 5; i++) expect((await call('resume')).status).not.toBe(429);
  for (const what of ['create', 'resume'])
    expect(refusal(await call(what))).toEqual([429, 'RATE_LIMITED', 'RATE_LIMITED']);
});

test('9: the simulator has no routes outside /v1', async () => {
  const { ask } = await setUp();
  for (const path of ['/events', '/rpc/GetApiKeyIdentity', '/v2/rpc/GetApiKeyIdentity'])
    expect(refusal(await ask('POST', path, { body: '{"request":{}}' }))).toEqual([404, 'NOT_FOUND']);
});

test('3.1: a rotation keeps the scopes, the numbers and the used calls of an API key', async () => {
  const { history, key, keys, post } = await setUp({ perMinute: 2 });
  const numbers = history.numbers.slice(0, 1);
  keys.edit(key, { numbers });
  const ask = (secret: string) => post('ReplayEvents', '{"request":{}}', { authorization: `Bearer ${secret}` });
  const [first, second] = [keys.rotate(key, 1), keys.rotate(key, 1)];
  expect(key.attributes).toMatchObject({ scopes: ['events:read'], numbers });
  expect([(await ask(first)).status, (await ask(second)).status]).toEqual([200, 200]);
  expect(refusal(await ask(second))).toEqual([429, 'RATE_LIMITED', 'API_KEY_RATE_LIMITED']);
});

test.each(['resume', 'create'])('8: the simulator refuses a body of POST /sessions/%s above 4 KiB', async (what) => {
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

test('4.3, 7.4: the simulator downloads its picture, and refuses other media with MEDIA_NOT_FOUND', async () => {
  const { ask } = await setUp();
  const { status, headers, text } = await ask('GET', '/v1/media/a-picture');
  expect([status, headers.get('content-type')]).toEqual([200, 'image/png']);
  expect(text).not.toBe('');
  expect(refusal(await ask('GET', '/v1/media/1'))).toEqual([404, 'NOT_FOUND', 'MEDIA_NOT_FOUND']);
});

test('4.1: the simulator ignores billing if the operation is not paid', async () => {
  const { replay } = await setUp();
  expect(await replay({}, { billing: 'nothing of the kind' })).toMatchObject({ status: 200 });
});

test('8: operations and sends share the 120 calls of the account, whichever API key makes them', async () => {
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
])('8: the simulator refuses a body of %s %s above 12 MiB', async (method, path) => {
  const { ask } = await setUp({ scopes: ['messages:send'] });
  const response = await ask(method, path, { body: ' '.repeat(12 * 1024 * 1024 + 1) });
  expect(refusal(response)).toEqual([413, 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE']);
});

test.each([
  ['proxy-500', 500],
  ['proxy-502', 502],
  ['proxy-503', 503],
] as const)('7.2: the fault %s answers an operation and the stream without an error envelope', async (name, status) => {
  const { ask, chaos, replay } = await setUp();
  chaos.next(name);
  chaos.next(name);
  for (const answered of [await replay({}), await ask('GET', '/v1/events')]) {
    expect(answered.status).toBe(status);
    expect(answered.body).toEqual({});
  }
});

test('4.3, 5.4: an API key creates numbers up to its maximum, and reaches each of them', async () => {
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

test('2.14, 4.3, 5.4: an API key can reconnect only its own numbers; another gets SESSION_NOT_FOUND', async () => {
  const { ask, history, key, keys } = await setUp({ scopes: ['sessions:manage'] });
  const [one = '', other = ''] = history.numbers;
  keys.edit(key, { numbers: [one] });
  const resume = (request: object) => ask('POST', '/v1/sessions/resume', { body: JSON.stringify({ request }) });
  expect((await resume({ session_id: one })).text).toMatch(/"progress".*"connected".*event: end/s);
  expect(refusal(await resume({ session_id: other }))).toEqual([404, 'NOT_FOUND', 'SESSION_NOT_FOUND']);
  expect(refusal(await resume({ sessionId: one }))).toEqual([400, 'VALIDATION_FAILED', 'REQUEST_INVALID']);
});

test('5.3: the simulator refuses sends and the pairing of numbers without their scopes', async () => {
  const { ask } = await setUp({ scopes: ['groups:read'] });
  for (const path of ['/v1/messages/send', '/v1/sessions/resume', '/v1/sessions/create'])
    expect(refusal(await ask('POST', path, { body: '{}' }))).toEqual([403, 'FORBIDDEN']);
});
