import { expect, onTestFinished, test } from 'vitest';
import { createServiceApi } from '../../src/simulator/api.ts';
import { createHistory } from '../../src/simulator/history.ts';
import { replayItem, replayPage } from '../../src/wire/replay.ts';

const KEY = 'svc_test_of_the_tests';

async function setUp() {
  const clock = { at: Date.UTC(2026, 0, 1), now: () => clock.at };
  const history = createHistory({ seed: 1, clock });
  const api = createServiceApi({ history, apiKey: KEY, clock });
  const base = await api.listen();
  onTestFinished(() => api.close());

  async function post(operation: string, body: string, headers: Record<string, string> = {}) {
    const response = await fetch(`${base}/rpc/${operation}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', ...headers },
      body,
    });
    return {
      status: response.status,
      headers: response.headers,
      body: (await response.json()) as Record<string, unknown>,
    };
  }
  const replay = (request: object, more: object = {}) => post('ReplayEvents', JSON.stringify({ request, ...more }));
  return { clock, history, api, base, post, replay };
}

/** What a refusal says, without what differs from call to call. */
function refusal({ status, body }: { status: number; body: Record<string, unknown> }) {
  const { code, reason } = body['error'] as { code: string; reason?: string };
  return [status, code, ...(reason === undefined ? [] : [reason])];
}

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
  '6.1: %j, which is no earlier event, is refused',
  async (cursor) => {
    const { history, replay } = await setUp();
    history.next();
    expect(refusal(await replay({ after_cursor: cursor }))).toEqual([400, 'VALIDATION_FAILED', 'EVENT_CURSOR_INVALID']);
  },
);

test('4.2: an expired cursor asks for a reset', async () => {
  const { history, replay } = await setUp();
  const [a, b] = [history.next(), history.next()];
  history.expireUpTo(a.cursor ?? '');
  const { status, body } = await replay({ after_cursor: a.cursor });
  expect(status).toBe(200);
  expect(replayPage.parse(body)).toMatchObject({ events: [], has_more: false, reset_required: true });
  expect((await replay({})).body).toMatchObject({ events: [{ cursor: b.cursor }], reset_required: false });
});

test.each([['Bearer another'], [KEY], ['']])('5.1: the credential %j is refused', async (authorization) => {
  const { post } = await setUp();
  const response = await post('ReplayEvents', '{"request":{}}', { authorization });
  expect(refusal(response)).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REQUIRED']);
});

test('7.1: an error says its request id in the envelope and in the header', async () => {
  const { post } = await setUp();
  const { headers, body } = await post('Nothing', '{"request":{}}');
  const { requestId, message } = body['error'] as Record<string, unknown>;
  expect(requestId).toBe(headers.get('x-request-id'));
  expect(message).toEqual(expect.any(String));
});

test('7.4: an unknown operation is named as such; another route is just not there', async () => {
  const { base, post } = await setUp();
  expect(refusal(await post('Nothing', '{"request":{}}'))).toEqual([404, 'NOT_FOUND', 'RPC_METHOD_NOT_FOUND']);
  const response = await fetch(`${base}/elsewhere`, { headers: { authorization: `Bearer ${KEY}` } });
  expect(refusal({ status: response.status, body: (await response.json()) as Record<string, unknown> })).toEqual([
    404,
    'NOT_FOUND',
  ]);
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
  ['{"request":{"afterCursor":"1"}}', 'REQUEST_INVALID'],
])('4.1, 7.4: the body %s is refused as %s', async (body, reason) => {
  const { post } = await setUp();
  expect(refusal(await post('ReplayEvents', body))).toEqual([400, 'VALIDATION_FAILED', reason]);
});

test('7.4: a body must call itself JSON', async () => {
  const { post } = await setUp();
  const response = await post('ReplayEvents', '{"request":{}}', { 'content-type': 'text/plain' });
  expect(refusal(response)).toEqual([400, 'VALIDATION_FAILED', 'JSON_INVALID']);
});

test('8: a body above 12 MiB is refused', async () => {
  const { post } = await setUp();
  const response = await post('ReplayEvents', ' '.repeat(12 * 1024 * 1024 + 1));
  expect(refusal(response)).toEqual([413, 'VALIDATION_FAILED', 'PAYLOAD_TOO_LARGE']);
});

test('4.1: a deadline within its bounds is taken', async () => {
  const { replay } = await setUp();
  expect((await replay({}, { deadlineMs: 30_000 })).status).toBe(200);
});

test('8: an account has 120 calls a minute, and no answer says when to come again', async () => {
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

test('a test can have the next calls fail, in order', async () => {
  const { api, replay } = await setUp();
  api.failNext(503, 'UNAVAILABLE');
  api.failNext(401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED');
  expect(refusal(await replay({}))).toEqual([503, 'UNAVAILABLE']);
  expect(refusal(await replay({}))).toEqual([401, 'UNAUTHENTICATED', 'API_AUTH_REVOKED']);
  expect((await replay({})).status).toBe(200);
});
